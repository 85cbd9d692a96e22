"""The live policy against a scripted listener: nothing lost, nothing taken back, bounded cost."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Result, StopReason
from lookhear.engine.messages import (
    SAMPLE_RATE,
    TextCommitted,
    TextProvisional,
    TranscriptionSettings,
    TurnFailed,
    TurnSettled,
)
from lookhear.engine.sampling.alternatives import Doubts
from lookhear.engine.speech.audio_buffer import quietest
from lookhear.engine.speech.live import LiveTurn
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.whisper.recognizer import WhisperRecognizer, WindowRule
from lookhear.engine.whisper.request import WhisperRequest
from tests.engine.speech.scripted import PROMPT, Driver, Speech

WINDOW = WindowRule(2 * SAMPLE_RATE, 4 * SAMPLE_RATE, 30 * SAMPLE_RATE, SAMPLE_RATE // 5)
CONFIG = LiveConfig()


def driver(
    speech: Speech, config: LiveConfig = CONFIG, *, tells_state: bool = False, **changes: object
) -> Driver:
    wanted = TranscriptionSettings(model="m", **changes)  # type: ignore[arg-type]
    recognizer = WhisperRecognizer(speech.vocabulary, WINDOW, wanted)  # type: ignore[arg-type]
    turn = LiveTurn("s", "t", wanted, recognizer, config, tells_state=tells_state)
    return Driver(speech, turn, config.lead_in)


@st.composite
def speeches(draw: st.DrawFn) -> Speech:
    """Up to 60 words of 0.15 to 0.6 s with gaps, now and then a long pause."""
    count = draw(st.integers(0, 60))
    at, times = draw(st.floats(0.0, 1.5)), []
    for _ in range(count):
        length = draw(st.floats(0.15, 0.6))
        times.append((at, at + length))
        at += length + draw(st.sampled_from([0.12, 0.15, 0.2, 0.3, 0.9, 2.5]))
    return Speech([f" w{i}" for i in range(count)], times)


@settings(max_examples=60, deadline=None)
@given(speech=speeches(), chunk=st.sampled_from([0.02, 0.1, 0.37, 1.0, 40.0]))
def test_every_word_is_said_once_in_order_at_any_chunking(speech: Speech, chunk: float) -> None:
    run = driver(speech, provisional=True)
    while run.position < speech.duration * SAMPLE_RATE:
        run.feed(chunk)
    done = run.finish()
    assert done.text == run.committed
    assert done.text == "".join(speech.words).lstrip()
    assert all(len(r.samples) <= CONFIG.cap + 2 * SAMPLE_RATE for r in run.requests)
    assert not run.turn.wants_request()


def test_text_comes_while_the_person_still_speaks() -> None:
    words = [f" w{i}" for i in range(20)]
    speech = Speech(words, [(0.4 * i, 0.4 * i + 0.35) for i in range(20)])
    run = driver(speech)
    while not run.committed:
        run.feed(0.02)
    # The first word is over at 0.35 s; then the evidence for it, and a tick.
    assert run.position < 1.5 * SAMPLE_RATE


def test_silence_costs_nothing() -> None:
    speech = Speech([" hello"], [(0.5, 1.0)])
    run = driver(speech)
    run.feed(0.4)
    assert not run.requests
    for _ in range(100):
        run.feed(0.02)
    heard = len(run.requests)
    for _ in range(200):
        run.feed(0.1)
    assert len(run.requests) == heard
    assert run.committed == "hello"  # a pause is enough: no need to end the turn


def test_silence_is_forgotten() -> None:
    """But for as much of it as one segment may be: the detector may be late."""
    run = driver(Speech([" hello"], [(60.0, 60.5)]), tells_state=True)
    turn = run.turn
    while run.position < 59 * SAMPLE_RATE:
        run.feed(0.1)
        assert turn.num_samples - turn.segment_start <= CONFIG.cap
    told = [event.state for event in run.events if isinstance(event, TurnSettled)]
    assert told[-1].start > turn.segment_start - SAMPLE_RATE
    while run.position < 61 * SAMPLE_RATE:
        run.feed(0.1)
    assert run.finish().text == "hello"


def test_the_end_needs_no_further_pass_after_a_heard_pause() -> None:
    speech = Speech([" hello", " you"], [(0.1, 0.5), (0.6, 1.0)])
    run = driver(speech)
    for _ in range(65):
        run.feed(0.02)  # up to 1.3 s: speech and 0.3 s of silence
    before = len(run.requests)
    assert run.finish().text == "hello you"
    assert len(run.requests) == before


def test_a_turn_without_voice_is_never_listened_to() -> None:
    run = driver(Speech([], []))
    run.feed(1.0)
    run.feed(1.0)
    assert run.finish().text == ""
    assert not run.requests


def test_an_empty_turn_completes_with_empty_text() -> None:
    run = driver(Speech([], []))
    assert run.finish().text == ""
    assert not run.requests


def test_the_last_hypothesis_is_the_draft_and_committed_text_the_prefix() -> None:
    words = [f" w{i}" for i in range(12)]
    run = driver(Speech(words, [(0.3 * i, 0.3 * i + 0.25) for i in range(12)]))
    for _ in range(12):
        run.feed(0.26)
    for before, after in pairwise(run.requests):
        assert after.prefix[: len(before.prefix)] == before.prefix
        assert (*after.prefix, *after.draft)[: len(before.prefix)] == before.prefix
    assert any(r.prefix and r.draft for r in run.requests)


@pytest.mark.parametrize(("chunk", "is_late"), [(0.26, False), (1.0, True)])
def test_a_look_is_late_that_comes_when_several_are_due(chunk: float, is_late: bool) -> None:
    words = [f" w{i}" for i in range(20)]
    speech = Speech(words, [(0.3 * i, 0.3 * i + 0.25) for i in range(20)])
    doubts, wanted = Doubts(speech.vocabulary.token_bytes, 1000), TranscriptionSettings(model="m")
    recognizer = WhisperRecognizer(speech.vocabulary, WINDOW, wanted, doubts=doubts)  # type: ignore[arg-type]
    run = Driver(speech, LiveTurn("s", "t", wanted, recognizer, CONFIG), CONFIG.lead_in)
    while run.position < 5 * SAMPLE_RATE:
        run.feed(chunk)
    behind = [request for request in run.requests if request.is_open and request.prefix]
    assert behind
    assert all((request.doubts is None) == is_late for request in behind)
    run.feed(0.1)  # no look is due: the end is heard for itself
    run.finish()
    assert run.requests[-1].doubts is doubts, "who has finished speaking is never late"


def test_earlier_segments_become_the_prompt() -> None:
    speech = Speech([" one", " two"], [(0.2, 0.6), (2.5, 2.9)])
    run = driver(speech)
    for _ in range(40):
        run.feed(0.1)
    assert run.requests[0].head == (998,)
    assert run.requests[-1].head == (999, 0, 998)
    assert len(run.requests[-1].samples) < 3 * SAMPLE_RATE


def test_a_looping_model_is_cut_short() -> None:
    speech = Speech([" ha"], [(0.1, 3.0)])
    run = driver(speech)
    run.turn.append(speech.samples(0, SAMPLE_RATE), SAMPLE_RATE)
    request = run.turn.make_request()
    loop = Result(request.key, (0,) * 40, (-0.1,) * 40, 0, StopReason.REPETITION, language=1001)
    run.turn.absorb(loop)
    run.turn.end()
    events = run.turn.settle()
    assert [e.text for e in events if isinstance(e, TextCommitted)] == ["ha"]


EIGHT = [f" w{i}" for i in range(8)]


def eight_words(of: type[Speech]) -> Driver:
    """Without a pause."""
    return driver(of(EIGHT, [(0.4 * i, 0.4 * i + 0.35) for i in range(8)]))


def is_told_whole(run: Driver) -> bool:
    """Heard to its end, in pieces."""
    while run.position < run.speech.duration * SAMPLE_RATE:
        run.feed(0.1)
    return run.finish().text == run.committed == "".join(EIGHT).lstrip()


class Stuck(Speech):
    """Says its sixth word over and over, until it may not."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        first = 5 - len(request.prefix)
        if first < 0 or len(result.tokens) <= first or request.barred:
            return result
        tokens = (*result.tokens[:first], *[5] * 12)
        logprobs = [-0.01] * len(tokens)
        logprobs[first + 3] = -0.5
        return replace(result, tokens=tokens, logprobs=tuple(logprobs), stop=StopReason.REPETITION)


def test_a_loop_is_left_where_the_model_was_unsure() -> None:
    run = eight_words(Stuck)
    assert is_told_whole(run)
    barred = [i for i, request in enumerate(run.requests) if request.barred]
    assert barred
    for i in barred:
        before, request = run.requests[i - 1 : i + 1]
        assert request.barred == (8 - len(request.prefix), 5)
        assert not before.barred and len(before.samples) == len(request.samples)


class Startled(Speech):
    """Hears something else once nobody speaks any more, and hardly believes it."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        end = (start + len(request.samples)) / SAMPLE_RATE
        if request.barred or end <= self.times[-1][1] + 0.1:
            return result
        tokens = result.tokens[::-1]
        return replace(result, tokens=tokens, logprobs=(-2.0,) * len(tokens))


def test_what_is_hardly_believed_at_the_end_is_heard_again() -> None:
    run = eight_words(Startled)
    assert is_told_whole(run)
    [request] = [request for request in run.requests if request.barred]
    assert request.barred == (0, 7) and len(request.prefix) < 7


def test_what_was_heard_in_another_way_is_told_when_nobody_goes_on() -> None:
    run, before = eight_words(Startled), ""
    while not any(request.barred for request in run.requests):
        before = run.committed
        run.feed(0.1)
    assert run.committed == before != "".join(EIGHT).lstrip()
    assert run.finish().text == run.committed == "".join(EIGHT).lstrip()


@pytest.mark.parametrize("speaks_on", [False, True])
def test_who_speaks_on_is_heard_anew(speaks_on: bool) -> None:
    run = eight_words(Startled)
    while run.position < run.speech.times[-1][1] * SAMPLE_RATE:
        run.feed(0.1)
    silence = np.zeros(SAMPLE_RATE // 2, np.float32)
    run.turn.append(silence, run.position)
    request = run.turn.make_request()
    run.turn.absorb(run.speech.hear(request, run.turn.segment_start - run.lead_in))
    if speaks_on:
        run.turn.append(np.ones_like(silence), run.position + 2 * len(silence))
    assert run.turn.wants_request()
    assert (run.turn.make_request().barred is None) is speaks_on


class Content(Speech):
    """Takes what was told for all there is in more than 12.6 s, unless it must find more."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        is_content = request.prefix and len(request.samples) > 12.6 * SAMPLE_RATE
        if not is_content or request.at_least:
            return result
        return replace(result, tokens=(), logprobs=())


def test_what_was_heard_before_a_cut_is_not_left_out() -> None:
    """Much comes at once behind a look that told a sentence, and a segment ends in it."""
    times = [(0.4 * i, 0.4 * i + 0.35) for i in range(32)]
    times += [(0.4 * i + 0.3, 0.4 * i + 0.65) for i in range(32, 40)]  # behind a quiet place
    run = driver(Content([f" w{i}" for i in range(40)], times))
    while run.position < 12.5 * SAMPLE_RATE:
        run.feed(0.1)
    assert 25 < len(run.committed.split()) < 32
    run.feed(run.speech.duration - 12.5)
    assert run.finish().text == run.committed == "".join(run.speech.words).lstrip()


class Endless(Speech):
    """Says a phrase until there is no room for more, before so many seconds of audio, and behind
    a prompt for ever."""

    seconds = 2.0
    stop = StopReason.LENGTH

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        is_long = len(request.samples) > self.seconds * SAMPLE_RATE
        if is_long and len(request.head) == 1:
            return result
        phrase = (*range(len(self.words)),) * 3
        return replace(result, tokens=phrase, logprobs=(-0.01,) * len(phrase), stop=self.stop)


@pytest.mark.parametrize("stop", [StopReason.LENGTH, StopReason.REPETITION])
def test_nothing_is_sure_of_what_does_not_end(stop: StopReason) -> None:
    words = [f" w{i}" for i in range(8)]
    speech = Endless(words, [(0.4 * i, 0.4 * i + 0.35) for i in range(8)])
    speech.stop = stop
    run = driver(speech, provisional=True)
    while run.position < 2 * SAMPLE_RATE:
        run.feed(0.1)
    assert not run.committed and run.provisional
    while run.position < speech.duration * SAMPLE_RATE:
        run.feed(0.1)
    assert run.finish().text == run.committed == "".join(words).lstrip()


def test_a_model_that_its_prompt_leads_astray_hears_the_segment_without_it() -> None:
    words = [" one.", *(f" w{i}" for i in range(8))]
    times = [(0.2, 0.6), *((2.5 + 0.4 * i, 2.85 + 0.4 * i) for i in range(8))]
    speech = Endless(words, times)
    speech.seconds = 0.0
    run = driver(speech)
    while run.position < speech.duration * SAMPLE_RATE:
        run.feed(0.1)
    assert run.finish().text == run.committed == "".join(words).lstrip()
    assert (999, 0, 998) in [request.head for request in run.requests]
    assert run.requests[-1].head == (998,)


class Quoting(Speech):
    """With the client's prompt in front it writes that, and nothing else."""

    quote: tuple[int, ...] = (0, 1)

    def hear(self, request: WhisperRequest, start: int) -> Result:
        found = super().hear(request, start)
        if PROMPT not in request.head:
            return found
        rest = tuple(token for token in self.quote if token not in request.prefix)
        return replace(found, tokens=rest, logprobs=(-0.1,) * len(rest))


class Silenced(Quoting):
    quote = ()


@pytest.mark.parametrize("seconds", [0.4, 6.0])
@pytest.mark.parametrize("kind", [Quoting, Silenced])
def test_a_model_that_writes_the_clients_prompt_hears_the_segment_without_it(
    kind: type[Speech], seconds: float
) -> None:
    known = Speech([" Acme", " Telecom"], [(0.0, 0.1), (0.1, 0.2)])
    count = round(seconds / 0.4)
    times = [(0.2 + 0.4 * i, 0.6 + 0.4 * i) for i in range(count)]
    speech = kind([f" w{i}" for i in range(count)], times, known)
    run = driver(speech, replace(CONFIG, echoes=True), prompt="A call for Acme Telecom.")
    while run.position < speech.duration * SAMPLE_RATE:
        run.feed(0.1)
    done = run.finish()
    if seconds < 1 and kind is Quoting:  # so much is said in that time
        assert done.text == "Acme Telecom"
        return
    assert done.text == run.committed == "".join(speech.words).lstrip()
    assert any(PROMPT in request.head for request in run.requests)
    assert PROMPT not in run.requests[-1].head


def test_who_says_what_the_prompt_says_is_told_it_when_he_goes_on() -> None:
    words = [" Acme", " Telecom", *(f" w{i}" for i in range(4))]
    speech = Speech(words, [(0.2 + 0.5 * i, 0.6 + 0.5 * i) for i in range(6)])
    run = driver(speech, replace(CONFIG, echoes=True), prompt="A call for Acme Telecom.")
    while not run.committed:
        run.feed(0.05)
        assert run.position < speech.duration * SAMPLE_RATE
    assert run.position > 1.4 * SAMPLE_RATE  # behind three quarters of the word after it
    while run.position < speech.duration * SAMPLE_RATE:
        run.feed(0.1)
    assert run.finish().text == run.committed == "".join(words).lstrip()
    assert all(PROMPT in request.head for request in run.requests)
    # A short turn of nothing else is told at its end.
    speech = Speech(words[:2], [(0.2, 0.6), (0.7, 1.1)])
    run = driver(speech, replace(CONFIG, echoes=True), prompt="A call for Acme Telecom.")
    run.feed(2.0)
    assert run.finish().text == "Acme Telecom"


def test_noise_that_the_model_doubts_gives_no_text() -> None:
    speech = Speech([" thanks"], [(0.0, 1.0)])
    run = driver(speech)
    run.turn.append(speech.samples(0, SAMPLE_RATE), SAMPLE_RATE)
    request = run.turn.make_request()
    run.turn.absorb(
        Result(request.key, (0,), (-2.0,), 0, StopReason.END, language=1001, no_speech_prob=0.9)
    )
    run.turn.end()
    assert not [e for e in run.turn.settle() if isinstance(e, TextCommitted)]


def test_words_carry_times_from_the_turns_beginning() -> None:
    speech = Speech([" one", " two", " three"], [(0.2, 0.6), (2.5, 2.9), (3.0, 3.4)])
    run = driver(speech, words=True, logprobs=True)
    while run.position < 5 * SAMPLE_RATE:
        run.feed(0.1)
    run.finish()
    said = [e for e in run.events if isinstance(e, TextCommitted)]
    words = [w for e in said for w in e.words or []]
    assert [w.word for w in words] == ["one", "two", "three"]
    for word, (start, end) in zip(words, speech.times, strict=True):
        assert abs(word.start - start) < 0.01 and abs(word.end - end) < 0.01
    told = b"".join(bytes(p.bytes) for e in said for p in e.logprobs or [])
    assert told.decode() == "".join(e.text for e in said) == "one two three"


def test_a_failed_request_ends_the_turn_with_its_reason() -> None:
    run = driver(Speech([" a"], [(0.0, 0.5)]))
    (event,) = run.turn.fail("server_error", "why")
    assert isinstance(event, TurnFailed) and event.message == "why"
    assert run.turn.is_done and not run.turn.wants_request()


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_the_quietest_place_lies_inside(length: int, dip: int) -> None:
    samples = np.ones(length, np.float32)
    samples[dip : dip + 1600] = 0.0
    assert 0 <= quietest(samples) <= length


def test_a_full_stop_that_comes_late_is_no_word() -> None:
    speech = Speech([" stop", "."], [(0.1, 0.6), (0.6, 0.61)])
    run = driver(speech, words=True)
    while run.position < 3 * SAMPLE_RATE:
        run.feed(0.1)
    run.finish()
    said = [e for e in run.events if isinstance(e, TextCommitted)]
    assert "".join(e.text for e in said) == "stop."
    assert [w.word.rstrip(".") for e in said for w in e.words or []] == ["stop"]


class Dotting(Speech):
    """Writes nothing but one full stop more for the noise behind a sentence."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        tokens = tuple(token for token in result.tokens if self.vocabulary.words[token] != "noise")
        return replace(result, tokens=tokens, logprobs=(-0.1,) * len(tokens))


def test_nothing_but_a_sign_behind_a_sentence_is_no_text() -> None:
    times = [(0.1, 0.6), (0.6, 0.61), (0.9, 3.0), (3.0, 3.01)]
    run = driver(Dotting([" stop", ".", "noise", " ."], times))
    while run.position < run.speech.duration * SAMPLE_RATE:
        run.feed(0.1)
    assert run.finish().text == run.committed == "stop."


def test_a_sign_that_is_spoken_is_a_word() -> None:
    words = [" Johnson", " &", " Johnson", "."]
    speech = Speech(words, [(0.1, 0.6), (0.6, 0.8), (0.8, 1.3), (1.3, 1.31)])
    run = driver(speech, words=True)
    while run.position < 3 * SAMPLE_RATE:
        run.feed(0.1)
    run.finish()
    said = [e for e in run.events if isinstance(e, TextCommitted)]
    assert [w.word.rstrip(".") for e in said for w in e.words or []] == ["Johnson", "&", "Johnson"]


def test_a_sign_that_comes_late_is_no_word() -> None:
    """It belongs to the one before."""
    words = [" by", " 50", "%", "."]
    run = driver(Speech(words, [(0.1, 0.4), (0.4, 0.9), (0.9, 1.4), (1.4, 1.41)]), words=True)
    while run.position < 3 * SAMPLE_RATE:
        run.feed(0.1)
    run.finish()
    said = [e for e in run.events if isinstance(e, TextCommitted)]
    assert "".join(e.text for e in said) == "by 50%."
    assert [w.word.rstrip("%.") for e in said for w in e.words or []] == ["by", "50"]


@pytest.mark.parametrize("sign", ["", ",", "."])
def test_a_short_segment_is_complete_behind_a_sentence(sign: str) -> None:
    words = [" one", " two" + sign, " three"]
    speech = Speech(words, [(0.2, 0.6), (0.7, 1.1), (2.2, 2.6)])
    run = driver(speech, LiveConfig(roll=4 * SAMPLE_RATE), provisional=True)
    while run.position < 2 * SAMPLE_RATE:
        run.feed(0.02)
    assert run.committed == "one two" + sign, "said for good in any pause"
    [*_, last] = [e for e in run.events if isinstance(e, TextProvisional)]
    assert last.ended == (pytest.approx(math.exp(-0.1)) if sign == "." else 0.0)
    assert last.heard > 1.2 * SAMPLE_RATE and last.text == ""
    is_open = run.turn.segment_start < SAMPLE_RATE
    assert is_open is (sign != ".")
    while run.position < 4 * SAMPLE_RATE:
        run.feed(0.02)
    assert run.finish().text == "".join(words).strip()


@pytest.mark.parametrize(("sign", "roll"), [("", 1), (",", 1), (".", 1), (".", 4)])
def test_a_breath_behind_a_sentence_ends_what_is_long(sign: str, roll: int) -> None:
    words = [" one", " two" + sign, " three"]
    speech = Speech(words, [(0.2, 0.6), (0.7, 1.3), (1.75, 2.1)])
    run = driver(speech, LiveConfig(roll=roll * SAMPLE_RATE))
    while run.position < 1.7 * SAMPLE_RATE:
        run.feed(0.02)
    assert (run.turn.segment_start > SAMPLE_RATE) is (sign == "." and roll == 1)
    while run.position < 3 * SAMPLE_RATE:
        run.feed(0.02)
    assert run.finish().text == "".join(words).strip()


def test_an_unsure_sign_waits_for_what_follows() -> None:
    speech = Speech(
        [" one", " two", ".", " three"], [(0.2, 0.6), (0.7, 1.1), (1.1, 1.11), (2.2, 2.6)]
    )
    run = driver(speech, LiveConfig(roll=4 * SAMPLE_RATE, ended=0.95))
    while run.position < 2 * SAMPLE_RATE:
        run.feed(0.02)
    assert run.committed == "one two"
    assert run.turn.segment_start < SAMPLE_RATE


def test_a_long_pause_completes_what_is_no_sentence() -> None:
    speech = Speech([" one", " two"], [(0.2, 0.6), (6.0, 6.4)])
    run = driver(speech, LiveConfig(roll=10 * SAMPLE_RATE))
    while run.position < 5 * SAMPLE_RATE:
        run.feed(0.1)
    assert run.turn.segment_start > 0.6 * SAMPLE_RATE
    while run.position < 7 * SAMPLE_RATE:
        run.feed(0.1)
    assert run.finish().text == "one two"
