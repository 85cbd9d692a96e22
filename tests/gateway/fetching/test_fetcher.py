"""Fetching over real sockets: servers that answer well, and those that do not."""

from __future__ import annotations

import asyncio
import base64
import gzip
import io
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import soundfile
from PIL import Image as pillow

from lookhear.gateway.decoding.jobs import loaded
from lookhear.gateway.fetching.fetcher import Connection, Fetcher
from lookhear.gateway.slots import Claim, Slots
from lookhear.media.audio.decode import AudioMediaIO
from lookhear.media.base import FetchError, MediaError, MediaIO, MediaWithBytes
from lookhear.media.fetching.addresses import Address, parse_network
from lookhear.media.fetching.rules import FetchPolicy
from lookhear.media.fetching.urls import HttpUrl
from lookhear.media.pictures.image import ImageMediaIO
from lookhear.media.pictures.video import VideoMediaIO

T = TypeVar("T")
Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]

ONE = Claim("a client", "a request")
CERTIFICATE = Path(__file__).parents[1] / "data" / "media.test.pem"
LOOPBACK = FetchPolicy(allow_networks=(parse_network("127.0.0.1/32"),), timeout_s=60.0)


def png(color: str = "red") -> bytes:
    buffer = io.BytesIO()
    pillow.new("RGB", (4, 3), color).save(buffer, "PNG")
    return buffer.getvalue()


async def in_thread(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work)


async def loopback(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


async def load(url: str, loader: MediaIO[T], policy: FetchPolicy) -> MediaWithBytes[T]:
    return loaded(loader, await fetcher().load(url, policy, ONE))


def fetcher(**options: object) -> Fetcher:
    return Fetcher(in_thread, **{"resolve": loopback, **options})  # type: ignore[arg-type]


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on a free port of 127.0.0.1; `answer` gets a request's head."""
    tasks: list[asyncio.Task[None]] = []
    peers: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(await reader.readuntil(b"\r\n\r\n"), writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client hung up, as some tests make it

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(handle(reader, writer))
        task.add_done_callback(lambda _: writer.transport.abort())
        tasks.append(task)
        peers.put_nowait(writer.get_extra_info("peername"))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    try:
        yield port
    finally:
        if tls is None:
            # A client may give up before it is accepted. They are accepted in turn: once one more
            # is, all are.
            _, last = await asyncio.open_connection("127.0.0.1", port)
            while await peers.get() != last.get_extra_info("sockname"):
                pass
            last.close()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def says(*parts: bytes) -> Answer:
    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    return answer


def ok(body: bytes, *headers: str) -> bytes:
    lines = "\r\n".join(["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers])
    return lines.encode() + b"\r\n\r\n" + body


def moved(location: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


async def error_of(answer: Answer, policy: FetchPolicy = LOOPBACK) -> FetchError:
    async with serving(answer) as port:
        with pytest.raises(FetchError) as caught:
            await fetcher().get(f"http://media.test:{port}/a", policy, ONE)
    return caught.value


async def test_gets_a_picture() -> None:
    heads: list[bytes] = []

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        await says(ok(png()))(head, writer)

    async with serving(answer) as port:
        url = f"http://media.test:{port}/a.png?b=1"
        item = await load(url, ImageMediaIO(), LOOPBACK)
    assert item.media.pixels.shape == (3, 4, 3) and item.original_bytes == png()
    lines = heads[0].decode().split("\r\n")
    assert lines[0] == "GET /a.png?b=1 HTTP/1.1"
    assert f"Host: media.test:{port}" in lines
    assert "Accept-Encoding: identity" in lines


async def test_the_three_other_sources(tmp_path: Path) -> None:
    encoded = base64.b64encode(png()).decode()
    (tmp_path / "a.png").write_bytes(png())
    policy = replace(LOOPBACK, local_folder=tmp_path)
    from_data = await load(f"data:image/png;base64,{encoded}", ImageMediaIO(), policy)
    from_file = await load(f"file://{tmp_path}/a.png", ImageMediaIO(), policy)
    assert from_data == from_file
    with pytest.raises(FetchError, match="local files are off"):
        await load(f"file://{tmp_path}/a.png", ImageMediaIO(), LOOPBACK)
    with pytest.raises(MediaError, match="expected image/png as base64"):
        await load("data:image/png;base64,%%%%", ImageMediaIO(), LOOPBACK)
    for url in ("ftp://example.org/a", "a.png", "", "javascript:1"):
        with pytest.raises(FetchError, match="expected a data:, http or https URL") as caught:
            await load(url, ImageMediaIO(), LOOPBACK)
        assert caught.value.reason == "bad_url"


async def test_audio_and_lists_of_frames_too() -> None:
    sound = io.BytesIO()
    soundfile.write(sound, np.full(1600, 0.25), 16000, format="WAV", subtype="PCM_16")
    async with serving(says(ok(sound.getvalue()))) as port:
        url = f"http://media.test:{port}/a.wav"
        by_url = await load(url, AudioMediaIO(), LOOPBACK)
    encoded = base64.b64encode(sound.getvalue()).decode()
    by_data = await load(f"data:audio/wav;base64,{encoded}", AudioMediaIO(), LOOPBACK)
    assert by_url == by_data and by_url.media.duration_s == pytest.approx(0.1)
    jpeg = io.BytesIO()
    pillow.new("RGB", (4, 3)).save(jpeg, "JPEG")
    frame = base64.b64encode(jpeg.getvalue()).decode()
    url = f"data:video/jpeg;base64,{frame},{frame},{frame}"
    video = await load(url, VideoMediaIO(), LOOPBACK)
    assert len(video.media.frames) == 3


async def test_chunked_and_unframed_bodies() -> None:
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
    )
    until_close = b"HTTP/1.0 200 OK\r\n\r\nabcde"
    early = b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + ok(b"abcde")
    for answer in (chunked, until_close, early):
        async with serving(says(answer)) as port:
            assert await fetcher().get(f"http://media.test:{port}/", LOOPBACK, ONE) == b"abcde"


async def test_redirects_are_followed_hop_by_hop() -> None:
    async with serving(says(ok(b"found"))) as second:
        async with serving(says(moved(f"http://other.test:{second}/x"))) as first:
            asked: list[str] = []

            async def resolve(host: str, port: int) -> list[str]:
                asked.append(host)
                return ["127.0.0.1"]

            body = await fetcher(resolve=resolve).get(f"http://media.test:{first}/", LOOPBACK, ONE)
    assert body == b"found" and asked == ["media.test", "other.test"]


# Where it must not go.


class Recorder:
    """Connects to nothing that was not expected: every address that is dialled is written down."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.dialled: list[str] = []

    async def __call__(self, address: Address, url: HttpUrl) -> Connection:
        self.dialled.append(str(address))
        return await asyncio.open_connection("127.0.0.1", self.port)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://[::ffff:127.0.0.1]:{port}/"],
)
async def test_loopback_is_refused_unless_allowed(url: str) -> None:
    async with serving(says(ok(b"secret"))) as port:
        recorder = Recorder(port)
        with pytest.raises(FetchError) as caught:
            # The system's own resolver: localhost is looked up.
            await Fetcher(in_thread, connect=recorder).get(
                url.format(port=port), FetchPolicy(), ONE
            )
        assert caught.value.reason == "refused" and recorder.dialled == []
        assert await Fetcher(in_thread).get(f"http://127.0.0.1:{port}/", LOOPBACK, ONE) == b"secret"


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:{port}/",
        "http://[::1]:{port}/",
        "http://inner.test:{port}/",
        "http://169.254.169.254/latest/meta-data/",
        "file:///etc/passwd",
    ],
)
async def test_a_redirect_to_a_private_address_is_refused(target: str) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return {"media.test": ["8.8.8.8"], "inner.test": ["10.0.0.7"]}.get(host, [host])

    async with serving(says(ok(b"secret"))) as inner:
        async with serving(says(moved(target.format(port=inner)))) as port:
            recorder = Recorder(port)
            with pytest.raises(FetchError) as caught:
                await fetcher(resolve=resolve, connect=recorder).get(
                    "http://media.test/", FetchPolicy(), ONE
                )
    assert caught.value.reason in ("refused", "bad_url")
    assert recorder.dialled == ["8.8.8.8"] and "10.0.0.7" not in str(caught.value)


async def test_a_name_that_changes_its_address_gains_nothing() -> None:
    """DNS rebinding: public when it is checked, private when it would be looked up again."""
    answers = [["8.8.8.8"], ["127.0.0.1"], ["127.0.0.1"]]

    async def resolve(host: str, port: int) -> list[str]:
        return answers.pop(0)

    async with serving(says(ok(b"public"))) as port:
        recorder = Recorder(port)
        rebound = fetcher(resolve=resolve, connect=recorder)
        assert await rebound.get("http://media.test/", FetchPolicy(), ONE) == b"public"
        assert recorder.dialled == ["8.8.8.8"] and len(answers) == 2  # looked up once
        with pytest.raises(FetchError, match="public addresses only"):
            await rebound.get("http://media.test/", FetchPolicy(), ONE)
        assert recorder.dialled == ["8.8.8.8"]


async def test_a_name_with_a_private_address_among_its_own_is_refused() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["8.8.8.8", "192.168.0.1"]

    async with serving(says(ok(b"x"))) as port:
        recorder = Recorder(port)
        with pytest.raises(FetchError, match="public addresses only"):
            await fetcher(resolve=resolve, connect=recorder).get(
                "http://a.test/", FetchPolicy(), ONE
            )
    assert recorder.dialled == []


async def test_the_next_address_is_tried() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["2606:4700::1111", "8.8.8.8"]

    async with serving(says(ok(b"here"))) as port:

        class OnlyIPv4(Recorder):
            async def __call__(self, address: Address, url: HttpUrl) -> Connection:
                if address.version == 6:
                    self.dialled.append(str(address))
                    raise OSError(101, "Network is unreachable")
                return await super().__call__(address, url)

        recorder = OnlyIPv4(port)
        both = fetcher(resolve=resolve, connect=recorder)
        assert await both.get("http://a.test/", FetchPolicy(), ONE) == b"here"
    assert recorder.dialled == ["2606:4700::1111", "8.8.8.8"]


# Servers that mean no good, or are broken.


async def drip(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.01)


async def silence(_: bytes, __: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def endless_headers(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-Padding: " + b"a" * 1000 + b"\r\n")
        await writer.drain()


async def endless_body(_: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1000\r\n" + b"a" * 4096 + b"\r\n")
        await writer.drain()


@pytest.mark.parametrize("answer", [drip, silence])
async def test_slow_servers_have_a_limit_for_everything_together(answer: Answer) -> None:
    error = await error_of(answer, replace(LOOPBACK, timeout_s=0.3))
    assert error.reason == "timeout" and error.retryable
    assert "expected media.test to answer within 0.3 s; got" in str(error)


async def test_a_slow_look_up_and_a_slow_connection_count() -> None:
    async def never(*_: object) -> list[str]:
        await asyncio.Event().wait()
        return []

    for options in ({"resolve": never}, {"connect": never}):
        with pytest.raises(FetchError) as caught:
            await fetcher(**options).get("http://a.test/", replace(LOOPBACK, timeout_s=0.1), ONE)
        assert caught.value.reason == "timeout"


@pytest.mark.parametrize(
    "answer, reason, message",
    [
        (endless_headers, "truncated", "expected a complete HTTP answer"),
        (endless_body, "too_large", "expected at most 100000 bytes; got more"),
        (says(ok(b"a" * 100001)), "too_large", "got a declared length of 100001"),
        (says(b"HTTP/1.0 200 OK\r\n\r\n" + b"a" * 100001), "too_large", "got more"),
        (
            says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
            "truncated",
            "received 3 bytes, expected 9",
        ),
        (
            says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc"),
            "truncated",
            "expected a complete HTTP answer",
        ),
        (says(b""), "truncated", "expected a complete HTTP answer"),
        (says(b"SSH-2.0-OpenSSH_9.2\r\n"), "truncated", "expected a complete HTTP answer"),
        (
            says(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
            "truncated",
            "expected a complete HTTP answer",
        ),
        (
            says(ok(gzip.compress(b"\0" * 1_000_000), "Content-Encoding: gzip")),
            "unsupported",
            "expected an uncompressed answer; got gzip",
        ),
        (
            says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
            "truncated",
            "expected a complete HTTP answer",
        ),
        (says(b"HTTP/1.1 404 Not Found\r\n\r\n"), "bad_status", "got status 404"),
        (says(b"HTTP/1.1 503 No\r\n\r\n"), "unavailable", "got status 503"),
        (says(b"HTTP/1.1 302 Found\r\n\r\n"), "bad_status", "a redirect to name its target"),
        (says(moved("/a")), "too_many_redirects", "expected at most 5 redirects"),
    ],
)
async def test_bad_answers(answer: Answer, reason: str, message: str) -> None:
    error = await error_of(answer, replace(LOOPBACK, max_bytes=100000))
    assert error.reason == reason and message in str(error)


async def test_more_bytes_than_declared_are_not_read() -> None:
    async with serving(says(ok(b"abc") + b"defghi")) as port:
        assert await fetcher().get(f"http://media.test:{port}/", LOOPBACK, ONE) == b"abc"


async def test_no_server_and_no_name() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and does not listen: nobody else can have its port
        port = deaf.getsockname()[1]
        with pytest.raises(FetchError) as caught:
            await fetcher().get(f"http://media.test:{port}/", LOOPBACK, ONE)
    assert caught.value.reason == "unreachable"

    async def unknown(host: str, port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(FetchError, match="got nowhere.test, which has none") as caught:
        await fetcher(resolve=unknown).get("http://nowhere.test/", LOOPBACK, ONE)
    assert caught.value.retryable


async def test_what_is_fetched_is_still_judged() -> None:
    async with serving(says(ok(b"<html>not a picture"))) as port:
        with pytest.raises(MediaError, match="got text/html"):
            await load(f"http://media.test:{port}/a.png", ImageMediaIO(), LOOPBACK)


async def test_https_checks_the_name_though_it_dials_the_address() -> None:
    serves = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serves.load_cert_chain(CERTIFICATE)
    trusts = ssl.create_default_context(cafile=CERTIFICATE)
    async with serving(says(ok(b"private")), serves) as port:
        trusting = fetcher(tls=trusts)
        assert await trusting.get(f"https://media.test:{port}/", LOOPBACK, ONE) == b"private"
        assert await trusting.get(f"https://media.test.:{port}/", LOOPBACK, ONE) == b"private"
        with pytest.raises(
            FetchError, match="a certificate that is valid for other.test"
        ) as caught:
            await trusting.get(f"https://other.test:{port}/", LOOPBACK, ONE)
        assert caught.value.reason == "refused"
        with pytest.raises(FetchError, match="a certificate that is valid for media.test"):
            await fetcher().get(f"https://media.test:{port}/", LOOPBACK, ONE)  # the system's trust
    async with serving(says(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        with pytest.raises(FetchError) as caught:  # plain HTTP where TLS was expected
            await trusting.get(f"https://media.test:{port}/", replace(LOOPBACK, timeout_s=2), ONE)
        assert caught.value.reason in ("unreachable", "timeout")


class Gate:
    """Connections wait here. dialled: the paths that were asked for."""

    def __init__(self, port: int) -> None:
        self.dialled: list[str] = []
        self.open = asyncio.Event()
        self._port = port

    async def __call__(self, address: Address, url: HttpUrl) -> Connection:
        self.dialled.append(url.path)
        await self.open.wait()
        return await asyncio.open_connection("127.0.0.1", self._port)


async def all_stand_still() -> None:
    for _ in range(100):  # nothing real is waited for until then
        await asyncio.sleep(0)


async def test_downloads_at_once_are_bounded() -> None:
    async with serving(says(ok(b"x"))) as port:
        gate = Gate(port)
        two = fetcher(connect=gate, slots=Slots(2, 2, 2))
        clients = [Claim(f"client {number}", "a request") for number in range(6)]
        gets = [asyncio.create_task(two.get("http://media.test/", LOOPBACK, c)) for c in clients]
        await all_stand_still()
        assert len(gate.dialled) == 2
        gate.open.set()
        assert await asyncio.gather(*gets) == [b"x"] * 6
    assert len(gate.dialled) == 6


async def test_slow_addresses_of_some_requests_do_not_stop_another() -> None:
    """Eight requests with four addresses each that do not answer, and one with one, all of one
    client, under the usual limits."""
    async with serving(says(ok(b"x"))) as port:
        gate = Gate(port)
        shared = fetcher(connect=gate)
        slow = [
            asyncio.create_task(
                shared.get("http://media.test/slow", LOOPBACK, Claim("a client", f"{request}"))
            )
            for request in range(8)
            for _ in range(4)
        ]
        await all_stand_still()
        assert "/quick" not in gate.dialled
        quick = asyncio.create_task(
            shared.get("http://media.test/quick", LOOPBACK, Claim("a client", "another"))
        )
        await all_stand_still()
        assert "/quick" in gate.dialled
        gate.open.set()
        assert await asyncio.gather(quick, *slow) == [b"x"] * 33


async def test_waiting_for_a_turn_takes_nothing_of_the_time_to_fetch() -> None:
    """The second begins when all of its own time has passed, and is fetched."""
    waits: list[float] = []
    async with serving(says(ok(b"x"))) as port:
        gate = Gate(port)
        one = fetcher(connect=gate, slots=Slots(1, 1, 1), waited=waits.append)
        policy = replace(LOOPBACK, timeout_s=0.2)
        first = asyncio.create_task(one.get("http://media.test/1", policy, ONE))
        second = asyncio.create_task(one.get("http://media.test/2", LOOPBACK, ONE))
        with pytest.raises(FetchError, match="to answer within 0.2 s"):
            await first
        third = asyncio.create_task(one.get("http://media.test/3", policy, ONE))
        gate.open.set()
        assert await second == await third == b"x"
    # The loop's clock ticks in milliseconds: two of its readings may be off by one each.
    assert len(waits) == 3 and waits[1] >= 0.197 and waits[0] < 0.1


async def test_who_waits_too_long_for_a_turn_is_told() -> None:
    async with serving(says(ok(b"x"))) as port:
        gate = Gate(port)
        slots = Slots(1, 1, 1)
        one = fetcher(connect=gate, slots=slots, wait_seconds=0.05)
        first = asyncio.create_task(one.get("http://media.test/", LOOPBACK, ONE))
        await all_stand_still()
        with pytest.raises(FetchError, match="expected a turn to fetch within 0.05 s") as caught:
            await one.get("http://media.test/", LOOPBACK, ONE)
        assert caught.value.reason == "busy" and caught.value.retryable and slots.waiting == 0
        gate.open.set()
        assert await first == b"x"


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_name_that_is_still_asked_for_holds_the_turn_of_who_gave_it_up(
    is_known: bool,
) -> None:
    """Its thread cannot be stopped: one client's names took those of all others."""
    asked: list[str] = []
    answered = asyncio.Event()

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        await answered.wait()
        if not is_known:
            raise OSError("no such host")
        return ["127.0.0.1"]

    async with serving(says(ok(b"x"))) as port:
        one = fetcher(resolve=resolve, slots=Slots(2, 1, 1))
        urls = [f"http://{name}.test:{port}/" for name in ("slow", "next", "other")]
        with pytest.raises(FetchError, match="expected slow.test to answer within 0.1 s"):
            await one.get(urls[0], replace(LOOPBACK, timeout_s=0.1), ONE)
        after = asyncio.create_task(one.get(urls[1], LOOPBACK, ONE))
        other = asyncio.create_task(one.get(urls[2], LOOPBACK, Claim("another", "a request")))
        await all_stand_still()
        assert asked == ["slow.test", "other.test"]
        answered.set()
        found = await asyncio.gather(after, other, return_exceptions=True)
    assert asked == ["slow.test", "other.test", "next.test"]
    told = [getattr(it, "reason", it) for it in found]
    assert told == [b"x" if is_known else "unreachable"] * 2


async def test_a_cancelled_download_closes_its_connection() -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        try:
            await reader.read()
        except ConnectionError:
            pass
        closed.set()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    task = asyncio.create_task(fetcher().get(f"http://media.test:{port}/", LOOPBACK, ONE))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(closed.wait(), 60)
    server.close()
