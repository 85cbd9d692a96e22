"""Ticks of one segment begin alike: what one of them may leave out because another heard it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Beginning, Cost
from lookhear.engine.messages import SAMPLE_RATE, TranscriptionSettings
from lookhear.engine.speech.earlier import Earlier, EarlierSpeech, SharedBeginning
from lookhear.engine.speech.live import LiveTurn
from lookhear.engine.whisper.recognizer import WhisperRecognizer, WindowRule
from lookhear.engine.whisper.request import WhisperRequest
from tests.engine.speech.scripted import Driver, Speech, kept
from tests.engine.speech.test_earlier import (
    CONFIG,
    KEPT,
    LONGEST,
    STEP,
    WINDOW,
    conversations,
    segment,
)

OPEN = replace(WINDOW, open=3 * SAMPLE_RATE // 2)


class Costed(Driver):
    """Asks what each request will cost, before it is made."""

    def __init__(self, speech: Speech, turn: LiveTurn, lead_in: int) -> None:
        super().__init__(speech, turn, lead_in)
        self.asked: list[tuple[Cost, bool]] = []

    def work(self) -> None:
        while self.turn.wants_request():
            self.asked.append((self.turn.cost(), self.turn.is_urgent))
            request = self.turn.make_request()
            self.requests.append(kept(request))
            start = self.turn.segment_start - self.lead_in
            self.events += self.turn.absorb(self.speech.hear(request, start))


def read(request: WhisperRequest, kept: dict[Beginning, np.ndarray]) -> int:
    """Samples that an encoder reads that keeps all it may, and its window is what it was."""
    known = 0
    for beginning, count in request.settled:
        held = kept.get(beginning)
        if held is not None and len(held) <= count:
            np.testing.assert_array_equal(request.samples[: len(held)], held)
            known = len(held)
    for beginning, count in request.settled:
        if count > known:
            kept[beginning] = request.samples[:count]
    return request.window_samples - known


@settings(max_examples=40, deadline=None)
@given(turns=conversations(), chunk=st.sampled_from([0.05, 0.1, 0.3]))
def test_what_is_left_out_was_heard_and_had_enough_behind_it(
    turns: list[Speech], chunk: float
) -> None:
    earlier, kept = EarlierSpeech(LONGEST, KEPT, STEP), dict[Beginning, np.ndarray]()
    wanted = TranscriptionSettings(model="m", language="en")
    for speech in turns:
        recognizer = WhisperRecognizer(speech.vocabulary, OPEN, wanted)  # type: ignore[arg-type]
        turn = LiveTurn("s", "t", wanted, recognizer, CONFIG, None, earlier)
        run = Costed(speech, turn, CONFIG.lead_in)
        while run.position < speech.duration * SAMPLE_RATE:
            run.feed(chunk)
        assert run.finish().text == "".join(speech.words).lstrip()
        for request, (cost, is_urgent) in zip(run.requests, run.asked, strict=True):
            counts = [count for _, count in request.settled]
            assert counts == sorted(counts) and len(counts) <= 2
            assert read(request, kept) <= cost.encoder
            own = request.settled[1:] if request.timestamps else request.settled
            if is_urgent:  # the last look is at all of the segment
                assert not own and request.segment is None
            for _, count in own:
                assert len(request.samples) - count >= OPEN.open - OPEN.step - OPEN.margin


def test_a_long_segment_is_read_about_once() -> None:
    words = [(0.3 + 0.5 * i, 0.8 + 0.5 * i) for i in range(20)]
    speech = Speech([f" a{i}" for i in range(20)], words)
    wanted = TranscriptionSettings(model="m", language="en")

    def total(window: WindowRule) -> int:
        recognizer = WhisperRecognizer(speech.vocabulary, window, wanted)  # type: ignore[arg-type]
        turn = LiveTurn("s", "t", wanted, recognizer, CONFIG)
        run = Driver(speech, turn, CONFIG.lead_in)
        while run.position < speech.duration * SAMPLE_RATE:
            run.feed(0.1)
        run.finish()
        kept = dict[Beginning, np.ndarray]()
        return sum(read(request, kept) for request in run.requests)

    assert total(OPEN) < total(WINDOW) / 2


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 99))))
def test_a_beginning_is_shared_as_long_as_all_in_front_is_the_same(
    steps: list[tuple[int, int, int]],
) -> None:
    shared, speech = SharedBeginning(), EarlierSpeech(LONGEST, KEPT, STEP)
    befores = [Earlier()]
    for number in range(2):
        speech.add(segment(1.0, number))
        befores.append(speech.before("en", "transcribe"))
    last, beginning, heard = (0, 0), shared.of(0, befores[0], 7), 7
    for start, which, samples in steps:
        known = shared.known(start, befores[which])
        is_same = (start, which) == last
        assert known == ((0, heard) if is_same else (befores[which].num_samples, 0))
        now = shared.of(start, befores[which], samples)
        assert (now is beginning) == is_same
        last, beginning, heard = (start, which), now, samples
