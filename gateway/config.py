"""One frozen configuration of the gateway process, validated once at the edge."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lookhear.engine.config import ConfigError
from lookhear.media.fetching.addresses import Network


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """What the gateway is told at start. Raises ConfigError for what cannot be used.

    Sizes are bytes, times seconds. allow_origins: browser origins besides our own ("*": any).
    allow_hosts: names the server is known by besides the loopback ones, for keyless servers.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_keys: tuple[str, ...] = ()
    allow_unauthenticated: bool = False
    allow_origins: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    max_sessions: int = 64
    max_session_seconds: float = 0.0  # 0: no limit
    max_turn_seconds: float = 3600.0  # audio between two commits
    max_pending_turns: int = 4  # committed, not transcribed yet; beyond it a session is not read
    max_items: int = 1000  # of a session that can still be retrieved
    max_message_bytes: int = 32 * 1024 * 1024  # of one WebSocket message
    max_inbox_bytes: int = 32 * 1024 * 1024  # received and not worked on; beyond it: not read
    max_outbox_bytes: int = 4 * 1024 * 1024  # waiting for a slow reader; beyond it: closed
    max_upload_bytes: int = 100 * 1024 * 1024  # of one HTTP request body
    media_threads: int = 2
    allow_networks: tuple[Network, ...] = ()  # special ones that media may be fetched from
    media_folder: Path | None = None  # file: URLs may name what is below it
    fetch_timeout_seconds: float = 10.0  # of one URL, redirects included
    max_media_bytes: int = 32 * 1024 * 1024  # of one image, video or recording
    max_image_pixels: int = 50_000_000  # of one image, and of one frame of a video
    max_request_pixels: int = 80_000_000  # of all pictures of one question
    max_pictures: int = 256  # of one question, frames of videos among them
    max_video_frames: int = 128
    video_fps: float = 2.0  # frames looked at per second, if they are not too many
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None

    def __post_init__(self) -> None:
        _require(0 <= self.port <= 65535, "port", self.port, "0 to 65535")
        _require(bool(self.host), "host", self.host, "an address or name to listen on")
        for key in self.api_keys:
            usable = bool(key) and key.isascii() and key.isprintable() and " " not in key
            _require(usable, "api-key", "(not shown)", "printable ASCII without spaces")
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
            ("media_threads", 1),
            ("fetch_timeout_seconds", 0.001),
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
        for option, path in (
            ("ssl-certfile", self.ssl_certfile),
            ("ssl-keyfile", self.ssl_keyfile),
        ):
            _require(path is None or path.is_file(), option, str(path), "a readable file")
        folder = self.media_folder
        _require(folder is None or folder.is_dir(), "media-folder", str(folder), "a folder")
        _require(self.video_fps <= 1000, "video-fps", self.video_fps, "at most 1000")
        _require(
            (self.ssl_certfile is None) == (self.ssl_keyfile is None),
            "ssl-certfile and ssl-keyfile",
            "one of them",
            "both or none",
        )
        _require(
            bool(self.api_keys) or self.allow_unauthenticated or self.loopback,
            "host",
            self.host,
            "a loopback address, or an API key (--api-key or LOOKHEAR_API_KEY), or "
            "--allow-unauthenticated: without a key anyone who reaches the address may use it",
        )

    @property
    def loopback(self) -> bool:
        """Only this machine can connect."""
        return is_loopback(self.host)

    @property
    def checks_host(self) -> bool:
        """A keyless loopback server trusts whoever reaches it, so a web page that rebinds its
        DNS name to 127.0.0.1 must not: it is told apart by its Host header."""
        return self.loopback and not self.api_keys


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
