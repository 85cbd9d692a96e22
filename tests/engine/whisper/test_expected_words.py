"""Expected words in a running request: no draft changes the text, nothing is left unfinished."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Phase, Priority
from lookhear.engine.sampling.expected import ExpectedWords, Strength
from lookhear.engine.whisper.request import Purpose, WhisperRequest, WhisperSequence

END = 9
WORDS = {"Abc": [1, 2, 3], "Ad": [1, 4], "E": [5], "Fgh": [6, 7, 8]}
STRENGTH = Strength(begin=3.0, go_on=4.0, sure=1.0, most_lost=1.5)
# Every token begins with a space, so a word is over whatever follows it.
EXPECTED = ExpectedWords(
    [*WORDS], lambda text: WORDS[text.strip()], lambda token: b" %d" % token, STRENGTH
)
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


def scores(context: tuple[int, ...], seed: int) -> list[float]:
    """A model: any deterministic function of the context. Of each token, the end included."""
    return [hash((seed, token, context[-3:], len(context))) % 50 / 10 for token in range(END + 1)]


def run(request: WhisperRequest, seed: int) -> tuple[WhisperSequence, int]:
    """Decode to the end with a cache that only knows what was fed; and the passes it took."""
    sequence = WhisperSequence(request, END, 448)
    cache: list[int] = []
    passes = 0
    while sequence.phase is not Phase.DONE:
        passes += 1
        queries = sequence.queries()
        assert queries, "a step must feed something"
        assert sequence.fed <= len(cache)
        cache[sequence.fed :] = queries
        wanted, base = sequence.logits_rows(), sequence.fed
        sampled, lost = [], []
        for row in wanted:
            if row.purpose is Purpose.START:
                continue
            own = scores(tuple(cache[: base + row.index + 1]), seed)
            lifted = list(own)
            for lift in sequence.lifts(row):
                lifted[lift.token] += lift.nats
            sampled.append(max(range(END + 1), key=lambda token: lifted[token]))
            lost.append(max(own) - own[sampled[-1]])
        if len(sampled) < len(wanted):
            sequence.absorb_start(0.0, {})
        sequence.launch()
        sequence.absorb(sampled, [0.0] * len(sampled), lost)
    return sequence, passes


def finished(tokens: tuple[int, ...], refused: set[tuple[int, int]]) -> bool:
    """Whether every word that was begun is whole, but for those that the model said by itself."""
    at = 0
    while at < len(tokens):
        begun = [word for word in WORDS.values() if word[0] == tokens[at]]
        if begun and (at, tokens[at]) not in refused:
            whole = [word for word in begun if list(tokens[at : at + len(word)]) == word]
            if not whole:
                return False
            at += len(whole[0])
        else:
            at += 1
    return True


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
    request = replace(REQUEST, prefix=tuple(forced))
    plain, _ = run(request, seed)
    text = plain.result().tokens
    drafted, _ = run(replace(request, draft=(*text[:kept], *draft)), seed)
    assert drafted.result().tokens == text
    assert drafted.context == plain.context


@settings(deadline=None)
@given(seed=st.integers(0, 10_000))
def test_no_part_of_a_word_is_left_over(seed: int) -> None:
    sequence, passes = run(REQUEST, seed)
    assert finished(sequence.result().tokens, sequence.refused)
    assert passes <= 16 * 4 + 24 * 4, "it comes to an end"


def test_a_word_is_heard_that_the_model_alone_would_not_say() -> None:
    alone = replace(REQUEST, expected=None)
    said = {seed: run(REQUEST, seed)[0].result().tokens for seed in range(40)}
    assert any(said[seed] != run(alone, seed)[0].result().tokens for seed in said)
