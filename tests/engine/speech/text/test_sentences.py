"""Sentences of a text that has no times."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.condensed import NEAR, CondensedAudio
from lookhear.engine.speech.text.hypothesis import token_logprob, told_logprobs
from lookhear.engine.speech.text.sentences import end_probability, sentences, without_signs

PIECES = [" a", " Mr", ".", "?", " log", "in", "!", '"', " ", "。", "好", " U.S", " 3", ".5"]


def decode(tokens: Sequence[int]) -> bytes:
    return "".join(PIECES[t] for t in tokens).encode()


def split(text: str) -> list[str]:
    words = text.split(" ")
    pieces = [word if i == 0 else " " + word for i, word in enumerate(words)]
    found = sentences(range(len(pieces)), lambda ts: "".join(pieces[t] for t in ts).encode(), "en")
    return ["".join(pieces[a:b]).strip() for a, b in found]


@given(st.lists(st.integers(0, len(PIECES) - 1), max_size=30), st.sampled_from(["en", "zh", None]))
def test_sentences_are_all_of_the_text(tokens: list[int], language: str | None) -> None:
    found = sentences(tokens, decode, language)
    assert [t for a, b in found for t in tokens[a:b]] == tokens
    assert all(a < b for a, b in found)


def test_where_sentences_end() -> None:
    assert split('Stop! "Who is it?" Mr. John of the U.S. army. He has 3.5 or so') == [
        "Stop!", '"Who is it?"', "Mr. John of the U.S. army.", "He has 3.5 or so",
    ]  # fmt: skip


def ended(*pieces: str) -> float:
    """How probably a sentence ends behind the pieces, of which the last ones are less sure."""
    logprobs = [-0.1 * i for i in range(len(pieces))]
    return end_probability(
        range(len(pieces)), logprobs, lambda ts: b"".join(pieces[t].encode() for t in ts)
    )


def test_how_probably_a_sentence_ends_is_how_sure_its_sign_is() -> None:
    assert ended(" It", " is", ".") == pytest.approx(math.exp(-0.2))
    assert ended(" Is", " it", "?", '"') == pytest.approx(math.exp(-0.2))
    assert ended("好", "。") == pytest.approx(math.exp(-0.1))
    assert ended(" so", " 3.") == pytest.approx(math.exp(-0.1))


@pytest.mark.parametrize("sign", ["؟", "۔", "।", "።"])
def test_sentences_of_other_scripts_end_with_their_own_signs(sign: str) -> None:
    assert ended(" a", " b", sign) == pytest.approx(math.exp(-0.2))


@pytest.mark.parametrize("text", ["", " and", " and,", " and...", " and…", " Mr.", " a. b"])
def test_where_none_ends(text: str) -> None:
    assert ended(*text.split("|")) == 0.0


@given(st.lists(st.integers(0, len(PIECES) - 1), max_size=30))
def test_what_stands_in_front_of_the_last_signs(tokens: list[int]) -> None:
    count = without_signs(tokens, lambda token: decode([token]))
    rest = decode(tokens[count:]).decode()
    assert not rest.strip('.?!"。')
    assert not count or PIECES[tokens[count - 1]].strip('.?!"。')
    logprobs = [-1.0] * len(tokens)
    assert end_probability(tokens, logprobs, decode) in (0.0, math.exp(-1.0))


def test_a_sentence_ends_in_the_pause_that_is_near() -> None:
    spans = [(0, 4), (5, 8), (8.5, 10)]
    speech = [(round(a * SAMPLE_RATE), round(b * SAMPLE_RATE)) for a, b in spans]
    audio = CondensedAudio(np.zeros(10 * SAMPLE_RATE, np.float32), speech)
    end = 10 * SAMPLE_RATE
    share = 3.5 / 8.5  # half a second before the first pause
    assert audio.spoken_until(0, end, share) == (4 * SAMPLE_RATE, 5 * SAMPLE_RATE)
    assert NEAR == SAMPLE_RATE
    at = round(2 / 8.5 * audio.spoken(0, end))
    assert audio.spoken_until(0, end, 2 / 8.5) == (at, at), "nobody pauses near"


@given(
    st.lists(st.sampled_from(["  a", " b", "é", " ", "c "]), max_size=6),
    st.sampled_from(["told", "apart", "raw"]),
)
def test_tokens_join_to_the_text_as_it_is_told(pieces: list[str], how: str) -> None:
    tokens = [token_logprob(piece.encode(), -1.0) for piece in pieces]
    raw = "".join(pieces)
    text = {"told": raw.strip(), "apart": " " + raw.lstrip(), "raw": raw}[how]
    if not raw.strip():
        return
    told = told_logprobs(tokens, text)
    assert b"".join(bytes(token.bytes) for token in told).decode() == text
    assert all(token.token == bytes(token.bytes).decode() for token in told)


def test_a_character_of_several_tokens_stays_apart_as_bytes() -> None:
    data = " é".encode()
    told = told_logprobs([token_logprob(data[:2], -1.0), token_logprob(data[2:], -2.0)], "é")
    assert [token.bytes for token in told] == [[0xC3], [0xA9]]
    assert [token.logprob for token in told] == [-1.0, -2.0]
