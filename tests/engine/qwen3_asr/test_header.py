"""Whatever a model would write, its header is one of those that were asked for; words are free."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.qwen3_asr.header import HeaderGrammar, HeaderMatcher
from lookhear.engine.qwen3_asr.prompt import LANGUAGES, parse_transcript
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.speech.scripted_asr import make_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> QwenTokenizer:
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def open_to(matcher: HeaderMatcher, vocab: int) -> list[int]:
    """Tokens that it lets through."""
    bits = np.full(-(-vocab // 32), 7, np.int32)
    matcher.fill(bits)
    return [t for t in range(vocab) if (int(bits[t // 32]) >> (t % 32)) & 1]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(LANGUAGES)), min_size=1, max_size=4, unique=True),
    st.integers(0, 10**6),
)
def test_every_answer_begins_with_one_of_the_headers(
    tokenizer: QwenTokenizer, codes: list[str], seed: int
) -> None:
    vocab = len(tokenizer.added) + 300 + 1000
    rng, matcher = np.random.default_rng(seed), HeaderGrammar.of(tokenizer, codes).start()
    said: list[int] = []
    while len(tokens := open_to(matcher, vocab)) < vocab // 2:
        assert matcher.forced() == [] or len(tokens) == 1
        said.append(int(rng.choice(tokens)))
        before, matcher = matcher, matcher.behind(said[-1])
        before.accept(said[-1])
        assert open_to(before, vocab) == open_to(matcher, vocab)
    heard = parse_transcript(tokenizer.decode(said), final=True)
    assert heard is not None and heard.text == ""
    assert heard.language in {None, *(LANGUAGES[code] for code in codes)}
    start = HeaderGrammar.of(tokenizer, codes).start()
    words = tokenizer.encode("hello")
    assert start.allowed([*said, *words]) == len(said) + len(words)
    wrong = [*said[:-1], *words]  # words that come too early
    assert start.allowed(wrong) == len(said) - 1


def test_who_names_one_language_has_that_or_nobody(tokenizer: QwenTokenizer) -> None:
    matcher = HeaderGrammar.of(tokenizer, ["es"]).start()
    for text, fitting in (
        ("language Spanish", "language Spanish"),
        ("language None", "language None"),
        ("language English", "language "),
        ("hello", ""),
    ):
        tokens = tokenizer.encode(text)
        assert tokenizer.decode(tokens[: matcher.allowed(tokens)]) == fitting
    assert matcher.behind(tokenizer.encode("h")[0]).forced() == []  # nobody asks any more
