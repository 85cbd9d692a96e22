"""Where the server is and how it is asked: base address, key, and plain HTTP requests."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, NoReturn
from urllib.parse import urlencode, urlsplit, urlunsplit

from lookhear.errors import (
    AddressError,
    AuthenticationError,
    ConnectionFailed,
    ProtocolError,
    ServerError,
    in_words,
    server_error,
)

SERVER_VARIABLE, KEY_VARIABLE = "LOOKHEAR_SERVER", "LOOKHEAR_API_KEY"
DEFAULT_URL = "http://127.0.0.1:8000"

Upload = tuple[bytes, str]
"""The body of a request, and its content type."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server is, and plain HTTP requests to it.

    base_url: http(s) or ws(s) address, with or without the `/v1` at its end.

    Raises AddressError, or AuthenticationError for a key that no header can hold.
    """

    base_url: str = DEFAULT_URL
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.base_url)
            usable = parts.scheme in ("http", "https", "ws", "wss") and bool(parts.hostname)
            usable = usable and parts.port != 0  # reading it checks it
            (parts.hostname or "").encode("idna")
            usable = usable and parts.path.isascii() and " " not in self.base_url
        except ValueError:
            usable = False
        if not usable:
            raise AddressError(
                f"server address: expected http(s)://HOST[:PORT], got {self.base_url!r}"
            )
        key = self.api_key or ""
        if not key.isascii() or not key.isprintable() or " " in key:
            raise AuthenticationError(
                "API key: expected printable ASCII without spaces, got something else",
                "invalid_api_key",
            )

    @property
    def is_local(self) -> bool:
        """On this machine: no proxy on the way."""
        return urlsplit(self.base_url).hostname in ("127.0.0.1", "localhost", "::1")

    def _url(self, path: str, secure: str, plain: str, query: Mapping[str, str]) -> str:
        parts = urlsplit(self.base_url)
        scheme = secure if parts.scheme in ("https", "wss") else plain
        root = parts.path.rstrip("/").removesuffix("/v1")
        return urlunsplit((scheme, parts.netloc, root + path, urlencode(query), ""))

    def websocket_url(self, path: str, query: Mapping[str, str]) -> str:
        """The address of a WebSocket. path: below `/v1`, as `/realtime`."""
        return self._url("/v1" + path, "wss", "ws", query)

    def http_url(self, path: str) -> str:
        """The address of a resource. path: from the root, as `/v1/models` and `/ready`."""
        return self._url(path, "https", "http", {})

    def headers(self) -> dict[str, str]:
        """Those that every request carries: the API key, if there is one."""
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def opener(self, *handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
        """What urllib opens its requests with; it knows whether a proxy is on the way.
        ProtocolError where the server sends elsewhere."""
        direct = [urllib.request.ProxyHandler({})] if self.is_local else []
        return urllib.request.build_opener(_NoRedirects(), *handlers, *direct)

    def refusal(self, status: int, body: bytes) -> ServerError:
        """The typed exception for an HTTP answer that is not 2xx."""
        try:
            payload = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            payload = {}
        if not isinstance(payload, Mapping):
            payload = {"message": str(payload)}
        text = " ".join(body[:200].decode("utf-8", "replace").split())
        return server_error(payload, status=status, fallback=f"HTTP {status}: {text}")

    def request(
        self, path: str, upload: Upload | None = None, timeout: float | None = 30.0
    ) -> bytes:
        """GET, or POST if there is something to upload. Blocking. ServerError, ConnectionFailed."""
        status, data = self.exchange(path, upload, timeout)
        if status >= 300:
            raise self.refusal(status, data)
        return data

    def exchange(
        self, path: str, upload: Upload | None = None, timeout: float | None = 30.0
    ) -> tuple[int, bytes]:
        """As `request`, but any HTTP status is an answer. ConnectionFailed; ProtocolError where
        the server sends elsewhere."""
        body, content_type = upload or (None, None)
        headers = self.headers() | ({"Content-Type": content_type} if content_type else {})
        request = urllib.request.Request(self.http_url(path), data=body, headers=headers)
        try:
            try:
                answer = self.opener().open(request, timeout=timeout)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                return answer.status, answer.read()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ConnectionFailed(f"cannot reach {self.base_url}: {in_words(error)}") from error

    def get_json(self, path: str, timeout: float | None = 30.0) -> Any:
        """ServerError, ConnectionFailed; ProtocolError if the answer is not JSON."""
        return self.parsed(path, self.request(path, timeout=timeout))

    def parsed(self, path: str, data: bytes) -> Any:
        """What was answered there, as JSON. ProtocolError if it is none."""
        try:
            return json.loads(data)
        except ValueError:
            said = data[:80].decode("utf-8", "replace").strip()
            raise ProtocolError(
                f"{self.http_url(path)}: expected JSON, got {said!r}; is this the right server?"
            ) from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The key is for the server that was named, and what was uploaded would not be sent again."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> NoReturn:
        """ProtocolError."""
        fp.close()
        said = f"{req.full_url}: expected an answer, got a redirect to {newurl}"
        raise ProtocolError(f"{said}; is that the server?")


def usual_server() -> str | None:
    """The address that the environment names for whoever names none; None: it names none."""
    return os.environ.get(SERVER_VARIABLE) or None


def urlencoded(fields: Iterable[tuple[str, str]]) -> Upload:
    """A form without a file, and its content type."""
    return urlencode(list(fields)).encode(), "application/x-www-form-urlencoded"


def multipart(fields: Iterable[tuple[str, str]], file_name: str, file: bytes) -> Upload:
    """A multipart/form-data body and its content type; the `file` part comes last."""
    boundary = secrets.token_hex(16)
    safe = file_name.replace('"', "%22").replace("\r", "").replace("\n", "")
    parts = [(f'name="{name}"', value.encode(errors="replace")) for name, value in fields]
    file_head = f'name="file"; filename="{safe}"\r\nContent-Type: application/octet-stream'
    pieces = []
    for head, value in (*parts, (file_head, file)):
        start = f"--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n"
        # A file's name need not be UTF-8.
        pieces += [start.encode(errors="surrogateescape"), value, b"\r\n"]
    body = b"".join([*pieces, f"--{boundary}--\r\n".encode()])
    return body, f"multipart/form-data; boundary={boundary}"
