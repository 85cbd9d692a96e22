"""The block pool under any sequence of operations, and one test per trap of other engines."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from lookhear.engine.paged.blocks import BLOCK_TOKENS, TRASH, BlockPool
from lookhear.engine.paged.digests import block_digests

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


def test_of_two_blocks_with_the_same_contents_one_has_the_name() -> None:
    """Two requests read the same prompt side by side."""
    pool = BlockPool(4)
    blocks = pool.allocate(2)
    assert blocks is not None
    for block in blocks:
        pool.commit(block, b"same")
    pool.check()
    pool.release(blocks)
    pool.check()
    assert (pool.num_cached, pool.num_free) == (1, 2)
    assert pool.match([b"same"], 2 * BLOCK_TOKENS) == blocks[:1]
