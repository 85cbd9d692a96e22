"""How long live text waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.messages import SAMPLE_RATE, Delay
from lookhear.engine.speech.live_config import DELAYS, Evidence, LiveConfig
from tests.engine.speech.scripted import Speech
from tests.engine.speech.test_live import driver

USUAL = LiveConfig()


@given(st.lists(st.integers(1, 5 * SAMPLE_RATE), min_size=1, max_size=4), st.integers(1, 16_000))
def test_who_asks_for_more_delay_has_all_evidence_longer_and_no_more_ticks(
    evidence: list[int], tick: int
) -> None:
    usual = LiveConfig(tick=tick, evidence=tuple(Evidence(-1.0, n) for n in evidence))
    assert usual.delayed(None) == usual.delayed("medium") == usual
    before = LiveConfig(tick=0, evidence=tuple(Evidence(-1.0, 0) for _ in evidence))
    for delay in DELAYS:
        config = usual.delayed(delay)
        assert config.tick >= max(before.tick, usual.tick)
        pairs = zip(before.evidence, config.evidence, strict=True)
        assert all(old.samples <= new.samples for old, new in pairs)
        before = config


@pytest.mark.parametrize("delay", DELAYS)
def test_words_wait_as_long_as_is_asked(delay: Delay) -> None:
    count = 40
    times = [(0.4 * i, 0.4 * i + 0.35) for i in range(count)]
    speech = Speech([f" w{i}" for i in range(count)], times)
    config = USUAL.delayed(delay)
    run = driver(speech, config)
    while not run.committed:
        run.feed(0.02)
    evidence = config.most_evidence / SAMPLE_RATE
    # The first word is over at 0.35 s, and nothing is said before the warm-up; what was heard must
    # be heard once more, and ticks are so far apart.
    first = max(0.35, config.warm_up / SAMPLE_RATE) + evidence
    assert evidence < run.position / SAMPLE_RATE <= first + 2 * config.tick / SAMPLE_RATE + 0.1
    while run.position < speech.duration * SAMPLE_RATE:
        run.feed(0.02)
    assert run.finish().text == "".join(speech.words).lstrip()


@given(
    st.integers(0, 20 * SAMPLE_RATE), st.integers(0, 5 * SAMPLE_RATE), st.floats(0, 1),
    st.sampled_from([0.0, 6.0]),
)  # fmt: skip
def test_longer_silence_longer_speech_and_a_surer_end_complete_no_less(
    length: int, silence: int, ends: float, roll: float
) -> None:
    config = LiveConfig(roll=round(roll * SAMPLE_RATE))
    if not config.is_complete(length, silence, ends):
        return
    assert silence >= config.tail
    assert config.is_complete(length, silence + 1, ends)
    assert config.is_complete(length + 1, silence, ends)
    assert config.is_complete(length, silence, 1.0)


def test_a_breath_near_the_cap_is_taken() -> None:
    config, breath = LiveConfig(roll=6 * SAMPLE_RATE), SAMPLE_RATE // 5
    near, nearer = config.cap * 13 // 16, config.cap * 15 // 16
    assert not config.is_complete(near, breath, 0.0)
    assert config.is_complete(near, breath, 1.0)
    assert config.is_complete(nearer, breath, 0.0)
    assert not config.is_complete(nearer, config.tail - 1, 1.0)
