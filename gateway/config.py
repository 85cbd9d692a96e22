"""One frozen configuration of the gateway process, validated once at the edge."""

from __future__ import annotations

import ipaddress
import math
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lookhear.engine.config import ConfigError
from lookhear.media.fetching.addresses import Network

KEY_FORM = "printable ASCII without spaces"


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """What the gateway is told at start. Raises ConfigError for what cannot be used.

    Sizes are bytes, times seconds. allow_origins: browser origins besides our own ("*": any).
    allow_hosts: names the server is known by besides the loopback ones, for keyless servers.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_keys: tuple[str, ...] = ()
    api_key_file: Path | None = None  # more of them, one per line; read again on SIGHUP
    allow_unauthenticated: bool = False
    allow_origins: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()  # other names of models: (name, the model's own)
    strict_models: bool = False  # names that no model has are refused
    max_sessions: int = 64
    max_session_seconds: float = 0.0  # 0: no limit
    max_turn_seconds: float = 3600.0  # audio between two commits
    max_pending_turns: int = 4  # committed, not transcribed yet; beyond it a session is not read
    max_items: int = 1000  # of a session that can still be retrieved
    max_message_bytes: int = 32 * 1024 * 1024  # of one WebSocket message
    max_inbox_bytes: int = 32 * 1024 * 1024  # received and not worked on; beyond it: not read
    max_outbox_bytes: int = 4 * 1024 * 1024  # waiting for a slow reader; beyond it: closed
    # Of one HTTP request body, and of a recording that is fetched to be transcribed: an hour at
    # 16 kHz, not compressed, is 110 MiB.
    max_upload_bytes: int = 128 * 1024 * 1024
    drain_seconds: float = 20.0  # for what is under way when server or session is to end; 0: none
    max_json_bytes: int = 4 * 1024 * 1024  # of one request or message, but for long strings in it
    max_bodies_bytes: int = 512 * 1024 * 1024  # of all HTTP requests, received and not done with
    max_unfinished_bytes: int = 256 * 1024 * 1024  # of WebSocket messages that have only begun
    max_connections: int = 4096  # open sockets; fewer where the process may not open so many files
    max_client_connections: int = 1024  # of one address; at most half of all
    max_client_sessions: int = (
        0  # realtime sessions of one key, or without keys one address; 0: all
    )
    head_seconds: float = 10.0  # for the head of an HTTP request
    body_seconds: float = 30.0  # without a byte of a body
    first_message_seconds: float = 60.0  # for a session's first message; 0: no limit
    idle_seconds: float = 900.0  # of a session in which nothing is said by anybody; 0: no limit
    # That a session whose socket was cut waits for its client; 0: it ends. Long enough for a phone
    # to change its network, and the client has tried five times by then.
    resume_seconds: float = 30.0
    media_workers: int = 3  # processes that decode files, pictures and videos
    media_memory_bytes: int = 1024 * 1024 * 1024  # of each of them
    media_seconds: float = 120.0  # of processor time, for one file
    allow_networks: tuple[Network, ...] = ()  # special ones that media may be fetched from
    media_folder: Path | None = None  # file: URLs may name what is below it
    adapter_folder: Path | None = None  # what is below it may be loaded as an adapter
    fetch_timeout_seconds: float = 10.0  # of one URL, redirects included; recordings have more
    fetch_wait_seconds: float = 30.0  # until it is fetched, while others are
    max_media_bytes: int = 32 * 1024 * 1024  # of one image, video or recording in a question
    max_image_pixels: int = 50_000_000  # of one image, and of one frame of a video
    max_request_pixels: int = 80_000_000  # of all pictures of one question
    max_pictures: int = 256  # of one question, frames of videos among them
    max_video_frames: int = 128
    video_fps: float = 2.0  # frames looked at per second, if they are not too many
    trusted_proxies: tuple[Network, ...] = ()  # what they say of their clients' addresses is true
    turn_model: str = "off"  # that hears whether a turn is over: auto, off or a file
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None
    workers: int = 1  # processes that share the port, and the limits on what is held in all
    otlp_endpoint: str = ""  # base URL of a collector; empty: what OTEL_* say

    def __post_init__(self) -> None:
        _require(0 <= self.port <= 65535, "port", self.port, "0 to 65535")
        _require(bool(self.host), "host", self.host, "an address or name to listen on")
        for key in self.api_keys:
            _require(is_usable(key), "api-key", "(not shown)", KEY_FORM)
        self.read_keys()
        for origin in self.allow_origins:
            _require(_is_origin(origin), "allow-origin", origin, 'like "https://example.org" or *')
        for name, low in (
            ("max_sessions", 1),
            ("max_session_seconds", 0),
            ("max_turn_seconds", 1),
            ("max_pending_turns", 1),
            ("max_items", 1),
            ("max_message_bytes", 1024),
            ("max_inbox_bytes", 1024),
            ("max_outbox_bytes", 1024),
            ("max_upload_bytes", 1024),
            ("drain_seconds", 0),
            ("max_json_bytes", 1024),
            ("max_bodies_bytes", 1024),
            ("max_unfinished_bytes", 1024),
            ("max_connections", 2),
            ("max_client_connections", 1),
            ("max_client_sessions", 0),
            ("head_seconds", 0.001),
            ("body_seconds", 0.001),
            ("first_message_seconds", 0),
            ("idle_seconds", 0),
            ("resume_seconds", 0),
            ("media_workers", 1),
            ("media_memory_bytes", 256 * 1024 * 1024),  # 60 MB before there is any file
            ("media_seconds", 1),
            ("fetch_timeout_seconds", 0.001),
            ("fetch_wait_seconds", 0.001),
            ("max_media_bytes", 1024),
            ("max_image_pixels", 1),
            ("max_request_pixels", 2),
            ("max_pictures", 1),
            ("max_video_frames", 1),
            ("video_fps", 0.001),
        ):
            value = getattr(self, name)
            option = name.replace("_", "-")
            _require(value >= low, option, value, f"at least {low}")
            _require(math.isfinite(value), option, value, "a finite number")
        for name, most in (
            ("max_turn_seconds", 86_400),
            ("media_memory_bytes", 2**40),
            ("media_seconds", 86_400),  # the system counts neither without end
            ("video_fps", 1000),
        ):
            value = getattr(self, name)
            _require(value <= most, name.replace("_", "-"), value, f"at most {most}")
        for option, path in (
            ("ssl-certfile", self.ssl_certfile),
            ("ssl-keyfile", self.ssl_keyfile),
        ):
            _require(path is None or os.path.isfile(path), option, str(path), "a readable file")
        _require(1 <= self.workers <= 64, "workers", self.workers, "1 to 64")
        can_share = self.workers == 1 or hasattr(socket, "SOCK_SEQPACKET")
        _require(can_share, "workers", self.workers, "1 on this system")
        model = self.turn_model
        is_known = model in ("auto", "off") or os.path.isfile(model)
        _require(is_known, "turn-model", model, "auto, off or a readable file")
        for option, path in (
            ("media-folder", self.media_folder),
            ("adapters", self.adapter_folder),
        ):
            _require(path is None or os.path.isdir(path), option, str(path), "a folder")
        _require(
            (self.ssl_certfile is None) == (self.ssl_keyfile is None),
            "ssl-certfile and ssl-keyfile",
            "one of them",
            "both or none",
        )
        _require(
            self.has_keys or self.allow_unauthenticated or self.loopback,
            "host",
            self.host,
            "a loopback address, or an API key (--api-key-file, --api-key or LOOKHEAR_API_KEY), or "
            "--allow-unauthenticated: without a key anyone who reaches the address may use it",
        )

    @property
    def loopback(self) -> bool:
        """Only this machine can connect."""
        return is_loopback(self.host)

    @property
    def has_keys(self) -> bool:
        """Whether a client needs one."""
        return bool(self.api_keys) or self.api_key_file is not None

    def read_keys(self) -> tuple[str, ...]:
        """All of now: those given, and those in the file, which has at least one; its empty lines
        and those that begin with `#` are none, nor is the mark before them of some editors. Raises
        ConfigError."""
        if self.api_key_file is None:
            return self.api_keys
        try:
            lines = self.api_key_file.read_text("utf-8-sig").splitlines()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8"
            raise ConfigError(
                f"api-key-file: expected a readable file, got {str(self.api_key_file)!r} ({reason})"
            ) from None
        keys = [line for line in map(str.strip, lines) if line and not line.startswith("#")]
        _require(bool(keys), "api-key-file", str(self.api_key_file), "at least one key, one a line")
        for key in keys:
            _require(is_usable(key), "api-key-file", "(not shown)", KEY_FORM)
        return (*self.api_keys, *keys)

    @property
    def checks_host(self) -> bool:
        """A keyless loopback server trusts whoever reaches it, so a web page that rebinds its
        DNS name to 127.0.0.1 must not: it is told apart by its Host header."""
        return self.loopback and not self.has_keys


def folder(text: str) -> Path:
    """Its path. Nothing is none: it would be the one that the server was started in. Raises
    ValueError."""
    if not text:
        raise ValueError
    return Path(text)


def is_usable(key: str) -> bool:
    """Whether a client can send it in a header."""
    return bool(key) and key.isascii() and key.isprintable() and " " not in key


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_origin(origin: str) -> bool:
    if origin == "*":
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:  # brackets that hold no address
        return False
    return bool(parts.scheme and parts.netloc and origin == f"{parts.scheme}://{parts.netloc}")


def _require(ok: bool, field: str, value: object, expected: str) -> None:
    if not ok:
        raise ConfigError(f"{field}: expected {expected}, got {value!r}")
