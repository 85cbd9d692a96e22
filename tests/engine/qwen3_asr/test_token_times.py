"""The times of words, shared out among the tokens that spell them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lookhear.engine.qwen3_asr.alignment import AlignedWord, aligned_words
from lookhear.engine.qwen3_asr.token_times import text_of, token_times
from lookhear.engine.speech.text.words import group_words
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.speech.scripted_asr import make_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> QwenTokenizer:
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def said(text: str, seed: int = 0) -> list[AlignedWord]:
    """Its words, at moments that rise."""
    words = aligned_words(text)
    moments = np.sort(np.random.default_rng(seed).integers(0, 200, 2 * len(words))) * 0.08
    return [
        AlignedWord(word, float(moments[2 * i]), float(moments[2 * i + 1]))
        for i, word in enumerate(words)
    ]


ALPHABET = "aé'3-. ,你好—«\U0001f600"


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.sampled_from(ALPHABET), min_size=1), seed=st.integers(0, 9))
def test_times_rise_and_cover_the_words(tokenizer: QwenTokenizer, text: str, seed: int) -> None:
    words = said(text, seed)
    assume(words)
    tokens = tokenizer.encode(text)
    times = token_times(tokens, tokenizer.decode_bytes, words)
    assert len(times) == len(tokens)
    assert all(start <= end for start, end in times)
    assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(times))
    assert times[0][0] == words[0].start and times[-1][1] == words[-1].end


@settings(max_examples=100, deadline=None)
@given(words=st.lists(st.text(st.sampled_from("abé3"), min_size=1), min_size=1))
def test_plain_words_have_just_their_times(tokenizer: QwenTokenizer, words: list[str]) -> None:
    text = " " + ", ".join(words) + "."
    known = said(text)
    tokens = tokenizer.encode(text)
    times = token_times(tokens, tokenizer.decode_bytes, known)
    grouped = group_words(tokens, tokenizer.decode_bytes, "en")
    found = [(times[first][0], times[last - 1][1]) for _, first, last in grouped]
    assert found == [(word.start, word.end) for word in known]
    assert "".join(text for text, _, _ in grouped) == text


def test_signs_go_with_the_words_that_they_belong_to(tokenizer: QwenTokenizer) -> None:
    text = 'So well-known "yes", 你好。'
    pieces = ["So", " well", "-", "known", ' "', "yes", '",', " ", "你", "好", "。"]
    tokens, bounds = [], [0]
    for piece in pieces:
        tokens += tokenizer.encode(piece)
        bounds.append(len(tokens))
    assert text_of(tokens, tokenizer.decode_bytes) == text
    moments = [(0.0, 0.4), (1.0, 2.0), (2.4, 2.8), (3.0, 3.2), (3.2, 3.6)]
    known = [AlignedWord(w, *t) for w, t in zip(aligned_words(text), moments, strict=True)]
    times = token_times(tokens, tokenizer.decode_bytes, known)
    spans = [(times[a][0], times[b - 1][1]) for a, b in pairwise(bounds)]
    assert spans == [
        (0.0, 0.4), (1.0, 1.4), (1.4, 1.5), (1.5, 2.0), (2.4, 2.4), (2.4, 2.8), (2.8, 2.8),
        (3.0, 3.0), (3.0, 3.2), (3.2, 3.6), (3.6, 3.6),
    ]  # fmt: skip


def test_a_character_of_several_tokens_is_said_at_once(tokenizer: QwenTokenizer) -> None:
    tokens = tokenizer.encode("你")
    assert len(tokens) == 3
    times = token_times(tokens, tokenizer.decode_bytes, [AlignedWord("你", 0.5, 0.7)])
    assert times == [(0.5, 0.7)] * 3
