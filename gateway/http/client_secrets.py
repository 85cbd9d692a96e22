"""Client secrets: short-lived keys that carry the configuration of a session. Pure.

A secret is `ek_PAYLOAD.SIGNATURE`: JSON, packed, and its HMAC under a key that is derived from the
API key of whoever asked for it. So nothing is stored, every process with the same API keys takes
it, and it ends with its API key. It is signed, not hidden: who holds it can read what is in it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PREFIX = "ek_"
MAX_SECRET = 8192  # characters: it travels in a header
_PURPOSE = b"lookhear client secret 1"
_FORM = re.compile(r"ek_([A-Za-z0-9_-]{16,})\.([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class ClientSecret:
    """signer: which of the keys has signed it. expires_at: Unix seconds. session: of a
    `session.update`, as it was when the secret was made."""

    signer: int
    expires_at: int
    session: dict[str, Any]


def signing_key(api_key: bytes) -> bytes:
    """For secrets alone: it tells nothing of the API key."""
    return hmac.digest(api_key, _PURPOSE, hashlib.sha256)


def sign(key: bytes, session: dict[str, Any], expires_at: int, nonce: str) -> str:
    """nonce: makes it differ from all others."""
    text = json.dumps([expires_at, nonce, session], separators=(",", ":"), ensure_ascii=False)
    # JSON can say half of a character, which UTF-8 cannot; fields that are ignored may hold some.
    payload = _text(zlib.compress(text.encode(errors="surrogatepass"), 9))
    return f"{PREFIX}{payload}.{_text(_signature(key, payload))}"


def has_form(text: str) -> bool:
    """Whether it looks like a secret of some server like this one."""
    return _FORM.fullmatch(text) is not None


def read(text: str, keys: Sequence[bytes]) -> ClientSecret | None:
    """None: none of the keys has signed it. Every key is tried, each in constant time."""
    form = _FORM.fullmatch(text)
    if form is None:
        return None
    payload, signature = form.groups()
    try:
        given = _bytes(signature)
    except binascii.Error:
        return None
    same = [hmac.compare_digest(given, _signature(key, payload)) for key in keys]
    if not any(same):
        return None
    # It is ours, and so is what is packed in it.
    expires_at, _, session = json.loads(zlib.decompress(_bytes(payload)))
    return ClientSecret(same.index(True), expires_at, session)


def _signature(key: bytes, payload: str) -> bytes:
    return hmac.digest(key, payload.encode(), hashlib.sha256)


def _text(data: bytes) -> str:
    """What a subprotocol may be made of."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
