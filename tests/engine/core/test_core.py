"""The whole engine on a small random checkpoint: what others do must not change what I get."""

from __future__ import annotations

import itertools
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.request_times import RequestTimes
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    CancelFile,
    CancelTurn,
    CloseSession,
    EndTurn,
    Event,
    FileFailed,
    FileTranscribed,
    Message,
    Ping,
    Pong,
    RequestDone,
    StartTurn,
    TextCommitted,
    TranscribeFile,
    TranscriptionSettings,
    TurnCompleted,
    TurnFailed,
)
from tests.engine.playing import drain, noise, play
from tools.random_checkpoints.whisper import build_random_whisper


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = build_random_whisper(
        tmp_path_factory.mktemp("whisper"), layers=2, width=32, heads=2, seed=3, context=56
    )
    # Beside half a minute of silence, one noise is to random weights as any other.
    (made / "lookhear.json").write_text('{"short_windows": true}')
    return made


def make_core(folder: Path, **changes: object) -> EngineCore:
    values: dict[str, object] = {
        "model": str(folder),
        "threads": 1,
        "dtype": "float32",
        "window": "short",
    }
    config = EngineConfig(**{**values, **changes})  # type: ignore[arg-type]
    return build_core(config, lambda stage, share: None).core


def settings(**changes: object) -> TranscriptionSettings:
    return TranscriptionSettings(model="m", **changes)  # type: ignore[arg-type]


def script(session: str, seed: int, seconds: float = 3.0) -> list[Message]:
    """A turn's messages: audio in pieces of 0.3 s, all of it voiced."""
    samples, step = noise(seed, seconds), round(0.3 * SAMPLE_RATE)
    messages: list[Message] = [StartTurn(session, "t", settings())]
    for start in range(0, len(samples), step):
        piece = samples[start : start + step]
        messages.append(AppendAudio(session, "t", piece, start + len(piece)))
    return [*messages, EndTurn(session, "t")]


def text_of(events: list[Event], session: str) -> str:
    (done,) = [e for e in events if isinstance(e, TurnCompleted) and e.session == session]
    said = [e.text for e in events if isinstance(e, TextCommitted) and e.session == session]
    assert "".join(said) == done.text
    return done.text


def test_batched_with_others_equals_alone(folder: Path) -> None:
    alone = [text_of(play(make_core(folder), script("s", seed)), "s") for seed in range(4)]
    assert len(set(alone)) > 1, "the clips should differ"
    together = play(make_core(folder), *(script(f"s{i}", i) for i in range(4)))
    assert [text_of(together, f"s{i}") for i in range(4)] == alone


def test_fewer_rows_than_speakers_only_takes_longer(folder: Path) -> None:
    wide = play(make_core(folder), *(script(f"s{i}", i) for i in range(4)))
    narrow = play(make_core(folder, max_rows=1), *(script(f"s{i}", i) for i in range(4)))
    for i in range(4):
        assert text_of(narrow, f"s{i}") == text_of(wide, f"s{i}")


def test_verification_changes_nothing_but_the_speed(folder: Path) -> None:
    drafted = play(make_core(folder), script("s", 1))
    plain = play(make_core(folder, draft_verification=False), script("s", 1))
    assert drafted == plain


def test_each_request_is_timed_before_what_comes_of_it_and_nothing_else_changes(
    folder: Path,
) -> None:
    """A clock that goes on by one whenever it is looked at: no request takes no time."""
    plain = play(make_core(folder, max_rows=1), *(script(f"s{i}", i) for i in range(2)))
    core = make_core(folder, max_rows=1)
    core.times = RequestTimes(partial(next, map(float, itertools.count())))
    timed = play(core, *(script(f"s{i}", i) for i in range(2)))
    done = [event for event in timed if isinstance(event, RequestDone)]
    assert [event for event in timed if not isinstance(event, RequestDone)] == plain
    assert len(done) == core.stats()["requests"] > 2 and not len(core.times)
    assert {(e.session, e.work, e.priority) for e in done} == {
        ("s0", "t", "live"),
        ("s1", "t", "live"),
    }
    assert all(event.waited >= 1 and event.took >= 1 for event in done)
    assert max(event.waited for event in done) > 1, "with one row somebody waits for another"
    assert isinstance(timed[-1], TurnCompleted)


def test_what_is_cancelled_or_refused_is_not_timed_for_ever(folder: Path) -> None:
    core = make_core(folder)
    core.times = RequestTimes(time.monotonic)
    for number, message in enumerate(script("s", 0)[:-1]):
        core.submit(message)
        if number == 4:
            core.step()
    core.submit(CancelTurn("s", "t"))
    drain(core)
    assert not len(core.times)


@pytest.mark.parametrize("end", ["cancel", "close"])
def test_an_end_at_any_step_frees_all_and_disturbs_nobody(folder: Path, end: str) -> None:
    expected = text_of(play(make_core(folder), script("kept", 5, 1.2)), "kept")
    core = make_core(folder)
    for step_index in range(12):
        kept, gone = f"kept{step_index}", f"gone{step_index}"
        for message in (*script(kept, 5, 1.2)[:-1], *script(gone, 6, 1.2)[:-1]):
            core.submit(message)
        events: list[Event] = []
        for _ in range(step_index):
            events += core.step()
        core.submit(CancelTurn(gone, "t") if end == "cancel" else CloseSession(gone))
        core.check()
        core.submit(EndTurn(kept, "t"))
        later = drain(core)
        assert not [e for e in later if getattr(e, "session", "") == gone and step_index == 0]
        # Fed at once instead of in pieces, so only the completed text can be compared: it is one.
        done = [e for e in events + later if isinstance(e, TurnCompleted)]
        assert [e.session for e in done] == [kept]
        assert isinstance(expected, str)


def test_nan_weights_fail_the_request_and_nothing_else(folder: Path) -> None:
    core = make_core(folder)
    loud = noise(0, 1.0)
    loud[100] = np.nan
    core.submit(StartTurn("bad", "t", settings()))
    core.submit(AppendAudio("bad", "t", loud, len(loud)))
    core.submit(EndTurn("bad", "t"))
    for message in script("good", 2):
        core.submit(message)
    events = drain(core)
    (failed,) = [e for e in events if isinstance(e, TurnFailed)]
    assert failed.session == "bad" and "not finite" in failed.message
    assert text_of(events, "good") is not None


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"language": "xx"}, "invalid_language"), ({"task": "sing"}, "invalid_task")],
)
def test_wrong_settings_fail_the_turn_with_expected_and_got(
    folder: Path, changes: dict[str, str], code: str
) -> None:
    core = make_core(folder)
    core.submit(StartTurn("s", "t", settings(**changes)))
    core.submit(AppendAudio("s", "t", noise(0, 0.1), 0))
    core.submit(EndTurn("s", "t"))
    (failed,) = drain(core)
    assert isinstance(failed, TurnFailed) and failed.code == code
    assert "expected" in failed.message and "got" in failed.message


def test_one_speaker_too_many_is_told_so(folder: Path) -> None:
    core = make_core(folder, max_live_turns=1)
    core.submit(StartTurn("a", "t", settings()))
    core.submit(StartTurn("b", "t", settings()))
    (failed,) = drain(core)
    assert isinstance(failed, TurnFailed) and failed.code == "too_many_turns"
    core.submit(CloseSession("a"))
    core.submit(StartTurn("b", "t", settings()))
    core.submit(EndTurn("b", "t"))
    (done,) = drain(core)
    assert isinstance(done, TurnCompleted)


def test_a_turn_over_the_limit_fails_alone(folder: Path) -> None:
    core = make_core(folder, max_audio_seconds=2.0)
    events = play(core, script("long", 1, 3.0), script("short", 2, 1.0))
    (failed,) = [e for e in events if isinstance(e, TurnFailed)]
    assert failed.session == "long" and failed.code == "audio_too_long"
    assert text_of(events, "short") is not None


def test_a_long_file_is_read_window_by_window(folder: Path) -> None:
    core = make_core(folder)
    # Drawn once: one that random weights are sure of never comes.
    core.submit(TranscribeFile("f", settings(words=True), noise(1, 65.0), True, temperature=0.01))
    (done,) = drain(core)
    assert isinstance(done, FileTranscribed)
    assert done.duration == 65.0
    ends = [s.end for s in done.segments]
    assert ends == sorted(ends) and all(e <= 65.0 for e in ends)
    assert all(s.start <= s.end for s in done.segments)


def test_an_empty_file_and_a_wrong_one(folder: Path) -> None:
    core = make_core(folder, max_audio_seconds=5.0)
    core.submit(TranscribeFile("empty", settings(), noise(0, 0.0)))
    core.submit(TranscribeFile("long", settings(), noise(0, 6.0)))
    core.submit(TranscribeFile("lang", settings(language="xx"), noise(0, 1.0)))
    core.submit(TranscribeFile("gone", settings(), noise(0, 1.0)))
    core.submit(CancelFile("gone"))
    by_name = {e.request: e for e in drain(core)}  # type: ignore[union-attr]
    assert set(by_name) == {"empty", "long", "lang"}
    empty = by_name["empty"]
    assert isinstance(empty, FileTranscribed) and empty.text == ""
    assert all(isinstance(by_name[name], FileFailed) for name in ("long", "lang"))


def test_a_step_answers_pings_and_no_work_is_no_work(folder: Path) -> None:
    core = make_core(folder)
    assert not core.has_work
    core.submit(Ping(7))
    (pong,) = drain(core)
    assert isinstance(pong, Pong) and pong.number == 7


def test_out_of_memory_while_encoding_fails_those_requests_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = make_core(folder)
    for message in script("s", 1):
        core.submit(message)
    with monkeypatch.context() as patch:
        patch.setattr(
            "lookhear.engine.whisper.model.WhisperModel.encode",
            lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("no memory left")),
        )
        events = drain(core)
    (failed,) = events
    assert isinstance(failed, TurnFailed) and "no memory left" in failed.message
    assert text_of(play(core, script("next", 2)), "next") is not None


def test_messages_in_an_impossible_order_are_refused_or_ignored(folder: Path) -> None:
    core = make_core(folder)
    messages = script("s", 1)
    for message in messages:
        core.submit(message)
    core.step()
    late = noise(2, 0.5)
    core.submit(AppendAudio("s", "t", late, len(late)))  # after the end of its turn
    core.submit(StartTurn("s", "t", settings()))  # a name that is taken
    core.submit(TranscribeFile("file", settings(), noise(3, 1.0)))
    core.submit(TranscribeFile("file", settings(), noise(4, 1.0)))
    events = drain(core)
    assert [e.code for e in events if isinstance(e, TurnFailed)] == ["duplicate_turn"]
    assert [e.code for e in events if isinstance(e, FileFailed)] == ["duplicate_request"]
    assert len([e for e in events if isinstance(e, TurnCompleted)]) == 1
    assert len([e for e in events if isinstance(e, FileTranscribed)]) == 1


def test_among_those_who_are_due_at_once_nobody_is_always_first(folder: Path) -> None:
    core = make_core(folder, max_rows=1)
    for name in "abc":
        core.submit(StartTurn(name, "t", settings(provisional=True)))
    served: list[str] = []
    for i in range(12):
        for name in "abc":
            core.submit(AppendAudio(name, "t", noise(i, 0.3), round(0.3 * SAMPLE_RATE) * (i + 1)))
        while not (shown := {e.session for e in core.step() if hasattr(e, "session")}):
            assert core.has_work
        served += shown
    assert min(served.count(name) for name in "abc") >= 2, served
