"""Long recordings in sections: by a scripted model in any order, and through the engine."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.request import Result, StopReason
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    SAMPLE_RATE,
    CancelFile,
    CloseSession,
    Event,
    FileFailed,
    FileProgress,
    FileTranscribed,
    StartTurn,
    TranscribeFile,
    TranscriptionSettings,
)
from lookhear.engine.speech.file import FileTranscription, Section
from lookhear.engine.speech.sections import (
    LEAST,
    LONG,
    SIDE_BY_SIDE,
    LongFile,
    SectionOwner,
    sections_of,
)
from lookhear.engine.whisper.files.file import WhisperFile
from lookhear.engine.whisper.recognizer import WindowRule
from tests.engine.speech.scripted import FIRST_STAMP, SpeltTokens
from tests.engine.whisper.test_demo_files import utterances

WINDOW = WindowRule(30 * SAMPLE_RATE, 30 * SAMPLE_RATE, 30 * SAMPLE_RATE, 3200)
Samples = NDArray[np.float32]


def spans(seconds: int, pause: float = 1.0) -> list[tuple[int, int]]:
    """Somebody speaks for three seconds, and again after a pause."""
    step = round((3 + pause) * SAMPLE_RATE)
    return [(at, at + 3 * SAMPLE_RATE) for at in range(0, seconds * SAMPLE_RATE - step, step)]


def start(message: TranscribeFile, section: Section | None = None) -> WhisperFile:
    tokens = SpeltTokens([" a", " b"])
    return WhisperFile(message, tokens, WINDOW, None, section)  # type: ignore[arg-type]


def asked(seconds: int, language: str | None = None, *, speech: bool = True) -> TranscribeFile:
    wanted = TranscriptionSettings(model="m", language=language)
    samples = np.zeros(seconds * SAMPLE_RATE, np.float32)
    found = spans(seconds) if speech else None
    return TranscribeFile("f", wanted, samples, True, speech=found, tells_progress=True)


# --- where it is cut -----------------------------------------------------------------------------


def test_sections_follow_each_other_and_are_cut_in_pauses() -> None:
    whole = start(asked(900))
    found = sections_of(whole)
    first, *others = found
    assert len(others) >= 10
    assert [s.start for s in others] == [s.end for s in found[:-1]] and first.start == 0
    assert others[-1].end == len(first.audio.samples)
    assert first.end <= WINDOW.longest, "the first one is a single window"
    assert all(s.end - s.start >= LEAST for s in others)
    assert all(first.audio.spoken(s.end - 1, s.end + 1) == 0 for s in found[:-1])


@pytest.mark.parametrize(
    "message",
    [asked(LONG // SAMPLE_RATE - 10), asked(900, speech=False)],
    ids=["short", "nobody knows who speaks"],
)
def test_what_is_short_or_has_no_known_pauses_stays_whole(message: TranscribeFile) -> None:
    job = start(message)
    [only] = sections_of(job)
    assert (only.start, only.end) == (0, len(only.audio.samples))


def test_who_never_pauses_is_not_cut_in_a_word() -> None:
    message = asked(900)
    message.speech[:] = [(0, 900 * SAMPLE_RATE)]  # type: ignore[index]
    assert len(sections_of(start(message))) == 1


@pytest.mark.parametrize("told", [None, "de"])
def test_what_was_spoken_before_is_most_likely_spoken_on(told: str | None) -> None:
    before = replace(asked(30, told), language_before="en", continues=True)
    longer = asked(500, told)
    long = replace(before, samples=longer.samples, speech=longer.speech)
    (section,) = LongFile(long, sections_of(start(long)), start, detects=True).begin(4)
    for owner in (start(before), section):
        request = owner.make_request()
        assert request.language == (None if told is None else 1000)
        assert told or request.language_guess == 1001


# --- their order ---------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(data=st.data(), language=st.sampled_from([None, "en"]))
def test_whatever_is_heard_first_the_text_is_told_in_order(
    data: st.DataObject, language: str | None
) -> None:
    message = asked(500, language)
    sections = sections_of(start(message))
    started: list[FileTranscription] = []

    def begin(asked: TranscribeFile, section: Section) -> FileTranscription:
        started.append(start(asked, section))
        return started[-1]

    file = LongFile(message, sections, begin, detects=True)
    events: list[Event] = []
    running = file.begin(4)
    assert len(running) == 1, "the first section is heard alone"
    languages, guesses = [], []
    while running:
        assert len(running) <= 4
        owner = data.draw(st.sampled_from(running))
        if owner.wants_request():
            request = owner.make_request()
            languages.append(request.language)
            guesses.append(request.language_guess)
            length = min(1499, len(request.samples) // 320)
            said = (FIRST_STAMP, data.draw(st.integers(0, 1)), FIRST_STAMP + length)
            result = Result(request.key, said, (-0.1,) * 3, 0, StopReason.END, language=1001)
            events += owner.absorb(result)
        if owner.is_done:
            running.remove(owner)
            running += file.begin(4)
    *told, done = events
    assert isinstance(done, FileTranscribed) and file.is_done
    assert len(started) == len(sections)
    assert languages == [None if language is None else 1001] * len(languages)
    assert language or guesses == [None, *[1001] * (len(guesses) - 1)], "it is most likely the same"
    progress = [event for event in told if isinstance(event, FileProgress)]
    assert progress == told
    seconds = [event.seconds for event in progress]
    assert seconds == sorted(seconds) and seconds[-1] == 500.0
    assert [segment for event in progress for segment in event.segments] == done.segments
    assert [s.start for s in done.segments] == sorted(s.start for s in done.segments)
    assert all(a.end <= b.start for a, b in zip(done.segments, done.segments[1:], strict=False))
    alone = [segment for job in started for segment in job.heard.segments]
    assert done.segments == alone and done.text == "".join(s.text for s in alone).strip()
    assert done.num_audio_tokens == sum(job.heard.audio_tokens for job in started)
    assert (done.language, done.duration) == ("en", 500.0)


def test_until_somebody_is_heard_sections_come_one_by_one() -> None:
    message = asked(500)
    file = LongFile(message, sections_of(start(message)), start, detects=True)
    [first] = file.begin(4)
    request = first.make_request()
    assert first.absorb(Result(request.key, (), (), 0, StopReason.END, language=1001))
    [second] = file.begin(4)
    assert second.make_request().language is None


def test_who_has_begun_waits_while_there_is_room_for_one() -> None:
    message = asked(500, "en")
    file = LongFile(message, sections_of(start(message)), start, detects=True)

    def finish(owner: SectionOwner) -> None:
        while not owner.is_done:
            request = owner.make_request()
            owner.absorb(Result(request.key, (), (), 0, StopReason.END, language=1001))

    [first] = file.begin(3)
    finish(first)
    begun = file.begin(3)
    assert [owner.wants_request() for owner in begun] == [True] * 3
    assert file.narrow() == begun
    assert [owner.wants_request() for owner in begun] == [True, False, False]
    finish(begun[0])
    assert file.begin(1) == [] and file.next() == [begun[1]]
    assert [owner.wants_request() for owner in begun[1:]] == [True, False]
    [another] = file.begin(3)
    assert file.next() == [*begun[1:], another] and begun[2].wants_request()


# --- through the engine --------------------------------------------------------------------------


@cache
def core(model: str = "demo-whisper") -> EngineCore:
    config = EngineConfig(model=model, threads=1)
    return build_core(config, lambda stage, share: None).core


@cache
def recording() -> tuple[Samples, list[tuple[int, int]]]:
    """Just long enough to be cut: three utterances, over and over."""
    parts: list[Samples] = []
    found: list[tuple[int, int]] = []
    at = 0
    while at < LONG + 20 * SAMPLE_RATE:
        for number, one in enumerate(utterances()):
            quiet = np.zeros(round((0.8 + 0.3 * number) * SAMPLE_RATE), np.float32)
            found.append((at + len(quiet), at + len(quiet) + len(one)))
            parts += [quiet, one]
            at = found[-1][1]
    return np.concatenate(parts), found


def message(name: str = "f", language: str | None = "en") -> TranscribeFile:
    samples, speech = recording()
    wanted = TranscriptionSettings("demo-whisper", language, words=True, logprobs=True)
    return TranscribeFile(name, wanted, samples, speech=speech, tells_progress=True)


def heard(engine: EngineCore, steps: int = 20_000) -> tuple[list[FileProgress], Event, int]:
    """What is told, the end, and the most sections that were heard at once."""
    told: list[FileProgress] = []
    most = 0
    for _ in range(steps):
        for event in engine.step():
            if not isinstance(event, FileProgress):
                engine.check()
                return told, event, most
            told.append(event)
        most = max(most, engine.count(SectionOwner))
    raise AssertionError("the recording never came to an end")


@cache
def heard_whole() -> tuple[list[FileProgress], FileTranscribed, int]:
    """Of the whole recording in English, see `heard`."""
    core().submit(message())
    told, done, most = heard(core())
    assert isinstance(done, FileTranscribed)
    return told, done, most


def test_side_by_side_or_one_by_one_the_text_is_the_same() -> None:
    engine = core()
    told, together, most = heard_whole()
    assert 2 <= most <= SIDE_BY_SIDE
    assert engine.owner("f/0") is None and not engine.has_work
    engine.submit(StartTurn("s", "t", TranscriptionSettings("demo-whisper", "en")))
    engine.submit(message())
    _, alone, most = heard(engine)
    assert most == 1, "somebody who speaks does not wait for many windows"
    engine.submit(CloseSession("s"))
    engine.submit(message())
    for _ in range(200):
        engine.step()
    assert engine.count(SectionOwner) > 1
    engine.submit(StartTurn("t", "t", TranscriptionSettings("demo-whisper", "en")))
    engine.check()
    _, joined_by, _ = heard(engine)
    assert isinstance(joined_by, FileTranscribed) and joined_by.text == together.text
    engine.submit(CloseSession("t"))
    assert isinstance(alone, FileTranscribed)
    # A product of many rows is not rounded as that of one.
    assert [(s.tokens, s.start, s.end) for s in together.segments] == [
        (s.tokens, s.start, s.end) for s in alone.segments
    ]
    assert together.text == alone.text and together.num_text_tokens == alone.num_text_tokens
    assert [(w.word, w.start) for w in together.words] == [(w.word, w.start) for w in alone.words]
    starts = [word.start for word in together.words]
    assert starts == sorted(starts) and len(starts) > 200
    assert [s for event in told for s in event.segments] == together.segments
    assert together.logprobs is not None
    assert b"".join(bytes(t.bytes) for t in together.logprobs).decode() == together.text
    assert len(told) > 2 and told[0].seconds < 30, "the first text comes long before the last"


def test_the_language_is_found_once() -> None:
    engine = core()
    engine.submit(message(language=None))
    _, found, _ = heard(engine)
    _, given, _ = heard_whole()
    assert isinstance(found, FileTranscribed)
    assert (found.language, found.text) == ("en", given.text)


def test_sentences_are_apart_where_sections_meet() -> None:
    """Qwen3-ASR writes pieces without a blank in front."""
    samples, speech = recording()
    wanted = TranscriptionSettings("demo-qwen3-asr", "en", logprobs=True)
    engine = core("demo-qwen3-asr")
    asked = TranscribeFile("f", wanted, samples, speech=speech)
    engine.submit(asked)
    _, done, most = heard(engine)
    assert isinstance(done, FileTranscribed) and most > 1
    assert done.logprobs is not None and not re.search(r"[.?!]\w", done.text)
    assert b"".join(bytes(t.bytes) for t in done.logprobs).decode() == done.text
    few = replace(asked, samples=samples[: speech[5][1]], speech=speech[:5])
    engine.submit(few)
    _, alone, _ = heard(engine)
    engine.submit(replace(few, continues=True))
    _, rest, _ = heard(engine)
    assert isinstance(rest, FileTranscribed) and isinstance(alone, FileTranscribed)
    assert alone.text and rest.text == f" {alone.text}" and rest.logprobs is not None
    assert b"".join(bytes(t.bytes) for t in rest.logprobs).decode() == rest.text


def test_a_cancelled_file_leaves_nothing_behind() -> None:
    engine = core()
    engine.submit(message("g"))
    for _ in range(200):
        engine.step()
    assert engine.count(SectionOwner) > 1
    engine.submit(CancelFile("g"))
    assert engine.step() == [] and not engine.has_work
    engine.check()
    samples, speech = recording()
    few = replace(message("g"), samples=samples[: speech[5][1]], speech=speech[:5])
    engine.submit(few)  # its name is free again
    _, done, _ = heard(engine)
    assert isinstance(done, FileTranscribed) and done.text


def test_two_files_of_one_name_are_refused() -> None:
    engine = core()
    engine.submit(message("g"))
    engine.submit(message("g"))
    [refused] = engine.step()
    assert isinstance(refused, FileFailed) and refused.code == "duplicate_request"
    engine.submit(CancelFile("g"))
    assert not engine.has_work


def test_a_section_that_fails_is_the_files_failure() -> None:
    engine = core()
    samples = recording()[0].copy()
    samples[len(samples) // 2] = np.nan
    engine.submit(replace(message("g"), samples=samples))
    _, failed, most = heard(engine)
    assert most > 1 and isinstance(failed, FileFailed)
    assert (failed.request, failed.code) == ("g", "model_error")
    assert engine.step() == [] and not engine.has_work and not engine.count(SectionOwner)
