"""What sessions say: variants of one text, and its sentences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.bench.measures.trace import RATE, SpokenWord
from lookhear.bench.recordings.session import Session
from lookhear.bench.recordings.speech import (
    crowd,
    held_out_sessions,
    long_session,
    sentences,
)
from lookhear.errors import SourceError
from tests.benchmarks.recordings import write_recordings

WORDS = (SpokenWord("a", 0.2, 0.5), SpokenWord("b", 0.6, 0.9), SpokenWord("c", 1.9, 2.4))


def session() -> Session:
    """Two and a half seconds; every sample inside a word is 10,000, all else is zero."""
    pcm = np.zeros(int(2.5 * RATE), "<i2")
    for word in WORDS:
        pcm[int(word.start * RATE) : int(word.end * RATE)] = 10_000
    return Session("s", pcm, "a b c", WORDS, "en")


@given(st.integers(1, 40))
def test_a_crowd_says_the_same_and_never_sounds_the_same(count: int) -> None:
    speakers = crowd(session(), count)
    assert len({speaker.name for speaker in speakers}) == count
    assert len({int(speaker.pcm.max()) for speaker in speakers}) == count
    for speaker in speakers:
        assert speaker.text == "a b c"
        for word in speaker.words:  # the words are where their sound is
            inside = speaker.pcm[int(word.start * RATE) + 1 : int(word.end * RATE) - 1]
            assert inside.min() >= 6_000 and inside.max() <= 10_000


def test_sentences_are_cut_in_the_pauses() -> None:
    first, second = sentences(session())
    assert (first.text, second.text) == ("a b", "c")
    assert len(first.pcm) == int(1.4 * RATE) and len(second.pcm) == RATE + RATE // 10
    assert first.words[0].start == pytest.approx(0.2)
    assert second.words[0].start == pytest.approx(0.5)
    assert np.array_equal(np.concatenate([first.pcm, second.pcm]), session().pcm)


def test_recordings_of_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="expected recordings"):
        held_out_sessions(tmp_path)
    write_recordings(tmp_path)
    (utterance,) = held_out_sessions(tmp_path)
    assert utterance.text == "w1 w2" and utterance.split == "unseen"
    assert long_session("s", 3, 3.0, tmp_path, "en").text == "w0 w1 w2"
    with pytest.raises(SourceError, match="'de'"):
        long_session("s", 0, 3.0, tmp_path, "de")
