"""Recordings of people: got from packages, strung together, compared; all of it on made ones."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lookhear.bench import human as bench_human
from lookhear.bench.measures.spelling import WHISPER, spelled
from lookhear.bench.measures.trace import RATE, SpokenWord
from lookhear.bench.measures.wording import sentences_of, written_alike
from lookhear.bench.recordings import debian, human
from lookhear.bench.recordings.composed import PAUSES, beside, minutes_long, noisy, telephone
from lookhear.bench.recordings.conditions import IN_A_ROW, by_turns
from lookhear.bench.recordings.debian import Package, fetch, members
from lookhear.bench.recordings.session import Session
from lookhear.bench.recordings.sounds import NOBODY
from lookhear.bench.recordings.speech import held_out_sessions, long_session
from lookhear.bench.recordings.word_times import speech, spoken_words
from lookhear.errors import SourceError
from lookhear.terminal.progress import Report

TEXT = st.lists(
    st.sampled_from(["one", "Two", "three,", "four.", "Five?"]), min_size=1, max_size=12
).map(" ".join)


def quiet(stage: str, share: float | None) -> None:
    pass


def tone(seconds: float, rate: int = RATE) -> NDArray[np.float32]:
    return (0.3 * np.sin(np.arange(int(seconds * rate)) / rate * 1400)).astype(np.float32)


# --- texts ---------------------------------------------------------------------------------------


def test_spelling_is_whispers() -> None:
    assert spelled("Press 1!", "en", WHISPER) == spelled("press one", "en", WHISPER)
    assert spelled("¿Su número?", "es", WHISPER) == ["su", "numero"]
    assert spelled("Press 1!", "en") == ["press", "1"]


@given(TEXT)
def test_a_text_is_written_like_itself(text: str) -> None:
    assert sum(sentences_of(text), []) == text.split()
    assert written_alike(text, text) == (len(sentences_of(text)),) * 2


@given(TEXT, TEXT)
def test_no_more_sentences_are_alike_than_there_are(text: str, other: str) -> None:
    same, count = written_alike(text, other)
    assert 0 <= same <= count <= len(sentences_of(text))


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        ("Ask not what. Then go.", (2, 2)),
        ("ASK NOT what. Then go.", (1, 2)),
        ("Ask not what then go", (0, 2)),
        ("Ask not that what. Then went.", (2, 2)),  # another word is for the WER
        ("Ask not what.", (1, 1)),
        ("", (0, 0)),
    ],
)
def test_case_and_punctuation(other: str, alike: tuple[int, int]) -> None:
    assert written_alike("Ask not what. Then go.", other) == alike


# --- word times ----------------------------------------------------------------------------------


@given(TEXT, st.lists(st.tuples(st.integers(4, 40), st.integers(10, 60)), min_size=1, max_size=4))
def test_words_are_where_somebody_speaks(text: str, shape: list[tuple[int, int]]) -> None:
    """shape: hundredths of a second of silence, and of sound after it."""
    parts = [(np.zeros(RATE * gap // 100, "f4"), tone(loud / 100)) for gap, loud in shape]
    samples = np.concatenate([piece for pair in parts for piece in pair])
    words = spoken_words(samples, RATE, text)
    assert [word.word for word in words] == text.split()
    edges = [edge for word in words for edge in (word.start, word.end)]
    assert edges == sorted(edges)
    stretches = speech(samples, RATE)
    for edge in edges:
        assert any(a - 1e-6 <= edge <= b + 1e-6 for a, b in stretches), (edge, stretches)
    assert edges[0] == pytest.approx(stretches[0][0]) and edges[-1] == pytest.approx(
        stretches[-1][1]
    )


def test_a_long_word_takes_longer_and_silence_is_no_error() -> None:
    first, second = spoken_words(tone(2.0), RATE, "internationally so")
    assert first.end - first.start > 3 * (second.end - second.start)
    assert len(spoken_words(np.zeros(RATE, "f4"), RATE, "a b")) == 2
    assert spoken_words(tone(1.0), RATE, "...") == ()


# --- long recordings -----------------------------------------------------------------------------


def utterances(count: int) -> list[Session]:
    """Of half a second each, loud from end to end, at a level of its own."""
    made = []
    for number in range(count):
        samples = np.full(RATE // 2, 1000 + 10 * number, "<i2")
        word = (SpokenWord(f"w{number}", 0.1, 0.4),)
        made.append(Session(f"u{number}", samples, f"W{number}.", word, "en", spelling=WHISPER))
    return made


@given(st.integers(1, 30), st.floats(0.5, 20), st.integers(0, 5), st.booleans())
def test_everything_is_said_once_and_in_order(
    count: int, seconds: float, seed: int, interludes: bool
) -> None:
    said = utterances(count)
    found = minutes_long(said, seconds, name="en", interludes=interludes, seed=seed)
    assert [part for session in found for part in session.parts] == [u.text for u in said]
    assert len({session.name for session in found}) == len(found)
    words = iter(said)
    for session in found:
        assert session.text == " ".join(session.parts) and session.spelling == WHISPER
        assert session.errors(session.text).wrong == 0
        for word in session.words:
            inside = session.pcm[int(word.start * RATE) + 1 : int(word.end * RATE)]
            assert (inside == next(words).pcm[0]).all()
    for session in found[:-1]:
        assert len(session.pcm) / RATE >= seconds
    again = minutes_long(said, seconds, name="en", interludes=interludes, seed=seed)
    assert all(np.array_equal(a.pcm, b.pcm) for a, b in zip(found, again, strict=True))


def test_pauses_are_as_long_as_they_should_be() -> None:
    (session,) = minutes_long(utterances(30), 1e9, name="en")
    gaps = [b.start - a.end for a, b in zip(session.words, session.words[1:], strict=False)]
    assert min(gaps) >= PAUSES[0] + 0.2 - 1e-3 and max(gaps) <= PAUSES[1] + 0.2 + 1e-3
    assert max(gaps) - min(gaps) > 0.8


@given(st.integers(1, 20), st.integers(1, 20), st.floats(0.5, 20), st.integers(0, 5))
def test_languages_by_turns(count: int, others: int, seconds: float, seed: int) -> None:
    english = utterances(count)
    spanish = [replace(u, language="es", text=f"E{u.text}") for u in utterances(others)]
    found = by_turns({"en": english, "es": spanish}, seconds, seed)
    said = [(session, part) for session in found for part in session.parts]
    most = min(count, others)
    for code, own in (("en", english), ("es", spanish)):
        texts = [u.text for u in own[:most]]
        assert [part for _, part in said if part in texts] == texts, code
    code_of = {u.text: u.language for u in english + spanish}
    in_a_row = [len(list(run)) for _, run in groupby(code_of[part] for _, part in said)]
    assert max(in_a_row) <= IN_A_ROW
    for session in found:
        for word, part in zip(session.words, session.parts, strict=True):
            assert session.language_at(word.start) == session.language_at(word.end) == code_of[part]
        assert session.language == (code_of[session.parts[0]] if not session.changes else "")
        assert session.errors(session.text).wrong == 0


def test_noise_is_as_far_below_the_speech_as_it_says() -> None:
    sound = (tone(4.0) * 8000).astype("<i2")
    clean = Session("s", sound, "w", (SpokenWord("w", 0.0, 4.0),), "en")
    for decibels in (20.0, 10.0):
        added = noisy(decibels)(clean).pcm.astype(float) - clean.pcm
        ratio = 20 * np.log10(clean.pcm.astype(float).std() / added.std())
        assert ratio == pytest.approx(decibels, abs=0.3)


def test_who_speaks_on_is_as_far_below_and_as_long_as_the_speech() -> None:
    def said(seconds: float, loud: float) -> Session:
        sound = (tone(seconds) * loud).astype("<i2")
        return Session("s", sound, "w", (SpokenWord("w", 0.0, seconds),), "en")

    speech, others = said(4.0, 8000), [said(1.0, 900), said(0.7, 900)]
    made = beside(others, 15.0, 0)(speech)
    added = made.pcm.astype(float) - speech.pcm
    assert 20 * np.log10(speech.pcm.astype(float).std() / added.std()) == pytest.approx(
        15.0, abs=0.3
    )
    assert made.words == speech.words and len(made.pcm) == len(speech.pcm)


@given(num_samples=st.integers(RATE, 4 * RATE))
def test_noise_of_any_length(num_samples: int) -> None:
    clean = Session("s", np.ones(num_samples, "<i2"), "w", (SpokenWord("w", 0.0, 0.5),), "en")
    assert len(noisy(10.0)(clean).pcm) == num_samples


def test_a_telephone_carries_nothing_above_4_kilohertz() -> None:
    hiss = np.random.default_rng(0).integers(-9000, 9000, 2 * RATE).astype("<i2")
    power = np.abs(np.fft.rfft(telephone(Session("s", hiss, "", (), "en")).pcm)) ** 2
    hertz = np.fft.rfftfreq(2 * RATE, 1 / RATE)
    assert power[hertz > 4200].sum() < 1e-3 * power.sum()


@pytest.mark.parametrize("name", NOBODY)
def test_sounds_are_as_long_and_as_loud_as_they_should_be(name: str) -> None:
    make, level = NOBODY[name]
    sound = make(3.0, np.random.default_rng(0)) * level
    assert sound.shape == (3 * RATE,) and np.isfinite(sound).all()
    assert np.abs(sound).max() <= 1.0 and (name == "silence") == (not sound.any())


# --- packages ------------------------------------------------------------------------------------


def deb(files: dict[str, bytes]) -> bytes:
    """A Debian package: an ar archive with a compressed tar of the files in it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    out = b"!<arch>\n"
    for name, content in (("debian-binary", b"2.0\n"), ("data.tar.xz", packed.getvalue())):
        head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        out += head + content + b"\n" * (len(content) % 2)
    return out


def package(path: str, content: bytes) -> Package:
    return Package(path, hashlib.sha256(content).hexdigest(), len(content), "none")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def archive(folder: Path) -> Iterator[str]:
    """The folder at a loopback address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_next_source_is_asked_and_nothing_wrong_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = deb({"usr/a/x": b"1", "usr/b/y": b"2"})
    wanted = package("p.deb", content)
    for name, there in (("tampered", content + b"!"), ("good", content)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "p.deb").write_bytes(there)
    cache = tmp_path / "cache"
    with archive(tmp_path) as url:
        monkeypatch.setattr(debian, "SOURCES", (f"{url}/nothing", f"{url}/tampered"))
        with pytest.raises(SourceError, match="nothing.*404.*tampered"):
            fetch(wanted, cache, quiet)
        assert not list(cache.glob("*"))
        monkeypatch.setattr(debian, "SOURCES", (f"{url}/tampered", f"{url}/good"))
        shares: list[float | None] = []
        path = fetch(wanted, cache, lambda stage, share: shares.append(share))
        assert path.read_bytes() == content and shares[-1] == 1.0
    assert fetch(wanted, cache, quiet) == path  # without a network
    assert dict(members(path, ("usr/b/",))) == {"usr/b/y": b"2"}


def g722(samples: NDArray[np.float32]) -> bytes:
    """[n] samples at 16 kHz, as the packages hold them."""
    out = io.BytesIO()
    with av.open(out, "w", format="g722") as file:
        stream = file.add_stream("g722", rate=16_000, layout="mono")
        shorts = (samples * 32767).astype("<i2").reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(shorts, format="s16", layout="mono")
        frame.sample_rate = 16_000
        file.mux([*stream.encode(frame), *stream.encode(None)])
    return out.getvalue()


def test_packages_become_a_folder_of_recordings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = np.concatenate([np.zeros(1600, "f4"), tone(1.0, 16_000)])
    listed = gzip.compress(b"; a comment\nhello: Hello, you.\ndir/two: And: two.\nnot: wanted\n")
    wav = io.BytesIO()
    soundfile.write(wav, sound, 16_000, format="WAV")
    book = "usr/share/pocketsphinx/test/data/librivox"
    sounds = {
        f"usr/share/asterisk/sounds/en_US/{n}.g722": g722(sound) for n in ("hello", "dir/two")
    }
    made = {
        "texts.deb": {"usr/share/doc/asterisk-core-sounds-en/core-sounds-en.txt.gz": listed},
        "sounds.deb": sounds,
        "book.deb": {
            f"{book}/transcription": b"<s> it was so </s> (read-0001)\n",
            f"{book}/read-0001.wav": wav.getvalue(),
        },
    }
    contents = {name: deb(files) for name, files in made.items()}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    texts, voices, read = (package(name, content) for name, content in contents.items())
    monkeypatch.setattr(human, "PROMPT_PACKAGES", {"en": (texts, voices)})
    monkeypatch.setattr(human, "BOOK_PACKAGE", read)
    monkeypatch.setattr(human, "NAMES", {"en": ("hello", "dir/two")})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with archive(tmp_path) as url:
        monkeypatch.setattr(debian, "SOURCES", (f"{url}/nothing",))
        with pytest.raises(SourceError, match="cannot be had"):
            human.human_folder()
        assert not list(human.cache().glob("recordings*")) + list(human.cache().glob(".draft*"))
        monkeypatch.setattr(debian, "SOURCES", (url,))
        said = held_out_sessions(human.HUMAN)
    assert "CC BY-SA" in capsys.readouterr().err
    assert [u.text for u in said] == ["Hello, you.", "And: two.", "it was so"]
    for session in said:
        assert len(session.pcm) / RATE == pytest.approx(1.1, abs=0.01)
        assert session.words[0].start == pytest.approx(0.1, abs=0.03)
        assert session.errors(session.text.upper()).wrong == 0
    spoken = long_session("s", 0, 4.0, human.HUMAN, "en")  # everything is here by now
    assert spoken.text.startswith("Hello, you. And: two.") and spoken.spelling == WHISPER
    assert len(json.loads((human.human_folder() / "manifest.json").read_text("utf-8"))) == 3


def test_who_was_sooner_keeps_the_recordings_that_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = human.cache() / f"recordings-{human.VERSION}"

    def meanwhile(packages: Path, report: Report) -> Iterator[human.Prompt]:
        folder.mkdir()
        (folder / "manifest.json").write_text("theirs")
        return iter(())

    monkeypatch.setattr(human, "_prompts", meanwhile)
    assert (human.human_folder() / "manifest.json").read_text() == "theirs"
    assert not list(human.cache().glob(".draft*"))


def test_sessions_come_in_full_rows() -> None:
    said = utterances(5)
    for at_once in range(1, 8):
        found = bench_human.filled(said, at_once)
        assert found[:5] == said and len(found) % at_once == 0 and len(found) < 5 + at_once
        assert len({session.name for session in found}) == len(found)
