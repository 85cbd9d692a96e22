"""Long speech in process: what is said when, and errors in blocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.in_process.sessions import PIECE, Listener, Minutes, Speech, block_errors
from lookhear.bench.measures.trace import SpokenWord
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import SAMPLE_RATE, TranscriptionSettings
from lookhear.wer import total, word_errors
from tools.random_checkpoints.qwen3 import build_served_qwen3_asr

WORDS = st.lists(st.sampled_from(["one", "two", "three", "four"]), max_size=30).map(" ".join)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(WORDS, WORDS, st.integers(1, 7))
def test_blocks_add_up_to_the_whole(reference: str, heard: str, size: int) -> None:
    blocks = block_errors(reference, heard, size)
    assert total(blocks) == word_errors(reference, heard)
    assert all(block.words <= size for block in blocks)


def test_an_error_counts_in_the_block_where_it_was_made() -> None:
    blocks = block_errors("a b c d e f", "a x b c d f", 2)
    assert [(b.substitutions, b.deletions, b.insertions) for b in blocks] == [
        (0, 0, 1),
        (0, 0, 0),
        (0, 1, 0),
    ]


def speech(num_pieces: int) -> Speech:
    """Four pieces to the lap, speech in the middle two."""
    loop = np.repeat(np.array([0.0, 0.5, 0.25, 0.0], np.float32), PIECE)
    word = SpokenWord("yes", 0.05, 0.15)
    return Speech("s", "en", loop, (0, 2 * PIECE, 3 * PIECE, 3 * PIECE), (word,), num_pieces)


def test_a_lap_is_like_the_one_before_but_for_its_place_and_loudness() -> None:
    said = speech(10)
    voiced = [said.piece(number)[1] for number in range(10)]
    assert voiced == [piece * PIECE for piece in (0, 2, 3, 3, 3, 6, 7, 7, 7, 10)]
    first, second, third = (said.piece(number)[0][0] for number in (1, 5, 9))
    assert first == 0.5 and 0.3 <= second < 0.5 and 0.3 <= third < 0.5 and second != third
    assert len(said.samples()) == 10 * PIECE
    assert said.text == "yes yes"  # the third is not finished
    assert [word.start for word in said.said()] == pytest.approx([0.05, 0.25])


def test_minutes_are_of_the_audio() -> None:
    minutes = Minutes()
    minutes.at(130.0).cpu += 2.0
    minutes.at(59.9).cpu += 1.0
    assert [meter.cpu for meter in minutes.meters] == [1.0, 0.0, 2.0]
    assert minutes.total.cpu == 3.0


def test_a_listener_hears_a_turn_to_its_end(tmp_path: Path) -> None:
    build_served_qwen3_asr(tmp_path)
    core = build_core(EngineConfig(model=str(tmp_path)), lambda stage, share: None).core
    loop = np.random.default_rng(0).normal(0.0, 0.1, 20 * PIECE).astype(np.float32)
    voiced = tuple((number + 1) * PIECE for number in range(20))
    noise = Speech("noise", "en", loop, voiced, (), 30)
    listener = Listener(core, TranscriptionSettings(model="m"), noise)
    listener.hear(15)
    listener.hear(15)  # nothing new
    assert listener.position == 15
    listener.hear(1000)
    listener.finish()
    counted = listener.counted()
    assert counted["requests"] == len(listener.ticks) > 3
    assert listener.text == "".join(text for _, text in listener.committed)
    assert listener.minutes.total.cpu > 0 and len(listener.minutes.meters) == 1
    assert all(0 <= tick < 30 * PIECE / SAMPLE_RATE for tick in listener.ticks)
    Listener(core, TranscriptionSettings(model="m"), replace(noise, name="next")).hear(15)
    assert listener.counted() == counted  # what the core does next is not its work
    core.check()
