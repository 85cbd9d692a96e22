"""URLs of media, taken apart strictly: what two parsers could read in two ways is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, unquote, urlsplit

from lookhear.media.base import FetchError, MediaError
from lookhear.media.fetching.addresses import parse_address

__all__ = ["HttpUrl", "file_path", "parse_data_url", "parse_http_url", "scheme_of"]

MAX_URL = 8192  # characters
MAX_DATA_HEADER = 512
PORTS = {"http": 80, "https": 443}
LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
# What a resolver or a browser takes for (part of) an IPv4 address: 127.1, 0x7f000001, 0177.0.0.1.
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
BRACKETS = re.compile(r"\[[^\[\]]*\](:[0-9]*)?")
SAFE_IN_PATH = "%/:=&?~+!$,;'@()*[]-._|"


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """host: lower case, ASCII, without brackets or a final dot; path: with the query."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """As in a Host header: without the usual port."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == PORTS[self.scheme] else f"{name}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def scheme_of(url: str) -> str:
    """In lower case; "" if there is none."""
    scheme, colon, _ = url[:16].partition(":")
    return scheme.lower() if colon else ""


def parse_http_url(url: str) -> HttpUrl:
    """Raises FetchError ("bad_url")."""
    check_text(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise bad(url, f"a valid URL ({error})") from error
    scheme = parts.scheme
    if scheme not in ("http", "https"):
        raise bad(url, "an http or https URL")
    if "@" in parts.netloc:
        # http://example.org@127.0.0.1/ looks like example.org to people
        raise bad(url, "a URL without a user name or password")
    if port == 0:
        raise bad(url, "a port from 1 to 65535")
    bracketed = "[" in parts.netloc or "]" in parts.netloc
    if bracketed and not BRACKETS.fullmatch(parts.netloc):
        raise bad(url, "nothing but a port beside the brackets")
    host = checked_host(url, parts.hostname or "", bracketed=bracketed)
    path = quote(parts.path, safe=SAFE_IN_PATH) or "/"
    if parts.query:
        path += "?" + quote(parts.query, safe=SAFE_IN_PATH)
    return HttpUrl("https" if scheme == "https" else "http", host, port or PORTS[scheme], path)


def checked_host(url: str, host: str, *, bracketed: bool) -> str:
    if bracketed:
        address = parse_address(host)
        if address is None:
            raise bad(url, "an IPv6 address without a zone between the brackets")
        return str(address)
    if not host.isascii():
        try:
            # Also maps full-width digits and dots to the plain ones, as every resolver does.
            host = host.encode("idna").decode("ascii").lower()
        except UnicodeError as error:
            raise bad(url, "a valid host name") from error
    host = host.removesuffix(".")
    if parse_address(host) is not None:
        return host
    labels = host.split(".")
    if len(host) > 253 or not all(LABEL.fullmatch(label) for label in labels):
        raise bad(url, "a valid host name")
    if NUMBER.fullmatch(labels[-1]):
        raise bad(url, "a host name or an IPv4 address of four decimal numbers")
    return host


def check_text(url: str) -> None:
    if len(url) > MAX_URL:
        raise FetchError(
            "bad_url", f"expected a URL of at most {MAX_URL} characters; got {len(url)}"
        )
    # Parsers strip some of these and take a backslash for a slash or not.
    if any(char <= " " or char in "\\\x7f" for char in url):
        raise bad(url, "a URL without spaces, control characters and backslashes")


def parse_data_url(url: str, max_bytes: int) -> tuple[str, str]:
    """-> (media type with its parameters, base64 text). RFC 2397; only base64 is taken, in which
    signs may be written as `%2B`.

    Raises FetchError ("bad_url") and MediaError ("too_large"), before anything is decoded.
    """
    comma = url.find(",", 0, MAX_DATA_HEADER)
    header = url[len("data:") : comma]
    media_type, semicolon, encoding = header.rpartition(";")
    if comma < 0 or not semicolon or encoding.strip().lower() != "base64":
        raise bad(url, "a data URL like data:image/png;base64,...")
    size = (len(url) - comma - 1) * 3 // 4
    if size > max_bytes + 2:  # of padding
        raise MediaError("too_large", f"expected at most {max_bytes} bytes; got {size}")
    text = url[comma + 1 :]
    return media_type, unquote(text) if "%" in text else text


def file_path(url: str) -> str:
    """The absolute path of a file URL. Raises FetchError ("bad_url")."""
    check_text(url)
    parts = urlsplit(url)
    path = unquote(parts.path, errors="surrogateescape")
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        raise bad(url, "a file URL like file:///folder/name")
    if not path.startswith("/") or "\0" in path:
        raise bad(url, "a file URL with an absolute path")
    return path


def bad(url: str, expected: str) -> FetchError:
    shown = url if len(url) <= 100 else f"{url[:80]}... ({len(url)} characters)"
    return FetchError("bad_url", f"expected {expected}; got {shown!r}")
