"""A paced connection hands over what uvicorn's own would, however the bytes are split."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn import Config
from uvicorn.server import ServerState
from websockets.frames import Frame, Opcode

from lookhear.gateway.realtime.session.session import RealtimeSession
from lookhear.gateway.sockets import cutting, frames
from lookhear.gateway.sockets.cutting import Cutter
from lookhear.gateway.sockets.cutting import WireFrame as Message
from lookhear.gateway.sockets.frames import PLENTY, SLICE, PacedProtocol
from lookhear.gateway.sockets.unfinished import Unfinished
from tests.gateway.running import Running

MAX_SIZE = 200_000
HANDSHAKE = (
    b"GET /v1/realtime HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


class Wire(asyncio.Transport):
    """A transport without a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.paused = self.closed = self.aborted = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        assert not self.paused
        self.paused = True

    def resume_reading(self) -> None:
        assert self.paused
        self.paused = False


class Connection:
    """A protocol whose session is attached. pause: what the session says to pauses."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pause: float = 0.0) -> None:
        self.accepting = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await self.accepting.wait()
            await send({"type": "websocket.accept"})
            with contextlib.suppress(asyncio.CancelledError):
                await loop.create_future()

        config = Config(app, ws_max_size=MAX_SIZE, ws_per_message_deflate=False, log_config=None)
        config.load()
        self.loop = loop
        self.wire = Wire()
        self.taken: list[Message] = []
        self.protocol = PacedProtocol(config, ServerState(), {}, loop)
        self.protocol.connection_made(self.wire)
        self.pause = pause

    def open(self) -> None:
        self.protocol.data_received(HANDSHAKE)
        self.accept()
        self.attach()

    def accept(self) -> None:
        self.accepting.set()
        while not self.wire.written:
            self.step()
        assert self.wire.written.startswith(b"HTTP/1.1 101 ")
        self.wire.written = self.wire.written.partition(b"\r\n\r\n")[2]

    def attach(self) -> None:
        self.protocol.attach(self.taken.append, lambda: self.pause)

    def step(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0))

    def feed(self, data: bytes, cuts: Sequence[int] = ()) -> None:
        bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
        for a, b in zip(bounds, bounds[1:], strict=False):
            if b > a:
                self.protocol.data_received(data[a:b])

    def disconnects(self) -> list[int]:
        """Close codes that the application is told."""
        queue = self.protocol.queue
        found: list[Any] = [queue.get_nowait() for _ in range(queue.qsize())]
        return [message["code"] for message in found]

    def end(self) -> None:
        self.protocol.connection_lost(None)
        for task in self.protocol.tasks:
            task.cancel()
        self.step()


@contextlib.contextmanager
def connected(pause: float = 0.0, *, opened: bool = True) -> Iterator[Connection]:
    """opened: it has shaken hands, and its session is attached."""
    loop = asyncio.new_event_loop()
    connection = Connection(loop, pause)
    try:
        if opened:
            connection.open()
        yield connection
    finally:
        connection.end()
        loop.close()


@pytest.fixture
def connection() -> Iterator[Connection]:
    with connected() as it:
        yield it


@pytest.fixture
def paced() -> Iterator[Connection]:
    with connected(pause=0.001) as it:
        yield it


def masked(opcode: Opcode, data: bytes, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


def of(message: Message) -> bytes:
    if isinstance(message, bytes):
        return masked(Opcode.BINARY, message)
    return masked(Opcode.TEXT, message.encode())


messages = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.binary(max_size=40),
        st.integers(100, 198_000).map(lambda n: "é" * (n // 2)),
    ),
    max_size=6,
)


cuts = st.lists(st.one_of(st.integers(0, 3000), st.integers(0, 600_000)), max_size=8)


def framed(script: Sequence[Message], draw: random.Random) -> tuple[bytes, int]:
    """The script as frames, some messages in fragments with pings between -> and how many."""
    data, pings = b"", 0
    for message in script:
        body = message if isinstance(message, bytes) else message.encode()
        kind = Opcode.BINARY if isinstance(message, bytes) else Opcode.TEXT
        if draw.random() < 0.3:
            half = len(body) // 2
            data += masked(kind, body[:half], fin=False) + masked(Opcode.PING, b"?")
            data += masked(Opcode.CONT, body[half:])
            pings += 1
        else:
            data += of(message)
    return data, pings


@settings(deadline=None, max_examples=60)
@given(messages, cuts, st.randoms())
def test_any_split_gives_the_same_messages(
    script: list[Message], cuts: list[int], draw: random.Random
) -> None:
    data, pings = framed(script, draw)
    with connected() as connection:
        connection.feed(data, cuts)
        assert connection.taken == script
        assert connection.wire.written == b"\x8a\x01?" * pings


@settings(deadline=None, max_examples=100)
@given(
    messages,
    st.lists(st.integers(0, len(HANDSHAKE) + 300), max_size=8),
    st.lists(st.integers(0, 300), min_size=2, max_size=2),
    st.randoms(),
)
def test_what_comes_before_the_session_is_there_reaches_it(
    script: list[Message], cuts: list[int], moments: list[int], draw: random.Random
) -> None:
    """moments: bytes behind the upgrade request after which it is answered, and after which the
    session is attached."""
    data, pings = framed(script, draw)
    accepted, attached = sorted(min(moment, len(data)) for moment in moments)
    with connected(opened=False) as connection:
        connection.feed(HANDSHAKE + data[:accepted], cuts)
        connection.accept()
        connection.feed(data[accepted:attached], cuts)
        connection.attach()
        connection.feed(data[attached:], cuts)
        assert connection.taken == script
        assert connection.wire.written == b"\x8a\x01?" * pings
        assert not connection.wire.paused


def test_not_much_is_kept_before_the_answer() -> None:
    with connected(opened=False) as connection:
        connection.feed(HANDSHAKE + of("x" * 60_000))
        assert not connection.wire.paused
        connection.feed(of("y" * 60_000))
        assert connection.wire.paused
        connection.accept()
        connection.attach()
        assert not connection.wire.paused
        assert [message[:1] for message in connection.taken] == ["x", "y"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x81\x05hello", 1002),  # not masked
        (b"\xc1\x80\0\0\0\0", 1002),  # a reserved bit
        (b"\x83\x80\0\0\0\0", 1002),  # an unknown kind
        (masked(Opcode.CONT, b"x"), 1002),  # of nothing
        (masked(Opcode.TEXT, b"x", fin=False) + masked(Opcode.TEXT, b"y"), 1002),
        (masked(Opcode.TEXT, b"\xff\xfe"), 1007),  # no UTF-8
        (masked(Opcode.TEXT, b"\xff", fin=False) + masked(Opcode.CONT, b"\xfe"), 1007),
        (b"\x81\xff" + struct.pack("!Q", MAX_SIZE + 1) + bytes(4), 1009),
        (masked(Opcode.CLOSE, struct.pack("!H", 1001)), 1001),
        (masked(Opcode.TEXT, b"x", fin=False) + masked(Opcode.CLOSE, b"\x03\xe9"), 1001),
        (masked(Opcode.BINARY, b"x", fin=False) + masked(Opcode.CLOSE, b"\x03"), 1002),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",  # masks are drawn anew
)
@pytest.mark.parametrize("cuts", [[], [1], [2, 3, 9]])
def test_what_is_broken_closes_as_ever(
    connection: Connection,
    data: bytes,
    code: int,
    cuts: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frames, "QUIET", 0.001)
    connection.feed(of("before") + data + of("after"), [len(of("before")) + cut for cut in cuts])
    assert connection.taken == ["before"]
    while not connection.wire.closed:
        connection.step()
    assert connection.wire.written[:4] == b"\x88" + connection.wire.written[1:2] + struct.pack(
        "!H", code
    )
    assert set(connection.disconnects()) == {code}


def test_the_rest_of_what_is_broken_is_read_and_thrown_away(
    paced: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    paced.feed(of("before"))
    paced.protocol.hold()
    paced.feed(b"\x81\xff" + struct.pack("!Q", MAX_SIZE + 1) + bytes(4))
    said = paced.wire.written
    paced.feed(of("after"))
    assert not paced.wire.paused and not paced.wire.closed
    monkeypatch.setattr(frames, "QUIET", 0.001)
    paced.feed(of("after"))
    while not paced.wire.closed:
        paced.step()
    assert paced.wire.written == said and paced.taken == ["before"]
    assert paced.disconnects() == [1009]


async def test_who_sends_too_much_is_told_and_not_reset(
    gateway: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "QUIET", 600.0)  # here the client's own end comes first
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(HANDSHAKE.replace(b"Host: test", b"Host: localhost"))
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    limit = gateway.services.config.max_message_bytes
    writer.write(b"\x81\xff" + struct.pack("!Q", limit + 1) + bytes(4) + bytes(4_000_000))
    writer.write_eof()
    said = await reader.read()  # raises if the connection is reset
    assert b"\x88" in said and struct.pack("!H", 1009) in said
    writer.close()
    await writer.wait_closed()
    await gateway.engine.wait_for(lambda: not gateway.engine.sessions)


def test_who_is_not_read_or_was_just_heard_is_not_taken_for_dead(connection: Connection) -> None:
    protocol, wire = connection.protocol, connection.wire
    protocol.send_keepalive_ping()
    protocol.hold()
    protocol.keepalive_timeout()
    assert not wire.closed
    protocol.release()
    connection.feed(of("much")[:3])
    protocol.keepalive_timeout()
    assert not wire.closed
    protocol.keepalive_timeout()
    assert wire.closed and struct.pack("!H", 1011) in wire.written
    assert wire.aborted, "what waits to be written would wait for ever"


def test_who_takes_nothing_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "LINGER", 0.001)
    with connected() as connection:
        [task] = connection.protocol.tasks
        task.cancel()  # the application ends, and what it has written does not go out
        while not connection.wire.aborted:
            connection.step()
        assert connection.wire.closed


def test_the_socket_rests_after_messages_only(paced: Connection) -> None:
    paced.feed(masked(Opcode.PING, b""))
    assert not paced.wire.paused
    one = of("one")
    paced.feed(one[:4])
    assert not paced.wire.paused
    paced.feed(one[4:])
    assert paced.wire.paused
    while paced.wire.paused:
        paced.step()
    paced.feed(of("x" * 60_000) + of("y" * 60_000))
    assert PLENTY < 120_000
    assert len(paced.taken) == 3 and not paced.wire.paused, "so much is not paced"


def test_held_until_released(paced: Connection) -> None:
    paced.feed(of("one"))
    paced.protocol.hold()
    paced.loop.run_until_complete(asyncio.sleep(0.005))  # the pause is over
    assert paced.wire.paused
    paced.protocol.release()
    assert not paced.wire.paused
    paced.protocol.release()


async def test_sessions_are_attached(gateway: Running) -> None:
    """What a session was sent before it was there reaches it too, in order."""
    async with gateway.client() as client:
        for number in range(20):
            await client.send("input_audio_buffer.clear", event_id=f"e{number}")
        for _ in range(20):
            await client.until("cleared")
        [session] = gateway.services.sessions
        assert isinstance(session, RealtimeSession)
        assert session._attachment is not None
        assert isinstance(session._attachment._connection, PacedProtocol)


def test_a_release_ends_the_pause_before(
    paced: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its timer would cut a later pause short."""
    timers: list[asyncio.TimerHandle] = []
    call_later = paced.loop.call_later

    def remembered(delay: float, callback: Any, *arguments: Any) -> asyncio.TimerHandle:
        timers.append(call_later(delay, callback, *arguments))
        return timers[-1]

    monkeypatch.setattr(paced.loop, "call_later", remembered)
    paced.feed(masked(Opcode.TEXT, b"one"))
    [timer] = timers
    paced.protocol.hold()
    paced.protocol.release()
    assert timer.cancelled() and not paced.wire.paused


def test_a_turn_of_the_loop_takes_a_slice_and_the_others_are_served_between(
    connection: Connection,
) -> None:
    count = 3 * SLICE + 1
    turns: list[int] = []

    def neighbour() -> None:
        turns.append(len(connection.taken))
        if len(connection.taken) < count:
            assert connection.wire.paused, "while there is more, nothing is read"
            connection.loop.call_soon(neighbour)

    connection.feed(b"".join(of(str(number)) for number in range(count)))
    neighbour()
    while len(connection.taken) < count:
        connection.step()
    assert turns == [SLICE, 2 * SLICE, 3 * SLICE, count][: len(turns)] and len(turns) >= 3
    assert connection.taken == [str(number) for number in range(count)]
    assert not connection.wire.paused


def test_what_comes_while_more_waits_stays_in_order(connection: Connection) -> None:
    script = [str(number) for number in range(2 * SLICE)]
    data = b"".join(map(of, script))
    connection.feed(data, [len(data) - 40, len(data) - 20])
    while len(connection.taken) < len(script):
        connection.step()
    assert connection.taken == script


def test_a_flood_of_pings_is_answered_less_and_less_and_then_closed(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection.loop, "time", lambda: 0.0)
    for number in range(cutting.TOO_MANY):
        connection.feed(masked(Opcode.PING, b"%03d" % (number % 1000)))
    answers = connection.wire.written.count(b"\x8a\x03")
    assert answers == cutting.TOO_MANY, "one at a time, each is the latest"
    connection.feed(masked(Opcode.PING, b"one more"))
    assert connection.wire.written[-18:].startswith(b"\x88") and (
        struct.pack("!H", 1008) + b"too many pings" in connection.wire.written
    )
    assert connection.disconnects() == [1008]


def test_of_many_pings_at_once_the_latest_is_answered(connection: Connection) -> None:
    pings = b"".join(masked(Opcode.PING, b"%03d" % number) for number in range(SLICE))
    connection.feed(pings)
    written = connection.wire.written
    assert written.count(b"\x8a\x03") == cutting.ANSWERED + 1
    assert written.endswith(b"\x8a\x03%03d" % (SLICE - 1))


def test_who_takes_nothing_is_owed_one_pong(connection: Connection) -> None:
    connection.protocol.pause_writing()
    for number in range(10):
        connection.feed(masked(Opcode.PING, b"%d" % number))
    assert connection.wire.written == b""
    connection.protocol.resume_writing()
    assert connection.wire.written == b"\x8a\x019"


def test_a_message_of_pieces_is_no_larger_than_another(connection: Connection) -> None:
    piece = masked(Opcode.CONT, b"x" * 10_000, fin=False)
    connection.feed(masked(Opcode.TEXT, b"", fin=False) + piece * (MAX_SIZE // 10_000))
    assert connection.wire.written == b""
    connection.feed(piece)
    assert struct.pack("!H", 1009) in connection.wire.written
    assert connection.disconnects() == [1009]


def test_a_large_frame_is_worked_on_as_it_comes() -> None:
    cutter, data = Cutter(MAX_SIZE), masked(Opcode.TEXT, b"x" * 150_000)
    pieces = [cutter.cut(data[at : at + 40_000], 10) for at in range(0, len(data), 40_000)]
    assert [len(body) for slice in pieces for _, body in slice.frames] == [39_986] + [
        40_000
    ] * 2 + [30_014]
    assert [slice.at for slice in pieces] == [40_000, 40_000, 40_000, 30_014]


def test_the_beginnings_of_messages_are_bounded_over_all() -> None:
    told: list[str] = []
    unfinished = Unfinished(50_000, told.append)
    with connected() as large, connected() as small:
        large.protocol.unfinished = small.protocol.unfinished = unfinished
        half = masked(Opcode.TEXT, b"x" * 40_000)
        large.feed(half[:30_000])  # of one frame
        small.feed(masked(Opcode.TEXT, b"y" * 15_000, fin=False))  # a frame of several
        assert unfinished.total == 45_000 and not told
        small.feed(masked(Opcode.CONT, b"y" * 10_000, fin=False))
        assert told == ["too_many_unfinished"] and unfinished.total == 25_000
        assert struct.pack("!H", 1013) in large.wire.written and not small.wire.written
        small.feed(masked(Opcode.CONT, b"y"))
        assert [len(message) for message in small.taken] == [25_001]
        assert unfinished.total == 0


async def test_a_flood_does_not_keep_others_waiting(gateway: Running) -> None:
    """Whoever floods rests, and does not notice more than that."""
    # Of the time that this process has: on a busy machine it may have less than what is shared.
    gateway.services.shares.clock = gateway.services.shares.processor
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(HANDSHAKE.replace(b"Host: test", b"Host: localhost"))
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    frame = (
        masked(Opcode.TEXT, b'{"type"', fin=False) + masked(Opcode.CONT, b"", fin=False) * 20_000
    )

    async def flood() -> None:
        writer.write(frame)
        while True:
            writer.write(masked(Opcode.CONT, b"", fin=False) * 20_000)
            await writer.drain()

    before = set(gateway.services.sessions)
    flooding = asyncio.create_task(flood())
    try:
        async with gateway.client() as client:
            await client.update()
            [flooding_one] = before
            assert isinstance(flooding_one, RealtimeSession)
            while not flooding_one._share.rest():
                await client.update()
            for _ in range(20):
                await client.update()
    finally:
        flooding.cancel()
        await asyncio.gather(flooding, return_exceptions=True)
        writer.transport.abort()
