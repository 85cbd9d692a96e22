"""The rules of fetching media that a stranger names, without the sockets that do it.

Who fetches asks `Download` before every step: where to connect, to which of the addresses that the
name has, what to make of the answer. Only an address that was checked is ever connected to, so a
name that changes its address between the check and the connection (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

from lookhear.media.base import FetchError, MediaError
from lookhear.media.fetching.addresses import Address, Network, is_allowed, parse_address
from lookhear.media.fetching.urls import HttpUrl, check_text, file_path, parse_http_url

__all__ = ["Download", "FetchPolicy", "read_local"]

REDIRECTS = (301, 302, 303, 307, 308)
LATER = (408, 425, 429)


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """What may be fetched. timeout_s: of everything together, from the name's look-up to the last
    byte. allow_networks: refused ones (private, loopback, link-local ...) that are allowed after
    all. allow_hosts: the only names and addresses that may be asked, exactly; None: any.
    local_folder: below which files may be read; None: none.
    """

    max_bytes: int = 64 * 1024 * 1024
    timeout_s: float = 10.0
    max_redirects: int = 5
    allow_networks: tuple[Network, ...] = ()
    allow_hosts: tuple[str, ...] | None = None
    local_folder: Path | None = None


class Download:
    """One http(s) URL and what it redirects to. Every method raises FetchError.

    `url` is what to ask next; then `addresses` and `response`, for each hop; then `data` until the
    body ends.
    """

    def __init__(self, url: str, policy: FetchPolicy) -> None:
        self._policy = policy
        self._redirects = 0
        self._body = bytearray()
        self.url = self._checked(parse_http_url(url))

    def _checked(self, url: HttpUrl) -> HttpUrl:
        allowed = self._policy.allow_hosts
        if allowed is not None and url.host not in allowed:
            raise FetchError("refused", f"expected one of the allowed hosts; got {url.host}")
        literal = parse_address(url.host)
        if literal is not None and not is_allowed(literal, self._policy.allow_networks):
            raise private(url.host)
        return url

    def addresses(self, resolved: Iterable[str]) -> list[Address]:
        """The addresses of `url.host`, in the resolver's order, all of them allowed.

        One refused address refuses the name: an honest public name has none, and to go on with the
        others would let the sender try which inner addresses exist.
        """
        found: list[Address] = []
        for text in resolved:
            address = parse_address(text)
            if address is None or not is_allowed(address, self._policy.allow_networks):
                raise private(self.url.host)
            if address not in found:
                found.append(address)
        if not found:
            raise FetchError("unreachable", f"expected a host with an address; got {self.url.host}")
        return found

    def response(self, status: int, headers: Mapping[str, str]) -> bool:
        """headers: lower-case names. True: read the body; False: a redirect, `url` is the next."""
        if status in REDIRECTS:
            self._redirect(headers.get("location", ""))
            return False
        if status != 200:
            reason = "unavailable" if status >= 500 or status in LATER else "bad_status"
            raise FetchError(
                reason, f"expected {self.url.host} to answer with 200 OK; got status {status}"
            )
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            # None was asked for, and a small compressed body may be an endless one.
            raise FetchError("unsupported", f"expected an uncompressed answer; got {encoding[:40]}")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._policy.max_bytes:
            raise self._too_large(f"a declared length of {int(length)}")
        return True

    def data(self, chunk: bytes) -> None:
        self._body += chunk
        if len(self._body) > self._policy.max_bytes:
            raise self._too_large("more")

    @property
    def body(self) -> bytes:
        return bytes(self._body)

    def _redirect(self, location: str) -> None:
        if not location:
            raise FetchError("bad_status", "expected a redirect to name its target; got none")
        self._redirects += 1
        if self._redirects > self._policy.max_redirects:
            raise FetchError(
                "too_many_redirects",
                f"expected at most {self._policy.max_redirects} redirects; got more",
            )
        check_text(location)
        try:
            target = parse_http_url(urljoin(str(self.url), location))
        except ValueError as error:
            raise FetchError("bad_url", f"expected a redirect to a URL; got {error}") from error
        if self.url.scheme == "https" and target.scheme == "http":
            raise FetchError(
                "refused", f"expected https to stay https; got a redirect to http at {target.host}"
            )
        self.url = self._checked(target)

    def _too_large(self, got: str) -> FetchError:
        return FetchError(
            "too_large", f"expected at most {self._policy.max_bytes} bytes; got {got}"
        )


def private(host: str) -> FetchError:
    # Not the address: the sender shall not learn what an inner name resolves to.
    return FetchError(
        "refused",
        f"expected a host with public addresses only; got {host}, which leads to a private, "
        "loopback, link-local or otherwise special one",
    )


def read_local(url: str, policy: FetchPolicy) -> bytes:
    """A file URL's bytes. Symbolic links are followed first, so that none leads out of the folder.

    Blocks: for a worker thread. Raises FetchError; whether a file outside the folder exists cannot
    be told from it.
    """
    path = file_path(url)
    if policy.local_folder is None:
        raise FetchError("refused", "expected a data:, http or https URL; local files are off")
    folder = policy.local_folder.resolve()
    try:
        target = Path(path).resolve()
    except (OSError, RuntimeError) as error:  # a loop of links
        raise FetchError("refused", "expected a file below the configured folder") from error
    if not target.is_relative_to(folder):
        raise FetchError(
            "refused", f"expected a file below the configured folder; got {path[:200]!r}"
        )
    try:
        # Not blocking: a named pipe would wait for a writer. And no link, put there since.
        handle = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise FetchError(
            "bad_url", f"expected a readable file; got {path[:200]!r}: {error.strerror}"
        ) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FetchError("bad_url", f"expected a plain file; got {path[:200]!r}")
    with os.fdopen(handle, "rb") as file:
        data = file.read(policy.max_bytes + 1)
    if len(data) > policy.max_bytes:
        raise MediaError(
            "too_large", f"expected at most {policy.max_bytes} bytes; got a larger file"
        )
    return data
