"""A live turn on Qwen3-ASR with a scripted ear: every word once, segments that stay open."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import StopReason
from lookhear.engine.messages import (
    SAMPLE_RATE,
    TextCommitted,
    TextProvisional,
    TranscriptionSettings,
)
from lookhear.engine.paged.request import PagedRequest
from lookhear.engine.speech.live import LiveTurn
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.speech.scripted import Driver
from tests.engine.speech.scripted_asr import AsrSpeech, Ear, make_tokenizer, result_of

CONFIG = LiveConfig(cap=7 * SAMPLE_RATE, roll=4 * SAMPLE_RATE)
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> QwenTokenizer:
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def driver(
    tokenizer: QwenTokenizer,
    times: list[tuple[float, float]],
    config: LiveConfig = CONFIG,
    **changes: object,
) -> tuple[Driver, Ear]:
    ear = Ear(tokenizer)
    wanted = TranscriptionSettings(model="m", **changes)  # type: ignore[arg-type]
    words = [WORDS[i % len(WORDS)] for i in range(len(times))]
    turn = LiveTurn("s", "t", wanted, ear, config)
    return Driver(AsrSpeech(words, times, ear), turn, config.lead_in), ear


@st.composite
def timings(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Up to 40 words of 0.15 to 0.6 s with gaps, now and then a pause."""
    at, times = draw(st.floats(0.0, 1.5)), []
    for _ in range(draw(st.integers(0, 40))):
        length = draw(st.floats(0.15, 0.6))
        times.append((at, at + length))
        at += length + draw(st.sampled_from([0.12, 0.15, 0.2, 0.3, 0.9, 2.5, 4.0]))
    return times


@settings(max_examples=20, deadline=None)
@given(times=timings(), chunk=st.sampled_from([0.06, 0.1, 0.37, 1.0, 40.0]))
def test_every_word_is_said_once_in_order_at_any_chunking(
    tokenizer: QwenTokenizer, times: list[tuple[float, float]], chunk: float
) -> None:
    run, ear = driver(tokenizer, times, provisional=True)
    shown = ""
    while run.position < run.speech.duration * SAMPLE_RATE:
        run.feed(chunk)
        assert run.committed.startswith(shown), "text was taken back"
        shown = run.committed
    done = run.finish()
    assert done.text == run.committed
    assert done.text == " ".join(run.speech.words), "one space between words and segments"
    assert all(len(s.samples) <= CONFIG.cap + 2 * SAMPLE_RATE for s in ear.stretches)
    assert done.language == ("en" if times else None)
    # As soon as a word is settled, so is the language, and the header is in the prompt.
    assert all(s.language == "en" for s in ear.stretches if s.committed)


class Unspaced(AsrSpeech):
    """Each word is a character."""

    language, between = "Chinese", ""


@pytest.mark.parametrize("language", [None, "zh"])
def test_text_without_spaces_comes_while_the_person_still_speaks(
    tokenizer: QwenTokenizer, language: str | None
) -> None:
    ear, words = Ear(tokenizer, language=language), list("今天天气很好我们一起去公园散步然后回家")
    turn = LiveTurn("s", "t", TranscriptionSettings("m", language=language), ear, CONFIG)
    times = [(0.2 + 0.25 * i, 0.42 + 0.25 * i) for i in range(len(words))]
    run = Driver(Unspaced(words, times, ear), turn, CONFIG.lead_in)
    places = [0.0]
    while run.position < times[-1][1] * SAMPLE_RATE:
        before = run.committed
        run.feed(0.1)
        if run.committed != before:
            places.append(run.position / SAMPLE_RATE)
    assert max(b - a for a, b in pairwise([*places, times[-1][1]])) < 2.0
    assert run.finish().text == run.committed == "".join(words)


def test_no_word_waits_anew_once_the_language_is_settled(tokenizer: QwenTokenizer) -> None:
    """Looks at what was heard alike before and after count together."""
    told: list[list[tuple[int, str]]] = []
    for language in (None, "en"):
        times = [(0.2 + 0.4 * i, 0.55 + 0.4 * i) for i in range(8)]
        run, _ = driver(tokenizer, times, language=language)
        told.append([])
        while run.position < times[-1][1] * SAMPLE_RATE:
            run.feed(0.1)
            told[-1].append((run.position, run.committed))
    assert told[0] == told[1] and told[0][-1][1].startswith("alpha beta gamma")


def test_a_segment_stays_open_over_short_pauses_and_closes_when_it_is_long(
    tokenizer: QwenTokenizer,
) -> None:
    # Pauses of a second: after 1.3 s of a segment (too early), after 5 s (time to begin anew).
    times = [(0.3, 0.8), (1.8, 2.3), (2.5, 3.0), (3.2, 3.7), (3.9, 4.4), (4.6, 5.1), (6.1, 6.6)]
    run, ear = driver(tokenizer, times)
    for _ in range(80):
        run.feed(0.1)
    run.finish()
    starts = [stretch.start for stretch in ear.stretches]
    assert len(set(starts)) == 2
    new = next(i for i, start in enumerate(starts) if start != starts[0])
    assert starts[new] / SAMPLE_RATE > 5.0
    assert run.committed == " ".join(WORDS[:7])


def test_a_long_silence_closes_any_segment(tokenizer: QwenTokenizer) -> None:
    run, ear = driver(tokenizer, [(0.3, 0.8), (5.0, 5.5)])
    for _ in range(70):
        run.feed(0.1)
    assert len({stretch.start for stretch in ear.stretches}) == 2
    assert run.finish().text == "alpha beta"


def test_a_short_pause_is_settled_without_closing(tokenizer: QwenTokenizer) -> None:
    """Who pauses sees the whole text, though the segment goes on."""
    run, ear = driver(tokenizer, [(0.3, 0.8), (1.0, 1.5), (6.0, 6.5)])
    while run.position < 2.4 * SAMPLE_RATE:
        run.feed(0.1)
    assert run.committed.startswith("alpha")
    assert run.finish().text == "alpha beta"


def test_silence_inside_an_open_segment_costs_nothing(tokenizer: QwenTokenizer) -> None:
    run, ear = driver(tokenizer, [(0.3, 0.8)])
    for _ in range(20):
        run.feed(0.1)
    heard = len(ear.stretches)
    for _ in range(300):
        run.feed(0.1)
    assert len(ear.stretches) == heard
    assert run.finish().text == "alpha"


def test_what_every_tick_reads_anew_does_not_grow_with_the_turn(tokenizer: QwenTokenizer) -> None:
    """A minute of speech without a pause: tokens behind the final ones stay few."""
    times = [(0.5 * i, 0.5 * i + 0.35) for i in range(120)]
    run, _ = driver(tokenizer, times)
    requests: list[PagedRequest] = run.requests  # type: ignore[assignment]
    while run.position < 60 * SAMPLE_RATE:
        run.feed(0.25)
    audio = [sum(m.num_tokens for _, m in r.media) for r in requests]
    anew = [len(r.tokens) - r.final_tokens for r in requests]
    assert max(audio) > 80
    text = max(len(r.tokens) for r in requests) - max(audio)
    assert max(anew) <= 26 + 13 + text
    assert run.finish().text == " ".join(run.speech.words)


def test_a_looping_model_is_cut_short_and_the_turn_goes_on(tokenizer: QwenTokenizer) -> None:
    run, ear = driver(tokenizer, [(0.1, 3.0), (3.2, 3.6)])
    run.turn.append(run.speech.samples(0, 2 * SAMPLE_RATE), 2 * SAMPLE_RATE)
    run.turn.make_request()
    loop = ear.answer("language English<asr_text>") + tuple(tokenizer.encode(" ha")) * 20
    events = run.turn.absorb(result_of(loop, StopReason.REPETITION))
    assert not [e for e in events if isinstance(e, TextCommitted)]
    run.position = 2 * SAMPLE_RATE
    while run.position < 5 * SAMPLE_RATE:
        run.feed(0.1)
    assert run.finish().text == "alpha beta"


def test_an_answer_that_is_all_header_says_nothing(tokenizer: QwenTokenizer) -> None:
    run, ear = driver(tokenizer, [(0.1, 1.0)], provisional=True)
    run.turn.append(run.speech.samples(0, SAMPLE_RATE), SAMPLE_RATE)
    for answer in ("language Engl", "language None<asr_text>", "language English<asr_text>", ""):
        run.turn.make_request()
        told = run.turn.absorb(result_of(ear.answer(answer), StopReason.LENGTH))
        assert not [e for e in told if not isinstance(e, TextProvisional) or e.text]
        run.turn.append(run.speech.samples(0, SAMPLE_RATE // 4), run.turn.num_samples + 4000)


def test_without_drafts_the_same_text(tokenizer: QwenTokenizer) -> None:
    times = [(0.4 * i, 0.4 * i + 0.3) for i in range(20)]
    texts = []
    for draft in (True, False):
        config = LiveConfig(cap=CONFIG.cap, roll=CONFIG.roll, draft=draft)
        run, ear = driver(tokenizer, times, config)
        while run.position < 9 * SAMPLE_RATE:
            run.feed(0.1)
        texts.append((run.finish().text, run.committed))
        assert all((s.draft is not None) is draft for s in ear.stretches)
    assert texts[0] == texts[1]
