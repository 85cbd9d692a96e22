"""The sequence state machine: verification of a draft changes the speed, never the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Phase, Priority, is_looping
from lookhear.engine.whisper.positions import Purpose
from lookhear.engine.whisper.request import WhisperRequest, WhisperSequence

END = 9


def next_token(context: tuple[int, ...], seed: int) -> int:
    """A model: any deterministic function of the context."""
    return hash((seed, context[-4:], len(context))) % (END + 1)


def request(**changes: object) -> WhisperRequest:
    values: dict[str, object] = {
        "key": "s/t",
        "priority": Priority.LIVE,
        "samples": np.zeros(16, np.float32),
        "window_samples": 16,
        "head": (100,),
        "language": 101,
        "detect_language": True,
        "tail": (102, 103),
        "max_new_tokens": 30,
    }
    return WhisperRequest(**{**values, **changes})  # type: ignore[arg-type]


HEARD = {100: -1.0, 101: -0.5}  # of the languages


def run(sequence: WhisperSequence, seed: int) -> int:
    """Decode to the end with a cache that only knows what was fed. Returns the passes needed."""
    cache: list[int] = []
    passes = 0
    while sequence.phase not in (Phase.ALIGN, Phase.DONE):
        passes += 1
        queries = sequence.queries()
        assert queries, "a step must feed something"
        cache[sequence.fed :] = queries
        wanted = sequence.logits_rows()
        rows = [row for row in wanted if row.purpose is not Purpose.START]
        base = sequence.fed
        sampled = [next_token(tuple(cache[: base + row.index + 1]), seed) for row in rows]
        for i, row in enumerate(rows):
            if sampled[i] == row.barred:
                sampled[i] = (row.barred + 1) % (END + 1)
        if len(rows) == len(wanted) or sequence.absorb_start(0.0, HEARD):
            for row in rows:
                assert row.history == tuple(
                    cache[len(sequence.request.head) + 3 + len(sequence.request.prefix) :][
                        : len(row.history)
                    ]
                )
            sequence.absorb(sampled, [0.0] * len(sampled))
    return passes


@settings(deadline=None)
@given(
    seed=st.integers(0, 10_000),
    prefix=st.lists(st.integers(0, END - 1), max_size=5),
    draft=st.lists(st.integers(0, END - 1), max_size=12),
    detect=st.booleans(),
)
def test_any_draft_gives_the_tokens_of_plain_decoding(
    seed: int, prefix: list[int], draft: list[int], detect: bool
) -> None:
    language = None if detect else 101
    plain = WhisperSequence(request(prefix=tuple(prefix), language=language), END, 448)
    run(plain, seed)
    drafted = WhisperSequence(
        request(prefix=tuple(prefix), draft=tuple(draft), language=language), END, 448
    )
    run(drafted, seed)
    assert drafted.result().tokens == plain.result().tokens
    assert drafted.result().stop == plain.result().stop


@settings(deadline=None)
@given(
    seed=st.integers(0, 10_000),
    draft=st.lists(st.integers(0, END - 1), max_size=12),
    guess=st.sampled_from([100, 101]),
    prior=st.sampled_from([{}, {100: 0.0}, {100: 0.0, 101: -5.0}, {100: -0.1, 101: -0.1}]),
)
def test_a_guess_of_the_language_saves_a_pass_or_changes_nothing(
    seed: int, draft: list[int], guess: int, prior: dict[int, float]
) -> None:
    asked = request(draft=tuple(draft), language=None, language_prior=prior)
    detected = WhisperSequence(asked, END, 448)
    passes = run(detected, seed)
    guessed = WhisperSequence(replace(asked, language_guess=guess), END, 448)
    saved = passes - run(guessed, seed)
    assert guessed.result() == detected.result()
    assert saved == (guess == detected.language)


@settings(deadline=None)
@given(
    seed=st.integers(0, 10_000),
    draft=st.lists(st.integers(0, END - 1), max_size=12),
    given_language=st.sampled_from([None, 100, 101]),
)
def test_a_text_in_front_says_nothing_of_the_language(
    seed: int, draft: list[int], given_language: int | None
) -> None:
    """It is asked behind the start token alone; then all is read as if it had been given."""
    alone = request(
        head=(7, 8, 100), draft=tuple(draft), language=given_language, detects_alone=True
    )
    asked = WhisperSequence(alone, END, 448)
    assert asked.queries() == [100]
    assert [(row.index, row.purpose) for row in asked.logits_rows()] == [(0, Purpose.START)]
    asked.launch()
    assert asked.demand().waiting and not asked.absorb_start(0.25, {100: -3.0, 101: -0.1})
    assert asked.language == (given_language or 101)
    assert asked.queries()[: len(asked.context)] == [7, 8, 100, asked.language, 102, 103]
    run(asked, seed)  # which finds it in English behind the text: too late
    told = WhisperSequence(replace(alone, language=asked.language, detects_alone=False), END, 448)
    run(told, seed)
    assert asked.result().tokens == told.result().tokens
    assert asked.result().languages == {100: -3.0, 101: -0.1}


def test_nothing_is_fed_until_a_guess_is_verified() -> None:
    sequence = WhisperSequence(request(language=None, language_guess=101), END, 448)
    sequence.launch()
    assert sequence.demand().waiting
    assert not sequence.absorb_start(0.0, {100: -0.1, 101: -3.0})
    assert sequence.language == 100 and not sequence.demand().waiting
    assert sequence.queries() == [100, 102, 103] and sequence.fed == 1


@settings(deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_right_draft_needs_one_pass(seed: int) -> None:
    plain = WhisperSequence(request(), END, 448)
    run(plain, seed)
    drafted = WhisperSequence(request(draft=plain.result().tokens), END, 448)
    passes = run(drafted, seed)
    assert passes == 1
    if plain.generated.stop == "end":
        assert drafted.generated.num_accepted == len(plain.result().tokens)


def test_end_as_the_first_token_gives_an_empty_result() -> None:
    sequence = WhisperSequence(request(draft=(1, 2)), END, 448)
    sequence.absorb([END, 5, 6], [0.0, 0.0, 0.0])
    assert sequence.result().tokens == ()
    assert sequence.result().stop == "end"


def test_a_draft_longer_than_the_context_is_cut() -> None:
    sequence = WhisperSequence(request(draft=tuple(range(8))), END, context_limit=8)
    assert len(sequence.queries()) <= 8


@pytest.mark.parametrize("limit", [8, 13])
def test_a_text_that_fills_the_context_leaves_room_for_its_end(limit: int) -> None:
    """It is read once more with the token that ends it, to be timed."""
    sequence = WhisperSequence(request(align=True), END, context_limit=limit)
    for token in range(limit):
        if sequence.phase is Phase.ALIGN:
            break
        sequence.launch()
        sequence.absorb([token], [0.0])
    assert len(sequence.aligned().tokens) == limit


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), max_size=60))
def test_loops_are_periodic_tails(tokens: list[int]) -> None:
    if is_looping(tokens):
        assert any(tokens[-n:] == tokens[-2 * n : -n] for n in range(1, 25))


def test_counting_and_stuttering_are_not_loops() -> None:
    assert not is_looping([1, 1, 1, 1])
    assert is_looping([1] * 8)
    assert is_looping([5, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3])


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(0, 60))
def test_a_loop_is_more_than_there_is_room_for(tokens: list[int], room: int) -> None:
    if is_looping(tokens, room):
        assert is_looping(tokens) and len(tokens) > room
    assert not is_looping([1, 2] * 10, 20) and is_looping([1, 2] * 11, 20)


@given(st.integers(0, 10_000), st.booleans())
def test_whether_a_text_is_aligned_is_asked_once_it_is_complete(seed: int, wanted: bool) -> None:
    asked: list[tuple[int, ...]] = []

    def wants(tokens: Sequence[int]) -> bool:
        asked.append(tuple(tokens))
        return wanted

    sequence = WhisperSequence(request(align_if=wants), END, 448)
    run(sequence, seed)
    assert (sequence.phase is Phase.ALIGN) == wanted
    if wanted:
        sequence.absorb_times(((0.0, 1.0),))
    result = sequence.result()
    assert asked == [result.tokens]
    assert result.token_times == (((0.0, 1.0),) if wanted else None)


@settings(deadline=None)
@given(
    seed=st.integers(0, 10_000),
    draft=st.lists(st.integers(0, END - 1), max_size=12),
    place=st.integers(0, 12),
)
def test_a_barred_token_comes_nowhere_but_in_its_place(
    seed: int, draft: list[int], place: int
) -> None:
    plain = WhisperSequence(request(), END, 448)
    run(plain, seed)
    text = plain.result().tokens
    token = text[place] if place < len(text) else 0
    texts = []
    for guess in ((), tuple(draft), text):
        barred = WhisperSequence(request(draft=guess, barred=(place, token)), END, 448)
        run(barred, seed)
        texts.append(barred.result().tokens)
    assert texts[0] == texts[1] == texts[2], "a draft changes the speed, never the tokens"
    assert texts[0][:place] == text[:place]
    if place < len(text):
        assert texts[0][place : place + 1] != (token,)
    else:
        assert texts[0] == text
