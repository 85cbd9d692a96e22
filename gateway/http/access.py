"""Who may come in: API keys, browser origins and Host headers. Pure; no sockets."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from bisect import insort
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from lookhear.gateway.config import GatewayConfig, is_loopback
from lookhear.gateway.errors import GatewayError
from lookhear.gateway.http.client_secrets import MAX_SECRET, has_form, read, sign, signing_key
from lookhear.gateway.sockets.connections import network

# Subprotocols of which a client that offers one must see it echoed, or it hangs up. What holds a
# key is never echoed.
ECHOED = ("realtime", "token", "bearer")
# Browsers cannot set headers: the key comes as a protocol.
KEY_PROTOCOL = "openai-insecure-api-key."
KEY_SCHEMES = ("token", "bearer")  # also as a protocol, with the key as the one behind it
INCORRECT_KEY = "Incorrect API key provided"  # as OpenAI says it: frameworks know it by that
EXPECTED_KEY = (
    "expected an API key of this server (Authorization: Bearer KEY or Token KEY, X-Api-Key: KEY, "
    f"or subprotocol {KEY_PROTOCOL}KEY)"
)
LEAVING_RETRY_AFTER = 5  # seconds: then a load balancer knows, or the next server may be up
MAX_SECRETS = 10_000  # of one process, not expired
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Denied(GatewayError):
    """A request that may not come in, with what its answer says. status: HTTP status. retry_after:
    seconds after which it may, None if never."""

    def __init__(
        self, status: int, code: str, message: str, retry_after: int | None = None
    ) -> None:
        by_status = "server_error" if status >= 500 else "invalid_request_error"
        super().__init__(message, type=by_status)
        self.status = status
        self.code = code
        self.retry_after = retry_after


def leaving() -> Denied:
    """The server ends: nothing new is begun."""
    message = (
        "the server is shutting down and takes nothing new; connect again in "
        f"{LEAVING_RETRY_AFTER} s, to whichever takes its place"
    )
    return Denied(503, "going_away", message, LEAVING_RETRY_AFTER)


class Access:
    """The rules of one gateway. Each check raises Denied. signer: signs client secrets where there
    are no keys; None: nobody else takes them. keys: to begin with; None: those of config."""

    def __init__(
        self,
        config: GatewayConfig,
        signer: bytes | None = None,
        keys: Sequence[str] | None = None,
    ) -> None:
        self._own_signer = signer or secrets.token_bytes(32)
        self._secrets: deque[float] = deque()  # when the newest ones expire
        self.set_keys(config.read_keys() if keys is None else keys)
        self._origins = {origin.lower() for origin in config.allow_origins}
        self._checks_host = config.checks_host
        named = [urlsplit(o).hostname or "" for o in config.allow_origins]
        self._hosts = {h.lower() for h in (*config.allow_hosts, *named, config.host)}

    def set_keys(self, keys: Sequence[str]) -> None:
        """Those that count from now on; who is inside stays. None: nobody needs one."""
        self._keys = [key.encode() for key in keys]
        # Without keys nobody must keep a secret out; it still says what its session is.
        self._signers = [signing_key(key) for key in self._keys] or [self._own_signer]
        # Not their places in the list: those change as keys come and go.
        self._names = [f"key {self._digest(key, 8)}" for key in self._keys]

    def check_place(self, headers: Headers) -> None:
        """The Host header of a keyless local server, and the origin of a web page."""
        host = headers.get("host", "")
        name = _host_name(host)
        if self._checks_host and not (is_loopback(name) or name.lower() in self._hosts):
            expected = "localhost, 127.0.0.1 or [::1] (or a name given with --allow-host)"
            raise Denied(403, "host_not_allowed", f"Host: expected {expected}, got {host!r}")
        origin = headers.get("origin")
        if origin is None or "*" in self._origins or origin.lower() in self._origins:
            return
        if not _same_origin(origin, host):
            ours = f"this server's own pages (Host is {host!r})"
            expected = f"{ours} or an origin given with --allow-origin"
            raise Denied(403, "origin_not_allowed", f"Origin: expected {expected}, got {origin!r}")

    def check_key(self, headers: Headers, subprotocols: Sequence[str] = ()) -> None:
        """The API key, in the Authorization header or among the offered subprotocols."""
        key = _key(headers, subprotocols)
        if key is not None and self._is_secret(key) and self._known(key) is not None:
            what = f"{EXPECTED_KEY}, got a client secret, which opens realtime sessions and no more"
            raise Denied(401, "client_secret_not_allowed", what)
        if not self._keys:
            return
        if key is None:
            raise Denied(401, "invalid_api_key", f"{EXPECTED_KEY}, got none")
        if self._known(key) is None:
            message = f"{INCORRECT_KEY}: {EXPECTED_KEY}, got an unknown one"
            raise Denied(401, "invalid_api_key", message)

    def secret_session(
        self, headers: Headers, subprotocols: Sequence[str], now: float
    ) -> dict[str, Any] | None:
        """The session for which the client has presented a secret; None: it has none, and what it
        has is for `check_key`. now: Unix seconds."""
        key = _key(headers, subprotocols)
        if key is None or not self._is_secret(key):
            return None
        secret = read(key, self._signers)
        if secret is None:
            message = "expected a client secret of this server, got one that none of its keys made"
            raise Denied(401, "invalid_client_secret", message)
        if now >= secret.expires_at:
            message = "expected a client secret that is valid, got one that has expired"
            raise Denied(401, "client_secret_expired", message)
        return secret.session

    def make_secret(
        self, headers: Headers, session: dict[str, Any], now: float, seconds: int
    ) -> tuple[str, int]:
        """-> (a secret for such a session, when it expires), both in Unix seconds. It is signed by
        the key that the client has presented, and counts as its."""
        while self._secrets and self._secrets[0] <= now:
            self._secrets.popleft()
        if len(self._secrets) >= MAX_SECRETS:
            message = f"expected at most {MAX_SECRETS} client secrets that are valid, got one more"
            raise Denied(429, "too_many_client_secrets", message, LEAVING_RETRY_AFTER)
        key = _key(headers, ())
        signer = (None if key is None else self._known(key)) or 0
        expires_at = int(now) + seconds
        secret = sign(self._signers[signer], session, expires_at, secrets.token_urlsafe(9))
        if len(secret) > MAX_SECRET:
            expected = f"a configuration that fits into a key of {MAX_SECRET} characters"
            message = f"session: expected {expected}, got one of {len(secret)}"
            raise Denied(400, "session_too_large", message)
        insort(self._secrets, expires_at)
        return secret, expires_at

    def key_name(self, headers: Headers, subprotocols: Sequence[str] = ()) -> str | None:
        """Who asks, by the key that it has presented: the same for the same key, whichever keys
        there are beside it. None: there are no keys, or it has none of them."""
        key = _key(headers, subprotocols)
        known = None if key is None or not self._keys else self._known(key)
        return None if known is None else self._names[known]

    def owner(self, headers: Headers) -> str:
        """Whose is what the client leaves here: the same for the same key, whichever keys there are
        beside it. "": nobody needs a key, so all share it."""
        key = _key(headers, ())
        if key is None or not self._keys:
            return ""
        return self._digest(key.encode(), 16)

    def _digest(self, key: bytes, size: int) -> str:
        """A name of it that says nothing of it; the same in all workers. size: bytes."""
        return hashlib.blake2b(key, key=self._own_signer, digest_size=size).hexdigest()

    def _is_secret(self, key: str) -> bool:
        return has_form(key) and key.encode() not in self._keys

    def _known(self, key: str) -> int | None:
        """Which of ours it is, or has signed it if it is a client secret. Every key is compared,
        each in constant time, so that timing tells nothing."""
        given = key.encode()
        same = [hmac.compare_digest(given, known) for known in self._keys]
        if any(same):
            return same.index(True)
        secret = read(key, self._signers)
        return None if secret is None else secret.signer

    def client(self, headers: Headers, address: str, subprotocols: Sequence[str] = ()) -> str:
        """Who asks, as far as shares of what is scarce go: the address (of IPv6 the network, for
        that is what one client has) and, where keys are checked, the name of the key."""
        key = self.key_name(headers, subprotocols)
        return network(address) if key is None else f"{network(address)} {key}"


def echoed(subprotocols: Sequence[str]) -> str | None:
    """Of those that a client offers the one that it is told was chosen."""
    return next((name for name in ECHOED if name in subprotocols), None)


def _host_name(host: str) -> str:
    """The name in a Host header, without the port; "" if it is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _key(headers: Headers, subprotocols: Sequence[str]) -> str | None:
    offered = [p.removeprefix(KEY_PROTOCOL) for p in subprotocols if p.startswith(KEY_PROTOCOL)]
    offered += [key for scheme, key in pairwise(subprotocols) if scheme in KEY_SCHEMES]
    own = headers.get("x-api-key", "").strip() or None
    return next((key for key in (_bearer(headers), own, *offered) if key is not None), None)


def _bearer(headers: Headers) -> str | None:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() in KEY_SCHEMES and key.strip() else None


def _same_origin(origin: str, host: str) -> bool:
    """Same name and port. The scheme may differ: TLS may end at a proxy before us, and a Host
    without a port then means 80 or 443."""
    try:
        page, ours = urlsplit(origin), urlsplit(f"//{host}")
        page_port = page.port or _DEFAULT_PORTS.get(page.scheme)
        our_ports = {ours.port} if ours.port else set(_DEFAULT_PORTS.values())
    except ValueError:
        return False
    if page.scheme not in ("http", "https") or page.hostname is None:
        return False
    return page.hostname == ours.hostname and page_port in our_ports
