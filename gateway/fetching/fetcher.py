"""Fetches media for a client: data:, http(s) and file: URLs -> decoded objects.

The rules are those of `media.fetching.rules`; here are the sockets. One connection per hop,
straight to the address that was checked: no proxy from the environment, no pool, no cookies, no
compressed answers.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

import h11

from lookhear.media.base import FetchError, MediaIO, MediaWithBytes
from lookhear.media.fetching.addresses import Address
from lookhear.media.fetching.rules import Download, FetchPolicy, read_local
from lookhear.media.fetching.urls import HttpUrl, parse_data_url, scheme_of

T = TypeVar("T")

CHUNK = 65536
MAX_HEAD = 65536  # bytes of an answer's header lines
CONNECT_SECONDS = 3.0  # for one of several addresses; the last one has all that is left
ADDRESSES = 4  # of one name that are tried
PARALLEL = 16

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolve = Callable[[str, int], Awaitable[list[str]]]
Connect = Callable[[Address, HttpUrl], Awaitable[Connection]]


class InThread(Protocol):
    """`Services.in_thread`."""

    async def __call__(self, work: Callable[[], T], /) -> T:
        """Wait for its result."""


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name by the system's resolver. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class Fetcher:
    """resolve, connect: what opens sockets; tests put their own in. tls: of https, by default
    checked against the system's certificates.
    """

    def __init__(
        self,
        in_thread: InThread,
        *,
        resolve: Resolve = resolve,
        connect: Connect | None = None,
        tls: ssl.SSLContext | None = None,
        parallel: int = PARALLEL,
    ) -> None:
        self._in_thread = in_thread
        self._resolve = resolve
        self._connect = connect or self._dial
        self._tls = tls
        self._slots = asyncio.Semaphore(parallel)

    async def load(self, url: str, loader: MediaIO[T], policy: FetchPolicy) -> MediaWithBytes[T]:
        """Fetched here, decoded in a media thread. Raises MediaError (FetchError among it)."""
        scheme = scheme_of(url)
        if scheme == "data":
            media_type, text = parse_data_url(url, policy.max_bytes)
            return await self._in_thread(lambda: loader.load_base64(media_type, text))
        if scheme == "file":
            return await self._in_thread(lambda: loader.load_bytes(read_local(url, policy)))
        if scheme not in ("http", "https"):
            raise FetchError("bad_url", f"expected a data:, http or https URL; got {url[:80]!r}")
        data = await self.get(url, policy)
        return await self._in_thread(lambda: loader.load_bytes(data))

    async def get(self, url: str, policy: FetchPolicy) -> bytes:
        """The body that an http(s) URL answers with. Raises FetchError."""
        download = Download(url, policy)
        try:
            async with asyncio.timeout(policy.timeout_s), self._slots:
                while not await self._hop(download):
                    pass
        except TimeoutError as error:
            expected = f"{download.url.host} to answer within {policy.timeout_s:g} s"
            message = f"expected {expected}; got {len(download.body)} bytes by then"
            raise FetchError("timeout", message) from error
        return download.body

    async def _hop(self, download: Download) -> bool:
        """One request. True if its answer was the body, False for a redirect."""
        url = download.url
        try:
            resolved = await self._resolve(url.host, url.port)
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
