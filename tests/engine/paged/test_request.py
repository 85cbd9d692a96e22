"""The paged sequence: chunks and drafts change the speed, never the tokens or the names."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Phase, Priority
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.digests import MediaSpan, block_digests
from lookhear.engine.paged.request import Medium, PagedRequest, PagedSequence

END = 9
PAD = 8  # the placeholder, which is never said


def next_token(context: tuple[int, ...], seed: int) -> int:
    """A model: any deterministic function of the context."""
    token = hash((seed, context[-4:], len(context))) % (END + 1)
    return 0 if token == PAD else token


def medium(seed: int, num_tokens: int) -> Medium:
    return Medium.of(np.full((2, 3), seed, np.float32), num_tokens)


def make(
    tokens: tuple[int, ...], media: tuple[tuple[int, Medium], ...] = (), **changes: object
) -> PagedSequence:
    values: dict[str, object] = {"max_new_tokens": 20, **changes}
    request = PagedRequest("s/t", Priority.LIVE, tokens, media, **values)  # type: ignore[arg-type]
    count = -(-request.reserved_tokens // BLOCK_TOKENS)
    spans = [MediaSpan(m.digest, start, m.num_tokens) for start, m in media]
    return PagedSequence(
        request,
        frozenset([END]),
        0,
        list(range(1, count + 1)),
        fed=0,
        digests=block_digests(tokens, spans),
    )


def run(sequence: PagedSequence, seed: int, chunks: list[int]) -> dict[int, bytes]:
    """Decode to the end; the cache knows nothing but what was fed. Returns the blocks' names."""
    cache: list[int] = []
    named: dict[int, bytes] = {}
    chunks = [*chunks]
    while sequence.phase is not Phase.DONE:
        demand = sequence.demand()
        wanted = demand.known + demand.draft
        assert wanted >= 1, "a step must feed something"
        count = min(wanted, chunks.pop() if chunks else wanted)
        fed, queries = sequence.fed, sequence.queries(count)
        assert len(queries) == count
        assert fed + count <= len(sequence.blocks) * BLOCK_TOKENS, "beyond what was reserved"
        cache[fed:] = queries
        logits = sequence.num_logits(count)
        sequence.launch(count)
        if logits:
            last = range(fed + count - logits, fed + count)
            sampled = [next_token(tuple(cache[: i + 1]), seed) for i in last]
            sequence.absorb(sampled, [-1.0] * logits)
        for block, digest in sequence.name_blocks(sequence.fed):
            assert block not in named, "named twice"
            at = sequence.blocks.index(block)
            executed = cache[: sequence.fed]
            # Only what was fed and kept: a rejected draft token is no content.
            assert (at + 1) * BLOCK_TOKENS <= len(executed)
            assert executed == sequence.context[: sequence.fed]
            named[block] = digest
    return named


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    prompt=st.lists(st.integers(0, PAD - 1), min_size=1, max_size=40),
    draft=st.lists(st.integers(0, END), max_size=30),
    chunks=st.lists(st.integers(1, 25), max_size=8),
)
def test_any_draft_in_any_chunks_gives_the_tokens_of_plain_decoding(
    seed: int, prompt: list[int], draft: list[int], chunks: list[int]
) -> None:
    plain = make(tuple(prompt))
    run(plain, seed, [])
    right = plain.result().tokens[: len(draft) // 2]
    for guess in (tuple(draft), (*right, *draft)):
        sequence = make(tuple(prompt), draft=guess)
        run(sequence, seed, chunks)
        assert sequence.result().tokens == plain.result().tokens
        assert sequence.result().stop == plain.result().stop
        assert 0 <= sequence.result().num_accepted <= len(guess)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    audio=st.integers(1, 40),
    chunks=st.lists(st.integers(1, 25), max_size=8),
)
def test_names_are_those_of_the_context_however_it_was_read(
    seed: int, audio: int, chunks: list[int]
) -> None:
    media = ((3, medium(1, audio)),)
    tokens = (1, 2, 3, *[PAD] * audio, 4, 5)
    sequence = make(tokens, media)
    named = run(sequence, seed, chunks)
    spans = [MediaSpan(media[0][1].digest, 3, audio)]
    expected = block_digests(sequence.context[: sequence.fed], spans)
    assert [named[block] for block in sequence.blocks[: len(named)]] == expected


def test_a_right_draft_needs_one_pass() -> None:
    for seed in range(20):
        plain = make((1, 2, 3))
        run(plain, seed, [])
        said = plain.result()
        drafted = make((1, 2, 3), draft=said.tokens)
        run(drafted, seed, [])
        # The last place is for the token behind the draft, so a full-length answer needs no more.
        assert drafted.result().num_passes == 1
        assert drafted.result().num_accepted == min(len(said.tokens), 19)


def test_end_as_the_first_token_gives_an_empty_result() -> None:
    sequence = make((1, 2), draft=(3, 4))
    sequence.absorb([END, 5, 6], [0.0] * 3)
    result = sequence.result()
    assert (result.tokens, result.stop, result.num_accepted) == ((), "end", 0)


def test_end_inside_the_accepted_run_ends_there() -> None:
    sequence = make((1, 2), draft=(3, 4, 5))
    sequence.absorb([3, END, 5, 6], [0.0] * 4)
    result = sequence.result()
    assert (result.tokens, result.stop, result.num_accepted) == ((3,), "end", 1)


def test_a_draft_longer_than_the_answer_may_be_is_cut_to_what_was_reserved() -> None:
    sequence = make((1, 2), draft=tuple([1] * 50), max_new_tokens=5)
    demand = sequence.demand()
    assert (demand.known, demand.draft) == (2, 4)
    assert sequence.num_drafted == 50
    sequence.absorb([1] * 5, [0.0] * 5)
    assert sequence.result().tokens == (1,) * 5 and sequence.result().stop == "length"


def test_a_chunk_may_end_between_prompt_and_draft_and_inside_the_draft() -> None:
    for cut, known, logits in ((2, 2, 1), (3, 2, 2), (1, 2, 0)):
        sequence = make((1, 2), draft=(3, 4, 5))
        assert sequence.demand().known == known
        assert sequence.num_logits(cut) == logits
        assert len(sequence.queries(cut)) == cut


def test_the_repetition_guard_can_be_switched_off() -> None:
    looping = [7] * 12
    for room, expected in ((0, "repetition"), (11, "repetition"), (13, None), (None, None)):
        sequence = make((1,), draft=tuple(looping), loop_room=room)
        sequence.absorb([*looping, 7], [0.0] * 13)
        assert sequence.generated.stop == expected


def test_equal_media_have_equal_names_and_a_shape_is_part_of_it() -> None:
    flat = np.zeros((2, 6), np.float32)
    assert Medium.of(flat, 2).digest == Medium.of(flat.copy(), 2).digest
    assert Medium.of(flat, 2).digest != Medium.of(flat.reshape(3, 4), 2).digest
    # Also a view that is not contiguous, as a slice of a longer mel is.
    wide = np.random.default_rng(0).normal(size=(4, 9)).astype(np.float32)
    assert Medium.of(wide[:, 2:5], 1).digest == Medium.of(wide[:, 2:5].copy(), 1).digest
