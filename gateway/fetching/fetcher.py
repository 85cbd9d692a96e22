"""Fetches media for a client: data:, http(s) and file: URLs -> files, not decoded yet.

The rules are those of `media.fetching.rules`; here are the sockets. One connection per hop,
straight to the address that was checked: no proxy from the environment, no pool, no cookies, no
compressed answers.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol, TypeVar

import h11

from lookhear.gateway.decoding.jobs import Encoded
from lookhear.gateway.slots import Claim, Slots
from lookhear.media.base import FetchError
from lookhear.media.fetching.addresses import Address
from lookhear.media.fetching.rules import Download, FetchPolicy, read_local
from lookhear.media.fetching.urls import HttpUrl, parse_data_url, scheme_of

T = TypeVar("T")

CHUNK = 65536
MAX_HEAD = 65536  # bytes of an answer's header lines
CONNECT_SECONDS = 3.0  # for one of several addresses; the last one has all that is left
ADDRESSES = 4  # of one name that are tried
# Connections at a time: in all, for one client, for one request.
PARALLEL, PER_CLIENT, PER_REQUEST = 64, 32, 4
WAIT_SECONDS = 30.0  # for one of them

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolving = asyncio.Future[list[str]]
Resolve = Callable[[str, int], Awaitable[list[str]]]
Connect = Callable[[Address, HttpUrl], Awaitable[Connection]]


class InThread(Protocol):
    """`Services.in_thread`."""

    async def __call__(self, work: Callable[[], T], /) -> T:
        """Wait for its result."""


class Resolver:
    """The system's, which holds a thread until it knows or gives up: as many names at once as may
    be fetched, where the event loop's own threads are a handful."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(PARALLEL, thread_name_prefix="resolver")

    async def __call__(self, host: str, port: int) -> list[str]:
        """The addresses of a name. Raises OSError."""
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        return [str(address[0]) for *_, address in found]


class Fetcher:
    """resolve, connect: what opens sockets; tests put their own in. tls: of https, by default
    checked against the system's certificates. slots: who may fetch at a time; wait_seconds: how
    long one waits for that, and `waited` hears it.
    """

    def __init__(
        self,
        in_thread: InThread,
        *,
        resolve: Resolve | None = None,
        connect: Connect | None = None,
        tls: ssl.SSLContext | None = None,
        slots: Slots | None = None,
        wait_seconds: float = WAIT_SECONDS,
        waited: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._in_thread = in_thread
        self._resolve = resolve or Resolver()
        self._connect = connect or self._dial
        self._tls = tls
        self._slots = slots or Slots(PARALLEL, PER_CLIENT, PER_REQUEST)
        self._wait_seconds = wait_seconds
        self._waited = waited

    async def load(self, url: str, policy: FetchPolicy, claim: Claim) -> Encoded:
        """The file that a URL names. Raises MediaError (FetchError among it)."""
        scheme = scheme_of(url)
        if scheme == "data":
            media_type, text = parse_data_url(url, policy.max_bytes)
            return Encoded(text.encode("utf-8", "replace"), media_type)
        if scheme == "file":
            return Encoded(await self._in_thread(lambda: read_local(url, policy)))
        if scheme not in ("http", "https"):
            raise FetchError("bad_url", f"expected a data:, http or https URL; got {url[:80]!r}")
        return Encoded(await self.get(url, policy, claim))

    async def get(self, url: str, policy: FetchPolicy, claim: Claim) -> bytes:
        """The body that an http(s) URL answers with. Raises FetchError. Its time begins when it is
        its turn."""
        download = Download(url, policy)
        async with self._turn(claim) as pending:
            try:
                async with asyncio.timeout(policy.timeout_s):
                    while not await self._hop(download, pending):
                        pass
            except TimeoutError as error:
                expected = f"{download.url.host} to answer within {policy.timeout_s:g} s"
                message = f"expected {expected}; got {len(download.body)} bytes by then"
                raise FetchError("timeout", message) from error
        return download.body

    @asynccontextmanager
    async def _turn(self, claim: Claim) -> AsyncIterator[set[Resolving]]:
        """-> for the names asked for: as long as one is, the turn goes on. A resolver's thread
        cannot be stopped, and whose names take for ever would get one after the other."""
        loop = asyncio.get_running_loop()
        asked, pending = loop.time(), set[Resolving]()
        ticket = self._slots.queue(claim)
        try:
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await self._slots.granted(ticket)
            except TimeoutError as error:
                expected = f"a turn to fetch within {self._wait_seconds:g} s"
                message = f"expected {expected}; got none, too much is being fetched: try again"
                raise FetchError("busy", message) from error
            finally:
                self._waited(loop.time() - asked)
            yield pending
        finally:
            for resolving in pending:  # one at most
                resolving.add_done_callback(lambda _: self._slots.leave(ticket))
            if not pending:
                self._slots.leave(ticket)

    async def _hop(self, download: Download, pending: set[Resolving]) -> bool:
        """One request. True if its answer was the body, False for a redirect."""
        url = download.url
        resolving = asyncio.ensure_future(self._resolve(url.host, url.port))
        pending.add(resolving)
        resolving.add_done_callback(pending.discard)
        resolving.add_done_callback(known)
        try:
            await asyncio.wait({resolving})  # it goes on if nobody waits any more
            resolved = resolving.result()
        except (OSError, UnicodeError) as error:
            message = f"expected a host with an address; got {url.host}, which has none"
            raise FetchError("unreachable", message) from error
        addresses = download.addresses(resolved)
        try:
            async with self._opened(addresses[:ADDRESSES], url) as (reader, writer):
                return await exchange(reader, writer, url, download)
        except ssl.SSLCertVerificationError as error:
            expected = f"a certificate that is valid for {url.host}"
            message = f"expected {expected}; got one that is not: {error.verify_message}"
            raise FetchError("refused", message) from error
        except OSError as error:
            message = f"expected {url.authority} to answer; got {error.strerror or error}"
            raise FetchError("unreachable", message) from error
        except h11.RemoteProtocolError as error:
            message = f"expected a complete HTTP answer of {url.authority}; got {error}"
            raise FetchError("truncated", message) from error

    @asynccontextmanager
    async def _opened(self, addresses: list[Address], url: HttpUrl) -> AsyncIterator[Connection]:
        reader, writer = await self._first(addresses, url)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()  # whatever the other side still wants to say

    async def _first(self, addresses: list[Address], url: HttpUrl) -> Connection:
        for address in addresses[:-1]:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await self._connect(address, url)
            except (OSError, TimeoutError):
                continue  # a name often has addresses of a family that has no way out
        return await self._connect(addresses[-1], url)

    async def _dial(self, address: Address, url: HttpUrl) -> Connection:
        if url.scheme == "http":
            return await asyncio.open_connection(str(address), url.port)
        if self._tls is None:
            self._tls = await self._in_thread(ssl.create_default_context)  # reads files
        # The certificate must be that of the name, whatever the address.
        return await asyncio.open_connection(
            str(address), url.port, ssl=self._tls, server_hostname=url.host
        )


def known(resolving: Resolving) -> None:
    """What went wrong in it is told to who still waits, and otherwise to nobody."""
    if not resolving.cancelled():
        resolving.exception()


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, url: HttpUrl, download: Download
) -> bool:
    """Sends the request and feeds the answer to `download`. True if it was the body."""
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
    request = h11.Request(
        method="GET",
        target=url.path,
        headers=[
            ("Host", url.authority),
            ("User-Agent", "lookhear"),
            ("Accept", "*/*"),
            ("Accept-Encoding", "identity"),
            ("Connection", "close"),
        ],
    )
    writer.write(http.send(request) + http.send(h11.EndOfMessage()))
    await writer.drain()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(CHUNK))
        elif isinstance(event, h11.Response):
            headers = {name.decode("ascii"): text(value) for name, value in event.headers}
            if not download.response(event.status_code, headers):
                return False
        elif isinstance(event, h11.Data):
            download.data(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            return True
        elif not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("a closed connection before the answer")


def text(value: bytes) -> str:
    """Header values are ASCII by the book; addresses in them are UTF-8 in practice."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")
