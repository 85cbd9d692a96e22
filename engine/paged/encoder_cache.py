"""Encoder outputs by the digest of what was encoded; the least recently used go first."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor


class EncoderCache:
    """max_bytes: of the outputs together. A running request holds its own references, so what is
    dropped here is never missing there."""

    def __init__(self, max_bytes: int) -> None:
        assert max_bytes >= 0
        self._max_bytes = max_bytes
        self._held: OrderedDict[bytes, Tensor] = OrderedDict()
        self.num_bytes = 0
        self.num_hits = self.num_misses = self.num_evicted = 0

    def __len__(self) -> int:
        return len(self._held)

    def find(self, digest: bytes) -> Tensor | None:
        """[tokens, width], or None if it has to be encoded."""
        output = self._held.get(digest)
        if output is None:
            self.num_misses += 1
            return None
        self.num_hits += 1
        self._held.move_to_end(digest)
        return output

    def add(self, digest: bytes, output: Tensor) -> None:
        """Keep an output of its own memory (not a view of something larger)."""
        if digest in self._held or output.nbytes > self._max_bytes:
            return
        self._held[digest] = output
        self.num_bytes += output.nbytes
        while self.num_bytes > self._max_bytes:
            _, oldest = self._held.popitem(last=False)
            self.num_bytes -= oldest.nbytes
            self.num_evicted += 1

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
        assert self.num_bytes == sum(output.nbytes for output in self._held.values())
        assert self.num_bytes <= self._max_bytes
