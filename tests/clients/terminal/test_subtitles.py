"""Turns as subtitles and as files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lookhear.errors import OutputError, UsageError
from lookhear.live.events import Said, TurnCompleted
from lookhear.terminal.subtitles import TranscriptFile, cues, srt, txt, vtt

TURNS = [TurnCompleted("b", " two ", 61.0, 3661.25), TurnCompleted("a", "one", 0.5, 59.9996)]


def test_formats() -> None:
    assert srt(TURNS) == (
        "1\n00:00:00,500 --> 00:01:00,000\none\n\n2\n00:01:01,000 --> 01:01:01,250\ntwo\n\n"
    )
    assert vtt(TURNS[:1]) == "WEBVTT\n\n00:01:01.000 --> 01:01:01.250\ntwo\n\n"
    assert txt(TURNS) == "one\ntwo\n"
    assert srt([TurnCompleted("a", " ", 0.0, 1.0)]) == ""


def test_of_a_text_nothing_is_taken_for_markup() -> None:
    turns = [TurnCompleted("a", "if a<b & b-->c", 0.0, 1.0)]
    assert vtt(turns).splitlines()[-2] == "if a&lt;b &amp; b--&gt;c"
    assert srt(turns).splitlines()[-2] == "if a<b & b->c"
    assert txt(turns) == "if a<b & b-->c\n"


def test_who_says_what_is_told() -> None:
    said = (Said("A", "Hello there.", 0.0, 1.5), Said("B", " Hi Bob.", 1.5, 3.0))
    turns = [TurnCompleted("i", "Hello there. Hi Bob.", 0.0, 3.0, "en", said), TURNS[1]]
    assert txt(turns) == "A: Hello there.\nB: Hi Bob.\none\n"
    assert cues(turns[:1]) == [(0.0, 1.5, "A: Hello there."), (1.5, 3.0, "B: Hi Bob.")]


@given(st.lists(st.text("ab. ,", max_size=30)))
def test_a_long_turn_becomes_cues_that_follow_each_other(words: list[str]) -> None:
    turn = TurnCompleted("a", " ".join(words), 10.0, 70.0)
    made = cues([turn])
    assert " ".join(text for _, _, text in made) == " ".join(turn.text.split())
    assert all(len(text) <= 84 for _, _, text in made)
    assert all(a[1] == b[0] for a, b in zip(made, made[1:], strict=False))
    if made:
        assert made[0][0] == 10.0 and made[-1][1] == pytest.approx(70.0)


def test_a_cue_ends_with_a_sentence() -> None:
    first = "The plane to Lisbon leaves at twelve forty today."
    made = cues([TurnCompleted("a", f"{first} Play music.", 0.0, 6.0)])
    assert [text for _, _, text in made] == [first, "Play music."]


def test_where_there_are_no_spaces_cues_end_behind_signs() -> None:
    said = [
        "月曜日から金曜日まで、朝九時から午後六時まで開いています。",
        "予約をする場合は、",
        "一番を",
    ]
    made = cues([TurnCompleted("a", "".join(said), 0.0, 8.8)])
    assert [text for _, _, text in made] == [said[0], said[1] + said[2]]


@given(st.text("ab。、 」天", max_size=300))
def test_of_any_script_all_is_shown_in_lines_that_fit(text: str) -> None:
    made = [cue for _, _, cue in cues([TurnCompleted("a", text, 0.0, 9.0)])]
    assert "".join(made).replace(" ", "") == "".join(text.split())
    assert all(cell_len(cue) <= 84 and cue == cue.strip() != "" for cue in made)


def test_a_file_is_whole_after_every_turn(tmp_path: Path) -> None:
    path = tmp_path / "talk.VTT"
    path.write_text("of yesterday")
    file = TranscriptFile(str(path))
    assert path.read_text() == "of yesterday"
    file.save()
    assert path.read_text() == "WEBVTT\n\n"
    for number, turn in enumerate(TURNS, 1):
        file.add(turn)
        assert path.read_text() == vtt(TURNS[:number])
    assert [entry.name for entry in tmp_path.iterdir()] == ["talk.VTT"]
    with pytest.raises(UsageError, match=r"\.srt, \.vtt or \.txt"):
        TranscriptFile("talk.mp3")


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_who_may_read_a_file_and_what_links_to_it_stay(mode: int, tmp_path: Path) -> None:
    path, link = tmp_path / "talk.srt", tmp_path / "link.srt"
    file = TranscriptFile(str(path))
    path.touch(mode)
    path.chmod(mode)
    link.symlink_to("talk.srt")
    file.add(TURNS[0])
    TranscriptFile(str(link)).add(TURNS[0])
    assert path.read_text() == srt(TURNS[:1]) and link.readlink() == Path("talk.srt")
    assert path.stat().st_mode & 0o777 == mode


def test_a_new_file_is_as_readable_as_others(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch()
    (tmp_path / "link.srt").symlink_to("talk.srt")
    TranscriptFile(str(tmp_path / "link.srt")).add(TURNS[0])
    assert (tmp_path / "talk.srt").stat().st_mode == other.stat().st_mode


def test_a_file_in_a_folder_that_takes_no_other_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "texts").mkdir()
    path, link = tmp_path / "texts" / "talk.srt", tmp_path / "link.srt"
    path.write_text("of yesterday, and a good deal longer than what is said today" * 3)
    link.symlink_to(path)
    # Of root no folder keeps anything out.
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != path.parent)
    for name in (path, link):
        file = TranscriptFile(str(name))
        before = path.read_text()
        file.add(TURNS[0])
        assert path.read_text() == before
        file.save()
        assert path.read_text() == srt(TURNS[:1])


@pytest.mark.parametrize("target", ["nowhere/talk.srt", "other.srt"])
def test_a_link_into_a_folder_that_is_missing_is_no_place(target: str, tmp_path: Path) -> None:
    (tmp_path / "link.srt").symlink_to(target)
    (tmp_path / "other.srt").symlink_to("nowhere/talk.srt")
    with pytest.raises(OutputError, match=r"cannot write .*link\.srt: there is no .*/nowhere$"):
        TranscriptFile(str(tmp_path / "link.srt"))


def test_a_pipe_is_written_into_once(tmp_path: Path) -> None:
    path = tmp_path / "talk.srt"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file = TranscriptFile(str(path))
    for turn in TURNS[:2]:
        file.add(turn)
    file.save()
    assert os.read(reading, 65_536).decode() == srt(TURNS[:2])
    os.close(reading)
    assert list(tmp_path.iterdir()) == [path] and path.is_fifo()


def test_a_file_whose_name_is_as_long_as_a_name_may_be(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 125 + "n.srt")  # 255 bytes
    TranscriptFile(str(path)).add(TURNS[0])
    assert path.read_text() == srt(TURNS[:1])
    assert list(tmp_path.iterdir()) == [path]
