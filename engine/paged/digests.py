"""Names of the full blocks of a prompt: digests that chain over everything before them. Pure.

    digest(i) = blake2b-128(digest(i-1), tokens of block i, media that overlap block i)
    digest(-1) = blake2b-128(salt, adapter)

A live session's next prompt begins as its last one did, so its names go on where they ended.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import NamedTuple

from lookhear.engine.paged.blocks import BLOCK_TOKENS

DIGEST_BYTES = 16


class MediaSpan(NamedTuple):
    """Placeholder tokens [start, start + length) that stand for one audio or image.

    digest: of the whole media content. Placeholder ids are all equal, so without it two clips
    with the same text around them would share blocks.
    """

    digest: bytes
    start: int
    length: int


def block_digests(
    tokens: Sequence[int],
    media: Sequence[MediaSpan] = (),
    *,
    salt: bytes = b"",
    adapter: str = "",
    known: Sequence[bytes] = (),
) -> list[bytes]:
    """Digests of the full blocks of tokens, in order. A partly filled last block has none.

    salt: separates tenants. adapter: version of the weights' adapter, if any. known: the digests of
    the first blocks, which need not be computed again.
    """
    digests = list(known)
    first, count = len(digests), len(tokens) // BLOCK_TOKENS
    if first >= count:
        return digests
    parent = digests[-1] if digests else _root(salt, adapter)
    numbers = struct.pack(
        f"<{BLOCK_TOKENS * (count - first)}q", *tokens[BLOCK_TOKENS * first : BLOCK_TOKENS * count]
    )
    marks: dict[int, bytes] = {}  # block -> what names the media that overlap it
    for span in media:
        start = max(span.start // BLOCK_TOKENS, first)
        for block in range(start, -(-(span.start + span.length) // BLOCK_TOKENS)):
            # Relative to the block: where in the media the block begins.
            offset = block * BLOCK_TOKENS - span.start
            mark = struct.pack("<qI", offset, len(span.digest)) + span.digest
            marks[block] = marks.get(block, b"") + mark
    for block in range(first, count):
        place = 8 * BLOCK_TOKENS * (block - first)
        name = numbers[place : place + 8 * BLOCK_TOKENS] + marks.get(block, b"")
        # In one piece: the same digest as of its parts, one after another.
        parent = hashlib.blake2b(parent + name, digest_size=DIGEST_BYTES).digest()
        digests.append(parent)
    return digests


def _root(salt: bytes, adapter: str) -> bytes:
    root = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in (salt, adapter.encode()):
        root.update(struct.pack("<I", len(part)) + part)
    return root.digest()


class OwnersDigests:
    """Digests of each owner's last prompt, from which those of its next one go on."""

    def __init__(self) -> None:
        self._last: dict[str, _Named] = {}

    def of(
        self,
        owner: str,
        tokens: Sequence[int],
        media: Sequence[MediaSpan],
        *,
        salt: bytes,
        adapter: str = "",
    ) -> list[bytes]:
        """`block_digests` of the owner's prompt, remembered until its next one. None of the
        arguments, nor what is returned, may be changed afterwards."""
        last = self._last.get(owner)
        is_same = last is not None and (last.salt, last.adapter) == (salt, adapter)
        known = last.alike(tokens, media) if last is not None and is_same else []
        digests = block_digests(tokens, media, salt=salt, adapter=adapter, known=known)
        self._last[owner] = _Named(tokens, media, salt, adapter, digests)
        return digests

    def forget(self, owner: str) -> None:
        """It is gone. Idempotent."""
        self._last.pop(owner, None)


class _Named(NamedTuple):
    """A prompt and the digests of its full blocks."""

    tokens: Sequence[int]
    media: Sequence[MediaSpan]
    salt: bytes
    adapter: str
    digests: list[bytes]

    def alike(self, tokens: Sequence[int], media: Sequence[MediaSpan]) -> list[bytes]:
        """Digests of the leading blocks that another prompt has too."""
        count = min(len(self.digests), len(tokens) // BLOCK_TOKENS)
        same = 0
        for mine, other in zip(self.media, media, strict=False):
            if mine != other:
                break
            same += 1
        for rest in (self.media[same:], media[same:]):
            if rest:
                count = min(count, rest[0].start // BLOCK_TOKENS)
        end = count * BLOCK_TOKENS
        if tokens[:end] != self.tokens[:end]:
            place = next(i for i in range(end) if tokens[i] != self.tokens[i])
            count = place // BLOCK_TOKENS
        return self.digests[:count]
