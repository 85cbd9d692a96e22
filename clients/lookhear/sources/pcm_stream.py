"""Sound through a pipe: WAV, as ffmpeg writes it, or bare 16-bit PCM -> mono 16-bit at 24 kHz."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator

from lookhear.errors import SourceError
from lookhear.sources.files import media_type
from lookhear.sources.pcm import RATE, SAMPLE_BYTES, WIDTHS
from lookhear.sources.raw import RawConverter, RawFormat

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE  # format tags of WAV
# What a writer says that cannot seek back: 0, or from here on. SoX says 0x7FFFF000 in whole frames,
# others 0xFFFFFFFF.
_UNKNOWN_SIZE = 0x7FFF0000
_MAX_HEADER = 1 << 20


class _Reader:
    """Counted bytes from blocks of any size."""

    def __init__(self, blocks: AsyncIterator[bytes]) -> None:
        self._blocks = blocks
        self._held = b""

    async def peek(self, count: int) -> bytes:
        """Fewer at the end."""
        while len(self._held) < count and (block := await anext(self._blocks, b"")):
            self._held += block
        return self._held[:count]

    async def take(self, count: int) -> bytes:
        data = await self.peek(count)
        if len(data) < count:
            raise SourceError("stdin: the WAV header is cut off")
        self._held = self._held[count:]
        return data

    async def rest(self) -> AsyncIterator[bytes]:
        if self._held:
            yield self._held
        async for block in self._blocks:
            yield block


async def read_stream(blocks: AsyncIterator[bytes], rate: int | None) -> AsyncIterator[bytes]:
    """What comes through a pipe, as mono 16-bit PCM at 24 kHz.

    blocks: of a WAV (8 to 32 bits or float, any channels, known length or not), or of bare mono
    16-bit little-endian PCM at `rate` (24 kHz if None), cut anywhere. SourceError.
    """
    reader = _Reader(blocks)
    start = await reader.peek(12)
    if start[:4] in (b"RIFF", b"RF64") and start[8:12] == b"WAVE":
        form, size = await _header(reader)
    else:
        kind = media_type(start)
        if kind != "application/octet-stream":
            raise SourceError(
                f"stdin: expected WAV or bare 16-bit PCM, got {kind}. A file goes to `lookhear "
                "transcribe FILE`, a stream through `ffmpeg -i - -f wav -`"
            )
        form, size = RawFormat(RATE if rate is None else rate, SAMPLE_BYTES, 1), None
    converter = RawConverter(form)
    async for block in reader.rest():
        if size is not None:
            block, size = block[:size], size - len(block[:size])
        if piece := converter.feed(block):
            yield piece
        if size == 0:
            break
    yield converter.feed(b"", last=True)


async def _header(reader: _Reader) -> tuple[RawFormat, int | None]:
    """Up to the first sample: the format, and the bytes that follow, None for all of them."""
    await reader.take(12)
    form: RawFormat | None = None
    while True:
        name, size = struct.unpack("<4sI", await reader.take(8))
        if name == b"data":
            if form is None:
                raise SourceError("stdin: the WAV header has no format")
            return form, None if size == 0 or size >= _UNKNOWN_SIZE else size
        if size > _MAX_HEADER:
            raise SourceError(f"stdin: the WAV header has a chunk of {size} bytes")
        chunk = await reader.take(size + size % 2)
        if name == b"fmt ":
            form = _format(chunk)


def _format(chunk: bytes) -> RawFormat:
    if len(chunk) < 16:
        raise SourceError("stdin: the WAV header is cut off")
    tag, channels, rate, _, _, bits = struct.unpack("<HHIIHH", chunk[:16])
    if tag == _EXTENSIBLE and len(chunk) >= 26:
        (tag,) = struct.unpack("<H", chunk[24:26])
    width, is_float = bits // 8, tag == _FLOAT
    is_known = (tag, bits) == (_FLOAT, 32) or (tag == _PCM and bits % 8 == 0 and width in WIDTHS)
    if not is_known or not 1 <= channels <= 64:
        raise SourceError(
            f"stdin: expected a WAV of PCM or 32-bit float samples, got format {tag} with {bits} "
            f"bits and {channels} channels; ffmpeg's `-acodec pcm_s16le` makes one"
        )
    return RawFormat(rate, width, channels, is_float)
