"""What a WebSocket client sends, cut into frames and put together to messages. Pure. RFC 6455."""

from __future__ import annotations

from dataclasses import dataclass

from websockets.frames import CloseCode

try:
    from websockets.speedups import apply_mask
except ImportError:  # built without it
    from websockets.utils import apply_mask

FIN, OPCODE, MASKED, LENGTH = 0x80, 0x0F, 0x80, 0x7F
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
CONTROL_LENGTH = 125  # at most
# First bytes of frames that are cut out here: known kinds but for CLOSE, no reserved bits.
KNOWN = frozenset(
    [opcode | fin for opcode in (CONTINUATION, TEXT, BINARY) for fin in (0, FIN)]
    + [PING | FIN, PONG | FIN]
)
# Pings, and pongs that nobody asked for: so many at once are each answered, so many are too many,
# and so many a second are forgotten.
ANSWERED, TOO_MANY, FORGOTTEN = 64, 1000, 20.0

LARGE = 64 * 1024  # bytes: a frame of more is taken in the pieces in which it comes

WireFrame = str | bytes
"""A whole message of a client."""


class Broken(Exception):
    """The client breaks the protocol, or a limit. Holds the close code."""

    def __init__(self, code: CloseCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(slots=True)
class Slice:
    """frames: their first bytes and what they hold, unmasked. at: where the rest begins. wanted:
    bytes of the frame that begins there, 0 if that is not known yet. more: there may be whole
    frames in the rest. is_other: what begins there ends the connection, or is broken."""

    frames: list[tuple[int, bytes]]
    at: int
    wanted: int = 0
    more: bool = False
    is_other: bool = False


class Cutter:
    """Cuts what one client sends. most_bytes: of a frame.

    A large frame is given as a message in fragments, one for each read, as its sender might have
    sent it: so that no turn of the event loop has to work on all of it.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._left = 0  # bytes of a large frame that are still to come
        self._first = 0  # its FIN
        self._mask = b""  # for its next byte

    def cut(self, data: bytes, most: int) -> Slice:
        """The next frames, so many at most. data: what was not cut yet. Section 5.2."""
        frames: list[tuple[int, bytes]] = []
        at, end = 0, len(data)
        if self._left:
            at = min(self._left, end)
            frames.append(self._piece(CONTINUATION, data[:at]))
        for _ in range(most):
            if end - at < 2:
                return Slice(frames, at)
            first, second = data[at], data[at + 1]
            length, head = second & LENGTH, 6
            if length == 126:
                head = 8
            elif length == 127:
                head = 14
            if head > 6:
                if end - at < head:
                    return Slice(frames, at)
                length = int.from_bytes(data[at + 2 : at + head - 4], "big")
            allowed = CONTROL_LENGTH if first >= CLOSE | FIN else self._most_bytes
            if first not in KNOWN or second < MASKED or length > allowed:
                return Slice(frames, at, is_other=True)
            body, stop = at + head, at + head + length
            if stop > end and (length <= LARGE or body > end):
                return Slice(frames, at, wanted=stop - at)
            mask = data[body - 4 : body]
            if stop > end:
                self._left, self._first, self._mask = length, first & FIN, mask
                frames.append(self._piece(first & OPCODE, data[body:]))
                return Slice(frames, end)
            frames.append((first, apply_mask(data[body:stop], mask)))
            at = stop
        return Slice(frames, at, more=at < end)

    def _piece(self, opcode: int, data: bytes) -> tuple[int, bytes]:
        """The next one of a large frame."""
        piece = apply_mask(data, self._mask)
        turn = len(data) % len(self._mask)
        self._mask = self._mask[turn:] + self._mask[:turn]
        self._left -= len(data)
        return (opcode if self._left else opcode | self._first), piece


class Assembly:
    """Puts messages together. most_bytes: of one."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._pieces: bytearray | None = None
        self._kind = TEXT

    @property
    def size(self) -> int:
        """Bytes of a message that has begun."""
        return 0 if self._pieces is None else len(self._pieces)

    def forget(self) -> None:
        """What has begun."""
        self._pieces = None

    def add(self, first: int, body: bytes) -> WireFrame | None:
        """A frame that is no control frame -> the message that it ends. Raises Broken."""
        kind, pieces = first & OPCODE, self._pieces
        if kind == CONTINUATION:
            if pieces is None:
                raise Broken(CloseCode.PROTOCOL_ERROR, "unexpected continuation frame")
            if (size := len(pieces) + len(body)) > self._most_bytes:
                reason = f"message of {size} bytes, at most {self._most_bytes}"
                raise Broken(CloseCode.MESSAGE_TOO_BIG, reason)
            pieces += body
            if not first & FIN:
                return None
            self._pieces = None
            return _message(self._kind, pieces)
        elif pieces is not None:
            raise Broken(CloseCode.PROTOCOL_ERROR, "expected a continuation frame")
        elif not first & FIN:
            self._pieces, self._kind = bytearray(body), kind
            return None
        return _message(kind, body)


def _message(kind: int, data: bytes | bytearray) -> WireFrame:
    if kind == BINARY:
        return bytes(data)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        reason = f"invalid UTF-8 at byte {error.start}"
        raise Broken(CloseCode.INVALID_DATA, reason) from None


class Pings:
    """Counts those of one client."""

    def __init__(self) -> None:
        self._count, self._last = 0.0, 0.0

    def add(self, now: float) -> bool:
        """One more, at that second -> whether it is answered by itself. Raises Broken."""
        self._count = 1.0 + max(0.0, self._count - FORGOTTEN * (now - self._last))
        self._last = now
        if self._count > TOO_MANY:
            raise Broken(CloseCode.POLICY_VIOLATION, "too many pings")
        return self._count <= ANSWERED
