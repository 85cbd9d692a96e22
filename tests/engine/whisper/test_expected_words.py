"""Texts on trial in a running request, with expected words or where the model was in doubt: no
draft changes the text, and nothing but what is tried does."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Phase, Priority
from lookhear.engine.sampling.alternatives import Doubts
from lookhear.engine.sampling.expected import ExpectedWords, Strength, Told
from lookhear.engine.whisper.positions import Purpose
from lookhear.engine.whisper.request import WhisperRequest, WhisperSequence

END = 9
WORDS = {"Abc": [1, 2, 3], "Ad": [1, 4], "E": [5], "Fgh": [6, 7, 8]}
STRENGTH = Strength(behind=4.0, sure=1.0, gain=3.0, doubt=1.0)
# Every token begins with a space, so a word is over whatever follows it.
EXPECTED = ExpectedWords(
    [*WORDS],
    lambda text: WORDS[text.strip()],
    lambda token: b" %d" % token if token != END else b"",
    STRENGTH,
)
DOUBTS = Doubts(lambda token: b" %d" % token, END, sure=1.0, behind=4.0, alike=2)
REQUEST = WhisperRequest(
    key="s/t",
    priority=Priority.LIVE,
    samples=np.zeros(16, np.float32),
    window_samples=16,
    head=(100,),
    language=101,
    detect_language=True,
    tail=(102, 103),
    max_new_tokens=16,
    expected=EXPECTED,
)
DOUBTED = replace(REQUEST, expected=None, doubts=DOUBTS)


def logprobs(context: tuple[int, ...], seed: int) -> list[float]:
    """A model: any deterministic function of the context. Of each token, the end included."""
    scores = [hash((seed, token, context[-3:], len(context))) % 50 / 10 for token in range(END + 1)]
    scores[END] += len(context) / 4 - 2
    total = math.log(sum(map(math.exp, scores)))
    return [score - total for score in scores]


def of_texts(context: tuple[int, ...], texts: dict[tuple[int, ...], float]) -> list[float]:
    """A model that knows texts, and how likely each of their tokens is."""
    said = context[len(REQUEST.head) + 1 + len(REQUEST.tail) :]
    return [
        max((nats for t, nats in texts.items() if t[: len(said) + 1] == (*said, token)), default=-9)
        for token in range(END + 1)
    ]


def run(
    request: WhisperRequest, seed: int, texts: dict[tuple[int, ...], float] | None = None
) -> tuple[WhisperSequence, int]:
    """Decode to the end with a cache that only knows what was fed; and the passes it took."""
    sequence = WhisperSequence(request, END, 448)
    cache: list[int] = []
    passes = 0
    while sequence.phase is not Phase.DONE:
        passes += 1
        queries = sequence.queries()
        assert queries, "a step must feed something"
        assert sequence.fed <= len(cache)
        assert cache[: sequence.fed] == sequence.context[: sequence.fed]
        cache[sequence.fed :] = queries
        wanted, base = sequence.logits_rows(), sequence.fed
        sampled, told = [], []
        for row in wanted:
            if row.purpose is Purpose.START:
                continue
            context = tuple(cache[: base + row.index + 1])
            own = logprobs(context, seed) if texts is None else of_texts(context, texts)
            best = max(range(END + 1), key=lambda token: own[token])
            token = best if row.forced is None else row.forced
            sampled.append(token)
            firsts = [own[first] for first in row.firsts]
            second = max((t for t in range(END + 1) if t != token), key=lambda t: own[t])
            told.append(Told(own[token], own[best], firsts, second, own[second]))
        if len(sampled) < len(wanted):
            sequence.absorb_start(0.0, {})
        sequence.launch()
        sequence.absorb(sampled, [here.own for here in told], told)
    return sequence, passes


@settings(deadline=None)
@given(
    seed=st.integers(0, 10_000),
    draft=st.lists(st.integers(0, END - 1), max_size=20),
    kept=st.integers(0, 20),
    forced=st.lists(st.integers(0, END - 1), max_size=4),
)
def test_any_draft_gives_the_tokens_of_plain_decoding(
    seed: int, draft: list[int], kept: int, forced: list[int]
) -> None:
    for request in (REQUEST, DOUBTED):
        _check_draft(replace(request, prefix=tuple(forced)), seed, draft, kept)


def _check_draft(request: WhisperRequest, seed: int, draft: list[int], kept: int) -> None:
    plain, _ = run(request, seed)
    text = plain.result().tokens
    drafted, _ = run(replace(request, draft=(*text[:kept], *draft)), seed)
    assert drafted.result().tokens == text
    assert drafted.context == plain.context
    assert drafted.generated.num_accepted <= drafted.num_drafted
    assert len(plain.result().logprobs) == len(text)


def test_what_is_offered_again_is_counted_again() -> None:
    """Where a draft was wrong, and goes on as the text does."""
    for seed in range(100):
        text = run(REQUEST, seed)[0].result().tokens
        if len(text) > 8:
            wrong = (text[4] + 1) % END
            draft = (*text[:4], wrong, *text[3:])
            drafted, _ = run(replace(REQUEST, draft=draft), seed)
            assert drafted.result().tokens == text
            assert drafted.num_drafted > len(draft)
            return
    raise AssertionError("no text is so long")


def test_a_draft_with_an_expected_word_in_it_saves_passes() -> None:
    rest = (8, 7, 0, 4, 8, 0, 7, 4)
    texts = {(0, 4, 0, *rest, END): -1.0, (0, 1, 2, 3, *rest, END): -1.1}
    plain, passes = run(REQUEST, 0, texts)
    text = plain.result().tokens
    assert text == (0, 1, 2, 3, *rest)
    again, fewer = run(replace(REQUEST, draft=text), 0, texts)
    assert again.result().tokens == text
    assert fewer < passes - len(rest) + 2, "two tokens tell that the draft is right again"


@settings(deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_text_changes_only_where_a_whole_word_is(seed: int) -> None:
    own = run(replace(REQUEST, expected=None), seed)[0].result().tokens
    sequence, passes = run(REQUEST, seed)
    text = sequence.result().tokens
    if text != own:
        assert any(
            list(text[at : at + len(word)]) == word and own[at : at + len(word)] != tuple(word)
            for word in WORDS.values()
            for at in range(len(text))
        )
    tried = STRENGTH.most * (2 + STRENGTH.stray)
    assert passes <= 16 + tried, "it comes to an end"


def test_a_word_is_heard_that_the_model_alone_would_not_say() -> None:
    alone = replace(REQUEST, expected=None)
    said = {seed: run(REQUEST, seed)[0].result().tokens for seed in range(40)}
    changed = [seed for seed in said if said[seed] != run(alone, seed)[0].result().tokens]
    assert 0 < len(changed) < len(said)


def test_a_text_that_changes_where_the_model_was_in_doubt_has_tokens_that_it_may_choose() -> None:
    greedy = replace(REQUEST, expected=None)
    both = {seed: (run(greedy, seed)[0].result(), run(DOUBTED, seed)[0]) for seed in range(60)}
    changed = [seed for seed, (own, new) in both.items() if own.tokens != new.result().tokens]
    assert changed
    for seed in changed:
        result, context = both[seed][1].result(), both[seed][1].context
        start = len(context) - len(result.tokens)
        assert list(result.tokens) == context[start:]
        for at, nats in enumerate(result.logprobs, start):
            # Some are of the text before a change in front of them.
            assert math.log(1e-9) < nats <= 0, (seed, at)


@settings(deadline=None)
@given(seed=st.integers(0, 10_000))
def test_who_has_no_doubts_writes_the_greedy_text(seed: int) -> None:
    own = run(replace(REQUEST, expected=None), seed)[0].result()
    sure = replace(DOUBTS, most=0)
    told = run(replace(DOUBTED, doubts=sure), seed)[0].result()
    assert (told.tokens, told.num_passes) == (own.tokens, own.num_passes)
