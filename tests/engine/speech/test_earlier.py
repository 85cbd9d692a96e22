"""What was said before stands in front of what is said now: policy, request and result."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Beginning, Result, StopReason
from lookhear.engine.messages import SAMPLE_RATE, TextCommitted, TranscriptionSettings
from lookhear.engine.speech.earlier import EarlierSegment, EarlierSpeech
from lookhear.engine.speech.live import LiveTurn
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.session_language import SessionLanguage
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.whisper.recognizer import WhisperRecognizer, WindowRule
from lookhear.engine.whisper.request import WhisperRequest
from tests.engine.speech.scripted import FIRST_STAMP, Driver, Speech, front

WINDOW = WindowRule(SAMPLE_RATE // 2, SAMPLE_RATE, 30 * SAMPLE_RATE, SAMPLE_RATE // 5)
CONFIG = LiveConfig()
LONGEST, KEPT, STEP = 14 * SAMPLE_RATE, 7 * SAMPLE_RATE, 320


def segment(seconds: float, token: int = 0, language: str | None = "en") -> EarlierSegment:
    samples = np.full(round(seconds * SAMPLE_RATE), float(token), np.float32)
    return EarlierSegment(samples, 0, len(samples), (token,), language, "transcribe")


# --- what is kept --------------------------------------------------------------------------------


@given(lengths=st.lists(st.floats(0.1, 16.0), max_size=20))
def test_the_last_segments_are_kept_and_a_key_names_its_beginning(lengths: list[float]) -> None:
    speech = EarlierSpeech(LONGEST, KEPT, STEP)
    known: dict[Beginning | None, np.ndarray] = {}
    for number, length in enumerate(lengths):
        speech.add(segment(length, number))
        before = speech.before("en", "transcribe")
        assert before.num_samples <= LONGEST
        assert bool(before.segments) == (length <= LONGEST / SAMPLE_RATE), "the last one stays"
        tokens = [token for held in before.segments for token in held.tokens]
        assert tokens == list(range(number + 1))[len(lengths[: number + 1]) - len(tokens) :]
        if not before.segments:
            continue
        samples = np.concatenate([held.samples for held in before.segments])
        assert all(len(held.samples) % STEP == 0 for held in before.segments)
        old = known.get(before.beginning, samples[:0])
        np.testing.assert_array_equal(samples[: len(old)], old)
        known[before.beginning] = samples


def test_another_language_or_task_is_not_heard_in_front() -> None:
    speech = EarlierSpeech(LONGEST, KEPT, STEP)
    speech.add(segment(1.0, language="es"))
    assert speech.before("es", "transcribe").num_tokens == 1
    assert not speech.before("en", "transcribe").segments
    assert not speech.before(None, "transcribe").segments
    assert not speech.before("es", "translate").segments
    speech.add(segment(1.0, 1, language="en"))
    assert [held.tokens for held in speech.before("en", "transcribe").segments] == [(1,)]


def test_nothing_is_kept_of_what_said_nothing_or_for_a_model_that_wants_none() -> None:
    speech = EarlierSpeech(LONGEST, KEPT, STEP)
    speech.add(replace(segment(1.0), tokens=()))
    assert not speech.before("en", "transcribe").segments
    speech = EarlierSpeech()
    speech.add(segment(1.0))
    assert not speech.before("en", "transcribe").segments


@given(st.lists(st.floats(0.1, 12.0), max_size=12), st.sampled_from([0.0, 4.0, 8.0, 14.0]))
def test_the_latest_are_kept_whatever_was_said_in_whole_steps(
    lengths: list[float], longest: float
) -> None:
    speech = EarlierSpeech(round(longest * SAMPLE_RATE), 0, STEP)
    for number, seconds in enumerate(lengths):
        said = segment(seconds, number, language="en" if number % 2 else "de")
        speech.add(said if number % 3 else replace(said, tokens=()))
        latest = speech.latest()
        assert latest.num_samples <= min(longest, 10.0) * SAMPLE_RATE
        assert all(len(held.samples) % STEP == 0 for held in latest.segments)
        fits = seconds * SAMPLE_RATE + STEP <= min(longest, 10.0) * SAMPLE_RATE
        assert not fits or len(latest.segments[-1].samples) >= len(said.samples)


# --- a session of turns --------------------------------------------------------------------------


def take_turn(
    speech: Speech,
    earlier: EarlierSpeech,
    heard: SessionLanguage | None = None,
    piece: float = 0.1,
    **changes: object,
) -> Driver:
    wanted = TranscriptionSettings(model="m", **changes)  # type: ignore[arg-type]
    recognizer = WhisperRecognizer(speech.vocabulary, WINDOW, wanted)  # type: ignore[arg-type]
    turn = LiveTurn("s", "t", wanted, recognizer, CONFIG, heard, earlier)
    run = Driver(speech, turn, CONFIG.lead_in)
    while run.position < speech.duration * SAMPLE_RATE:
        run.feed(piece)
    return run


@st.composite
def conversations(draw: st.DrawFn) -> list[Speech]:
    """Two to five turns of up to 20 words, with pauses inside."""
    turns: list[Speech] = []
    for number in range(draw(st.integers(2, 5))):
        at, times = 0.3, []
        for _ in range(draw(st.integers(0, 20))):
            length = draw(st.floats(0.2, 0.6))
            times.append((at, at + length))
            at += length + draw(st.sampled_from([0.15, 0.2, 0.6, 0.9]))
        words = [f" w{number}.{i}" for i in range(len(times))]
        turns.append(Speech(words, times, turns[-1] if turns else None))
    return turns


@settings(max_examples=40, deadline=None)
@given(turns=conversations(), told=st.booleans())
def test_every_word_of_a_session_is_said_once(turns: list[Speech], told: bool) -> None:
    earlier = EarlierSpeech(LONGEST, KEPT, STEP)
    for speech in turns:
        run = take_turn(speech, earlier, words=True, language="en" if told else None)
        done = run.finish()
        assert done.text == run.committed == "".join(speech.words).lstrip()
        spoken = [
            word
            for event in run.events
            if isinstance(event, TextCommitted)
            for word in event.words or []
        ]
        assert [word.word for word in spoken] == [word.strip() for word in speech.words]
        for word, (start, end) in zip(spoken, speech.times, strict=True):
            assert abs(word.start - start) < 0.03 and abs(word.end - end) < 0.03
        for request in run.requests:
            assert len(request.samples) <= request.window_samples <= WINDOW.longest


def test_what_was_said_before_is_forced_between_its_times() -> None:
    earlier = EarlierSpeech(LONGEST, KEPT, STEP)
    first = Speech([" a", " b."], [(0.3, 0.7), (0.8, 1.2)])
    take_turn(first, earlier, language="en").finish()
    second = Speech([" c"], [(0.3, 0.8)], first)
    run = take_turn(second, earlier, language="en")
    request = run.requests[0]
    held = earlier.before("en", "transcribe").segments[0]
    assert held.tokens == (0, 1) and front(request) == len(held.samples)
    start, *text, end, own = request.prefix
    assert text == [0, 1] and request.timestamps
    seconds = [0.02 * (stamp - FIRST_STAMP) for stamp in (start, end, own)]
    lead = CONFIG.lead_in / SAMPLE_RATE
    assert seconds[0] == pytest.approx(lead, abs=0.02)
    assert seconds[1] == pytest.approx(lead + 1.2, abs=0.05)
    assert seconds[2] == pytest.approx(len(held.samples) / SAMPLE_RATE + lead, abs=0.02)
    voiced = front(request) / SAMPLE_RATE + lead + 0.8
    assert FIRST_STAMP + round((voiced + 0.1) / 0.02) in run.requests[-1].end_tokens
    assert FIRST_STAMP + round((voiced - 0.8) / 0.02) not in run.requests[-1].end_tokens


class Guessing(Speech):
    """Is not sure of its second word."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        logprobs = tuple(-2.0 if token == self.first + 1 else -0.1 for token in result.tokens)
        return replace(result, logprobs=logprobs)


def test_what_was_a_guess_is_said_but_not_forced() -> None:
    earlier = EarlierSpeech(LONGEST, KEPT, STEP)
    first = Guessing([" a", " b", " c."], [(0.3, 0.7), (0.8, 1.2), (1.3, 1.7)])
    assert take_turn(first, earlier, language="en").finish().text == "a b c."
    second = Speech([" d"], [(0.3, 0.8)], first)
    run = take_turn(second, earlier, language="en")
    assert [t for t in run.requests[0].prefix if t < FIRST_STAMP] == [0, 2]
    assert run.finish().text == "d"


def test_a_sentence_that_goes_on_is_forced_in_one_piece() -> None:
    earlier = EarlierSpeech(LONGEST, KEPT, STEP)
    first = Speech([" a."], [(0.3, 0.7)])
    second = Speech([" b"], [(0.3, 0.7)], first)
    third = Speech([" c", " d."], [(0.3, 0.7), (0.8, 1.2)], second)
    for speech in (first, second):
        take_turn(speech, earlier, language="en").finish()
    run = take_turn(third, earlier, language="en")
    assert run.finish().text == "c d."
    start, a, end, own, b, *committed = run.requests[0].prefix
    assert (a, b, committed) == (0, 1, [])
    assert start < end < own and min(start, end, own) >= FIRST_STAMP


class Deaf(Speech):
    """Hears nothing behind what was said before."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        return replace(result, tokens=(), logprobs=()) if front(request) else result


class Weary(Speech):
    """Hears nothing any more behind what was said before, after a while."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        is_late = len(request.samples) - front(request) > 2.2 * SAMPLE_RATE
        return replace(result, tokens=(), logprobs=()) if front(request) and is_late else result


class Tidy(Speech):
    """Ends the sentence before with a full stop first, and takes that for all there was to say."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        sign = self.first + len(self.words) - 1
        assert self.words[-1] == "."
        tokens = tuple(token for token in result.tokens if token != sign)
        if sign in request.prefix:
            tokens = ()
        elif front(request) and self.first not in request.prefix:
            tokens = (sign, *tokens)
        return replace(result, tokens=tokens, logprobs=(-0.1,) * len(tokens))


class Stuck(Speech):
    """Repeats itself behind what was said before."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        if not front(request):
            return result
        tokens = (self.first,) * 8
        return replace(result, tokens=tokens, logprobs=(-0.1,) * 8, stop=StopReason.REPETITION)


class Hasty(Speech):
    """Writes all of what is said, again and again, before there was time to say it."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        is_over = len(request.samples) - front(request) > 1.9 * SAMPLE_RATE
        if not front(request) or is_over:
            return result
        count = len(self.words)
        said = sum(token >= self.first for token in request.prefix if token < FIRST_STAMP)
        tokens = tuple(self.first + i % count for i in range(said, 4 * count))
        return replace(result, tokens=tokens, logprobs=(-0.01,) * len(tokens))


def test_what_nobody_can_have_said_yet_is_not_told() -> None:
    earlier = EarlierSpeech(LONGEST, KEPT, STEP)
    first = Speech([" a", " b"], [(0.3, 0.7), (0.8, 1.2)])
    take_turn(first, earlier, language="en").finish()
    words = [" conversation", " notwithstanding", " afterwards"]
    second = Hasty(words, [(0.3, 0.9), (0.95, 1.7), (1.75, 2.3)], first)
    run = take_turn(second, earlier, language="en")
    assert run.finish().text == "".join(words).lstrip()
    told = [event.text for event in run.events if isinstance(event, TextCommitted)]
    assert len(told) > 1  # while it was said


@pytest.mark.parametrize("kind", [Deaf, Stuck])
def test_a_model_that_is_led_astray_hears_the_segment_by_itself(kind: type[Speech]) -> None:
    earlier = EarlierSpeech(LONGEST, KEPT, STEP)
    first = Speech([" a", " b"], [(0.3, 0.7), (0.8, 1.2)])
    take_turn(first, earlier, language="en").finish()
    second = kind([" c", " d"], [(0.3, 0.9), (1.0, 1.6)], first)
    run = take_turn(second, earlier, language="en")
    assert run.finish().text == "c d"
    assert front(run.requests[-1]) == 0


class Doubling(Speech):
    """Says all of it twice, behind what was said before."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        known = self.first + len(self.words) - 1
        if not front(request) or known not in (*request.prefix, *result.tokens):
            return result
        tokens = (*result.tokens, *range(self.first, known + 1))
        return replace(result, tokens=tokens, logprobs=(-0.01,) * len(tokens))


def test_who_says_a_sentence_again_is_not_heard_to_say_it_twice() -> None:
    earlier = EarlierSpeech(LONGEST, KEPT, STEP)
    words = [" The", " room", " is", " locked", " now"]
    times = [(0.3 + 0.4 * i, 0.65 + 0.4 * i) for i in range(len(words))]
    first = Speech(words, times)
    take_turn(first, earlier, language="en").finish()
    second = Doubling(words, times, first)
    run = take_turn(second, earlier, language="en")
    assert run.finish().text == run.committed == "".join(words).lstrip()
    told = [event.text for event in run.events if isinstance(event, TextCommitted)]
    assert len(told) > 1  # while it was said


class Stumbling(Speech):
    """Repeats itself behind what was said before, once in a while."""

    stumbles = 1

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        is_late = len(request.samples) - front(request) > 2 * SAMPLE_RATE
        if not (front(request) and is_late and self.stumbles):
            return result
        self.stumbles -= 1
        tokens = (self.first,) * 8
        return replace(result, tokens=tokens, logprobs=(-0.1,) * 8, stop=StopReason.REPETITION)


@pytest.mark.parametrize("stumbles", [1, CONFIG.most_lost])
def test_a_look_that_was_led_astray_is_no_verdict_on_all_others(stumbles: int) -> None:
    earlier = EarlierSpeech(LONGEST, KEPT, STEP)
    first = Speech([" a", " b"], [(0.3, 0.7), (0.8, 1.2)])
    take_turn(first, earlier, language="en").finish()
    times = [(0.3 + 0.6 * i, 0.8 + 0.6 * i) for i in range(8)]
    second = Stumbling([f" {letter}" for letter in "cdefghij"], times, first)
    second.stumbles = stumbles
    run = take_turn(second, earlier, language="en")
    assert run.finish().text == "c d e f g h i j"
    alone = [i for i, request in enumerate(run.requests) if not front(request)]
    lengths = [len(request.samples) - front(request) for request in run.requests]
    assert lengths[alone[0]] == lengths[alone[0] - 1], "the same audio"
    if stumbles < CONFIG.most_lost:
        assert len(alone) == stumbles
    else:
        assert alone[-1] == len(run.requests) - 1 and len(alone) > stumbles
    third = Speech([" k"], [(0.3, 0.9)], second)
    assert front(take_turn(third, earlier, language="en").requests[0]), "another segment"


def test_what_is_heard_by_itself_has_no_text_in_front_either() -> None:
    breath = [0.1 * (i > 21) for i in range(30)]  # where the second segment begins
    times = [(0.3 + 0.6 * i + breath[i], 0.85 + 0.6 * i + breath[i]) for i in range(30)]
    speech = Stuck([f" w{i}" for i in range(30)], times)
    run = take_turn(speech, EarlierSpeech(LONGEST, KEPT, STEP), language="en")
    assert run.finish().text == " ".join(f"w{i}" for i in range(30))
    alone = [request for request in run.requests if not front(request)]
    assert len(alone) < len(run.requests)
    assert all(request.head == (998,) for request in alone)


class Content(Speech):
    """Takes the first words for all while somebody speaks, if it knows not that there is more."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        is_content = len(request.prefix) >= 2 and request.is_open and not request.at_least
        return replace(result, tokens=(), logprobs=()) if is_content else result


def test_words_that_were_heard_are_not_forgotten_while_somebody_speaks() -> None:
    times = [(0.3 + 0.6 * i, 0.8 + 0.6 * i) for i in range(12)]
    speech = Content([f" w{i}" for i in range(12)], times)
    run = take_turn(speech, EarlierSpeech(), language="en")
    assert run.finish().text == " ".join(f"w{i}" for i in range(12))
    asked = [request.at_least for request in run.requests]
    assert any(asked) and not asked[0]


class Pausing(Speech):
    """Takes the end of a sentence for the end of all, unless it is known that there is more."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        least = max(1, request.at_least)
        words = [self.vocabulary.words[token] for token in result.tokens]
        ends = [i + 1 for i, word in enumerate(words) if word.endswith(".") and i + 1 >= least]
        count = ends[0] if ends else len(words)
        return replace(result, tokens=result.tokens[:count], logprobs=result.logprobs[:count])


def test_behind_a_sentence_somebody_may_speak_on() -> None:
    times = [(0.3 + 0.5 * i, 0.7 + 0.5 * i) for i in range(24)]
    words = [f" w{i}" + "." * (i % 4 == 3) for i in range(24)]
    run = take_turn(Pausing(words, times), EarlierSpeech(), language="en")
    assert run.finish().text == "".join(words).lstrip()


def test_where_nothing_was_heard_nothing_has_to_be_said() -> None:
    class Silent(Speech):
        def hear(self, request: WhisperRequest, start: int) -> Result:
            return replace(super().hear(request, start), tokens=(), logprobs=())

    speech = Silent([" a"], [(0.3, 6.0)])
    run = take_turn(speech, EarlierSpeech(), language="en")
    assert run.finish().text == ""
    assert not any(request.at_least for request in run.requests)


def test_a_segment_does_not_end_with_speech_that_has_no_text() -> None:
    earlier = EarlierSpeech(LONGEST, KEPT, STEP)
    first = Speech([" a", " b"], [(0.3, 0.7), (0.8, 1.2)])
    take_turn(first, earlier, language="en").finish()
    times = [(0.3 + 0.6 * i, 0.8 + 0.6 * i) for i in range(8)]
    second = Weary([f" {letter}" for letter in "cdefghij"], times, first)
    run = take_turn(second, earlier, language="en")
    assert run.finish().text == "c d e f g h i j"


def test_a_full_stop_that_comes_first_belongs_to_what_was_said_before() -> None:
    earlier = EarlierSpeech(LONGEST, KEPT, STEP)
    first = Speech([" a", " b"], [(0.3, 0.7), (0.8, 1.2)])
    take_turn(first, earlier, language="en").finish()
    times = [*((0.3 + 0.6 * i, 0.8 + 0.6 * i) for i in range(5)), (3.3, 3.4)]
    run = take_turn(Tidy([" c", " d", " e", " f", " g", "."], times, first), earlier, language="en")
    assert run.finish().text == "c d e f g"
    assert not any(text.startswith(".") for text in run.provisional)


# --- languages -----------------------------------------------------------------------------------


class Bilingual(Speech):
    """Says of audio that is heard by itself in which language it is."""

    language = "en"

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        codes = self.vocabulary.languages
        sure = {
            1000 + i: math.log(0.99999 if c == self.language else 1e-5) for i, c in enumerate(codes)
        }
        likeliest = 1000 + codes.index(self.language)
        told = likeliest if request.language is None else request.language
        return replace(result, language=told, languages=sure)


def test_a_change_of_language_is_followed() -> None:
    """Nobody told the language: a turn is heard by itself before others stand in front of it."""
    earlier, language = EarlierSpeech(LONGEST, KEPT, STEP), SessionLanguage()
    words = [(0.3 + 0.5 * i, 0.7 + 0.5 * i) for i in range(8)]
    first = Bilingual([f" a{i}" for i in range(8)], words)
    done = take_turn(first, earlier, language).finish()
    assert done.language == "en"
    second = Bilingual([f" b{i}" for i in range(8)], words, first)
    run = take_turn(second, earlier, language)
    assert front(run.requests[0]), "the session is known to be in English"
    asked = [request for request in run.requests if not front(request)]
    assert 1 <= len(asked) <= len(CONFIG.language_checks)
    assert all(request.max_new_tokens == 1 for request in asked)
    assert run.finish().language == "en"
    third = Bilingual([f" c{i}" for i in range(8)], words, second)
    third.language = "de"
    run = take_turn(third, earlier, language)
    assert run.finish().language == "de"
    assert run.committed == "".join(third.words).lstrip()
    heard_behind = [front(request) > 0 for request in run.requests]
    assert heard_behind == sorted(heard_behind, reverse=True), "English, until it was asked for"
    assert sum(heard_behind) * CONFIG.tick <= CONFIG.language_checks[0] + CONFIG.tick


class Murmuring(Bilingual):
    """Says of a second of audio that it may be in English, and of several that they are in
    another language."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        codes = self.vocabulary.languages
        is_long = len(request.samples) >= 2 * SAMPLE_RATE
        code, own = (self.language, 0.99) if is_long else ("en", 0.6)
        share = {c: own if c == code else (1 - own) / (len(codes) - 1) for c in codes}
        languages = {1000 + i: math.log(share[c]) for i, c in enumerate(codes)}
        told, prior = request.language, request.language_prior
        if told is None:
            told = max(languages, key=lambda token: languages[token] + prior.get(token, 0.0))
        return replace(result, language=told, languages=languages)


def test_short_turns_are_heard_together_for_their_language() -> None:
    earlier, language = EarlierSpeech(LONGEST, KEPT, STEP), SessionLanguage()
    spoken, before = [], None
    for number in range(4):
        before = Murmuring([f" w{number}"], [(0.3, 0.9)], before)
        before.language = "de"
        run = take_turn(before, earlier, language)
        spoken.append(run.finish().language)
        assert run.committed == f"w{number}"
        asked = [request for request in run.requests if request.max_new_tokens == 1]
        joined = [request for request in asked if len(request.samples) >= 2 * SAMPLE_RATE]
        assert len(joined) == (number > 0), "once a turn, as soon as there are two"
        assert not any(request.num_earlier for request in joined), "no text is told of them"
    assert spoken == ["en", "de", "de", "de"]


WORDS = [(0.3 + 0.5 * i, 0.7 + 0.5 * i) for i in range(8)]  # when they are said


def in_english(earlier: EarlierSpeech, language: SessionLanguage) -> Bilingual | None:
    """Three clear turns of a session: the last of them."""
    speech: Bilingual | None = None
    for name in "abc":
        speech = Bilingual([f" {name}{i}" for i in range(8)], WORDS, speech)
        assert take_turn(speech, earlier, language).finish().language == "en"
    return speech


def behind_english(kind: type[Bilingual]) -> tuple[Driver, SessionLanguage]:
    """A turn of that kind behind three clear ones in English, spoken but not over; the session."""
    earlier, language = EarlierSpeech(LONGEST, KEPT, STEP), SessionLanguage()
    speech = kind([f" d{i}" for i in range(8)], WORDS, in_english(earlier, language))
    return take_turn(speech, earlier, language), language


class LateGerman(Bilingual):
    """Unclear for a second and a half."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        own = len(request.samples) - front(request)
        self.language = "de" if own > 3 * SAMPLE_RATE // 2 else "en"
        result = super().hear(request, start)
        if self.language == "en" and request.max_new_tokens == 1:
            alike = math.log(1 / len(self.vocabulary.languages))
            return replace(result, languages=dict.fromkeys(result.languages, alike))
        return result


def test_text_of_a_voice_that_was_clearer_waits_until_it_is_heard_again() -> None:
    run, _ = behind_english(LateGerman)
    assert run.finish().language == "de"
    assert run.committed == "".join(run.speech.words).lstrip()


class Mistaken(Bilingual):
    """German that sounds somewhat like English for two and a half seconds."""

    def hear(self, request: WhisperRequest, start: int) -> Result:
        self.language = "de" if len(request.samples) > 5 * SAMPLE_RATE // 2 else "en"
        result = super().hear(request, start)
        if self.language == "en":
            codes = self.vocabulary.languages
            rest = math.log(0.1 / (len(codes) - 1))
            return replace(
                result,
                languages={
                    1000 + i: math.log(0.9) if c == "en" else rest for i, c in enumerate(codes)
                },
            )
        return result


def test_a_turn_that_was_in_doubt_is_heard_once_more_when_it_is_quiet() -> None:
    """What was told stays told; the next turn begins without it."""
    run, language = behind_english(Mistaken)
    for _ in range(4):
        run.feed(0.1)  # silence
    asked = [request for request in run.requests if request.max_new_tokens == 1]
    assert len(asked[-1].samples) > 4 * SAMPLE_RATE
    assert run.finish().language == "en"
    assert run.committed == "".join(run.speech.words).lstrip()
    assert language.sure() == "de"


class Unclear(Bilingual):
    """In no language more than in any other."""

    asked = 0

    def hear(self, request: WhisperRequest, start: int) -> Result:
        result = super().hear(request, start)
        self.asked += request.max_new_tokens == 1
        assert self.asked <= 2, "the same audio says the same of its language"
        alike = math.log(1 / len(self.vocabulary.languages))
        return replace(result, languages=dict.fromkeys(result.languages, alike))


def test_a_turn_in_doubt_that_comes_at_once_is_over_though_it_is_longer_than_a_look() -> None:
    earlier, language = EarlierSpeech(LONGEST, KEPT, STEP), SessionLanguage()
    before, count = in_english(earlier, language), round(2 * CONFIG.cap / SAMPLE_RATE)
    words = [(0.3 + i, 0.8 + i) for i in range(count)]
    speech = Unclear([f" e{i}" for i in range(count)], words, before)
    run = take_turn(speech, earlier, language, piece=speech.duration)
    assert run.finish().language == "en" and speech.asked
    assert run.committed == "".join(speech.words).lstrip()


# --- marks ---------------------------------------------------------------------------------------


@given(
    tokens=st.lists(st.integers(0, 9) | st.integers(FIRST_STAMP, FIRST_STAMP + 9), max_size=20),
    count=st.integers(0, 20),
)
def test_text_and_marks_are_what_was_written(tokens: list[int], count: int) -> None:
    whole = Hypothesis(tuple(tokens), tuple(-0.1 * t for t in tokens))
    text = whole.without(lambda token: token >= FIRST_STAMP)
    assert list(text.tokens) == [t for t in tokens if t < FIRST_STAMP]
    assert text.logprobs == tuple(-0.1 * t for t in text.tokens)
    last = max((i for i, t in enumerate(tokens) if t < FIRST_STAMP), default=-1)
    assert list(text.written) == tokens[: last + 1], "behind the last word none is drafted"
    count = min(count, len(text.tokens))
    said, rest = text.split(count)
    assert (*said.written, *rest.written) == text.written
