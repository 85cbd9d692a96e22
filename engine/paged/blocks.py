"""Blocks of the paged key/value cache, found again by what is in them. Pure: no tensors.

A block holds the keys and values of 16 consecutive tokens. Full blocks are named by a digest that
chains over everything before them (`engine.paged.digests`), so equal digests mean equal contents
and equal positions.

A block is in exactly one of four states:

    free      on the free list, contents meaningless
    owned     in the table of one or more running requests (refs > 0)
    pinned    refs held by sessions between their ticks; soft: given up under pressure
    cached    refs == 0, but named: on the LRU list, found by `match`, reclaimed when needed

Block 0 is the trash block: padding reads and writes it, nobody owns it.
Sources: vLLM's automatic prefix caching; the traps in it are tests here.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from itertools import compress

BLOCK_TOKENS = 16
TRASH = 0


def whole_blocks(num_tokens: int) -> int:
    """Places that so many tokens take up: those of whole blocks."""
    return -(-num_tokens // BLOCK_TOKENS) * BLOCK_TOKENS


class BlockPool:
    """num_blocks: the trash block included."""

    def __init__(self, num_blocks: int) -> None:
        assert num_blocks >= 2
        self.num_blocks = num_blocks
        # A stack: what was just used is still in the processor's cache.
        self._free = list(range(num_blocks - 1, 0, -1))
        self._refs = [0] * num_blocks
        self._digest_of: dict[int, bytes] = {}
        self._block_of: dict[bytes, int] = {}
        self._unused: OrderedDict[int, None] = OrderedDict()  # named, refs == 0; oldest first
        self._pins: OrderedDict[str, list[int]] = OrderedDict()  # session -> blocks; idlest first
        self._num_pins = [0] * num_blocks  # of the refs, those of pins
        self._num_soft = 0  # blocks that nothing but pins holds
        self.num_evicted = self.num_pins_dropped = 0  # for want of room

    # --- lookup ----------------------------------------------------------------------------------

    def match(self, digests: Sequence[bytes], num_tokens: int) -> list[int]:
        """Blocks that already hold the longest known prefix; the caller holds a ref on each.

        digests: of the full blocks of a prompt of num_tokens. At least one token is always left to
        compute, because the logits of the last one are wanted.
        """
        blocks: list[int] = []
        for digest in digests[: max(0, num_tokens - 1) // BLOCK_TOKENS]:
            block = self._block_of.get(digest)
            if block is None:
                break
            blocks.append(block)
        for block in blocks:
            self._hold(block)
        return blocks

    def commit(self, block: int, digest: bytes) -> None:
        """The block is full and its keys and values are written: from now on it can be found.

        Never earlier: a block named when it was scheduled could be read before it was written. If
        another block has the name already, this one stays unnamed (tables never change).
        """
        assert self._refs[block] > 0, f"block {block} is not held"
        if digest not in self._block_of and block not in self._digest_of:
            self._block_of[digest] = block
            self._digest_of[block] = digest

    # --- holding ---------------------------------------------------------------------------------

    def available(self) -> int:
        """Blocks that `allocate` could hand out now, cached and softly pinned ones included."""
        return len(self._free) + len(self._unused) + self._num_soft

    def allocate(self, count: int) -> list[int] | None:
        """count blocks to write to, a ref held on each; None if there are not so many.

        Takes free ones first, then cached ones by age, then drops the pins of the idlest session.
        """
        if count > self.available():
            return None
        while len(self._free) + len(self._unused) < count:
            idlest = next(iter(self._pins))
            self.unpin(idlest)
            self.num_pins_dropped += 1
        first = max(0, len(self._free) - count)
        blocks = self._free[first:]
        blocks.reverse()
        del self._free[first:]
        for _ in range(count - len(blocks)):
            block, _nothing = self._unused.popitem(last=False)
            # The name goes when the block is given away: not when it was released (nothing could be
            # found again), not never (the table would grow for ever).
            del self._block_of[self._digest_of.pop(block)]
            self.num_evicted += 1
            blocks.append(block)
        refs = self._refs
        for block in blocks:
            refs[block] = 1
        return blocks

    def release(self, blocks: Sequence[int]) -> None:
        """Give up one ref on each. Named blocks stay findable until they are reclaimed.

        The tail of a prompt is the least likely to come again, so it becomes the oldest.
        """
        refs, pins, names, free = self._refs, self._num_pins, self._digest_of, self._free
        for block in reversed(blocks):
            left = refs[block] - 1
            assert left >= pins[block], f"block {block} is not held"
            refs[block] = left
            if left == 0:  # `_lay_down`, a dozen times a tick
                if block in names:
                    self._unused[block] = None
                else:
                    free.append(block)
            elif left == pins[block]:
                self._num_soft += 1

    def _hold(self, block: int) -> None:
        refs = self._refs[block]
        if refs == 0:
            del self._unused[block]
        elif refs == self._num_pins[block]:
            self._num_soft -= 1
        self._refs[block] = refs + 1

    def _lay_down(self, block: int) -> None:
        """Nobody holds it any more."""
        if block in self._digest_of:
            self._unused[block] = None
        else:
            self._free.append(block)

    # --- pins ------------------------------------------------------------------------------------

    def pin(self, session: str, blocks: Sequence[int]) -> None:
        """Keep the blocks of a session's last tick for its next one; replaces its earlier pin.

        The blocks must be held or findable now. The session becomes the least idle one.
        """
        assert all(self._refs[b] > 0 or b in self._unused for b in blocks)
        before = self._pins.pop(session, [])
        same = 0  # mostly all that was pinned, with some more behind
        for old, new in zip(before, blocks, strict=False):
            if old != new:
                break
            same += 1
        for block in blocks[same:]:
            if self._refs[block] == 0:
                del self._unused[block]
                self._num_soft += 1
            self._refs[block] += 1
            self._num_pins[block] += 1
        self._pins[session] = list(blocks)
        self._let_go(before[same:])

    def unpin(self, session: str) -> None:
        """Idempotent. A lost pin costs one more prefill, never correctness."""
        self._let_go(self._pins.pop(session, []))

    def _let_go(self, blocks: Sequence[int]) -> None:
        """`release` of a pin's refs."""
        for block in reversed(blocks):
            self._refs[block] -= 1
            self._num_pins[block] -= 1
            if self._refs[block] == 0:
                self._num_soft -= 1
                self._lay_down(block)

    # --- checks ----------------------------------------------------------------------------------

    @property
    def num_free(self) -> int:
        """Blocks on the free list."""
        return len(self._free)

    @property
    def num_cached(self) -> int:
        """Blocks that nobody holds and that can be found."""
        return len(self._unused)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken. For tests and idle moments."""
        assert min(self._refs) >= 0
        free, unused = set(self._free), self._unused.keys()
        held = set(compress(range(self.num_blocks), self._refs))
        assert len(free) == len(self._free), "a block is on the free list twice"
        assert free.isdisjoint(unused) and free.isdisjoint(held) and held.isdisjoint(unused)
        for blocks in (free, unused, held):
            assert TRASH < min(blocks, default=1) and max(blocks, default=1) < self.num_blocks
        assert len(free) + len(unused) + len(held) == self.num_blocks - 1, "a block leaked"
        assert unused <= self._digest_of.keys(), "an unnamed block is kept"
        assert free.isdisjoint(self._digest_of), "a free block can be found"
        assert {b: d for d, b in self._block_of.items()} == self._digest_of
        pins = Counter(block for blocks in self._pins.values() for block in blocks)
        pinned = compress(range(self.num_blocks), self._num_pins)
        assert {b: self._num_pins[b] for b in pinned} == pins
        assert all(self._refs[b] >= count for b, count in pins.items())
        assert self._num_soft == sum(self._refs[b] == count for b, count in pins.items())
