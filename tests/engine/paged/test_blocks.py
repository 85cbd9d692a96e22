"""The block pool under any sequence of operations, and one test per trap of other engines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from lookhear.engine.paged.blocks import BLOCK_TOKENS, TRASH, BlockPool, MediaSpan, block_digests

prompts = st.lists(st.integers(0, 2), min_size=1, max_size=6 * BLOCK_TOKENS)


class Pool(RuleBasedStateMachine):
    """Requests that match, allocate, commit and release, sessions that pin, in any order."""

    tables = Bundle("tables")

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(12)
        self.contents: dict[int, bytes] = {}  # what was last written to a block
        self.held: dict[int, int] = {}

    @rule(target=tables, tokens=prompts, commit=st.booleans())
    def start(self, tokens: list[int], commit: bool) -> tuple[int, ...]:
        digests = block_digests(tokens)
        matched = self.pool.match(digests, len(tokens))
        assert len(matched) * BLOCK_TOKENS < len(tokens)
        for block, digest in zip(matched, digests, strict=False):
            assert self.contents[block] == digest, "found a block with other contents"
        needed = -(-len(tokens) // BLOCK_TOKENS) - len(matched)
        before = self.pool.available()
        fresh = self.pool.allocate(needed)
        if fresh is None:
            assert needed > before
            self.pool.release(matched)
            return ()
        assert TRASH not in fresh and len(set(fresh)) == needed
        assert not set(fresh) & set(self.held), "a block in two tables"
        table = (*matched, *fresh)
        for block, digest in zip(table, digests, strict=False):
            if block in fresh:
                self.contents[block] = digest
                if commit:
                    self.pool.commit(block, digest)
        for block in table:
            self.held[block] = self.held.get(block, 0) + 1
        return table

    @rule(table=consumes(tables), session=st.sampled_from(["a", "b", ""]))
    def finish(self, table: tuple[int, ...], session: str) -> None:
        if session:
            self.pool.pin(session, table)
        self.pool.release(table)
        for block in table:
            self.held[block] -= 1
            if not self.held[block]:
                del self.held[block]

    @rule(session=st.sampled_from(["a", "b", "c"]))
    def unpin(self, session: str) -> None:
        self.pool.unpin(session)

    @invariant()
    def holds(self) -> None:
        self.pool.check()
        assert self.pool.available() == self.pool.num_blocks - 1 - len(self.held)


TestPool = Pool.TestCase


@given(prompts, prompts)
def test_equal_digests_mean_equal_prefixes(a: list[int], b: list[int]) -> None:
    for i, (x, y) in enumerate(zip(block_digests(a), block_digests(b), strict=False)):
        end = (i + 1) * BLOCK_TOKENS
        assert (x == y) == (a[:end] == b[:end])


def test_two_clips_in_the_same_text_do_not_collide() -> None:
    tokens = [7] * 48
    one, other = (block_digests(tokens, [MediaSpan(d, 4, 30)]) for d in (b"one", b"other"))
    assert one[0] != other[0] and one[2] != other[2]


def test_the_offset_inside_the_media_counts() -> None:
    tokens = [7] * 16
    a = block_digests(tokens, [MediaSpan(b"m", 0, 16)])
    b = block_digests(tokens, [MediaSpan(b"m", -16, 48)])
    assert a != b


def test_media_later_than_a_block_does_not_change_its_name() -> None:
    tokens = [7] * 48
    assert block_digests(tokens)[0] == block_digests(tokens, [MediaSpan(b"m", 16, 8)])[0]


def test_tenants_and_adapters_are_apart() -> None:
    tokens = [1] * 16
    names = {
        block_digests(tokens, salt=salt, adapter=adapter)[0]
        for salt, adapter in ((b"", ""), (b"x", ""), (b"", "x"), (b"y", ""))
    }
    assert len(names) == 4


def test_an_exact_hit_leaves_a_token_to_compute() -> None:
    pool = BlockPool(8)
    tokens = [1] * (2 * BLOCK_TOKENS)
    digests = block_digests(tokens)
    table = pool.allocate(2)
    assert table is not None
    for block, digest in zip(table, digests, strict=True):
        pool.commit(block, digest)
    assert pool.match(digests, len(tokens)) == table[:1]


def test_a_reclaimed_block_is_not_found_under_its_old_name() -> None:
    pool = BlockPool(3)
    digests = block_digests([1] * 32)
    table = pool.allocate(2)
    assert table is not None
    for block, digest in zip(table, digests, strict=True):
        pool.commit(block, digest)
    pool.release(table)
    assert pool.num_cached == 2
    assert pool.allocate(2) is not None
    assert pool.match(digests, 33) == [] and (pool.num_evicted, pool.num_pins_dropped) == (2, 0)
    pool.check()


def test_the_idlest_session_loses_its_pin_first() -> None:
    pool = BlockPool(5)
    for session in ("old", "new"):
        table = pool.allocate(2)
        assert table is not None
        for i, block in enumerate(table):
            pool.commit(block, session.encode() + bytes([i]))
        pool.pin(session, table)
        pool.release(table)
    assert pool.allocate(2) is not None
    assert not pool.match([b"old\0", b"old\1"], 99)
    assert len(pool.match([b"new\0", b"new\1"], 99)) == 2
    assert (pool.num_evicted, pool.num_pins_dropped) == (2, 1)
