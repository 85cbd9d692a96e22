"""What systemd is told of our life (sd_notify(3)), where it started us with `Type=notify`."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

READY, STOPPING, RELOADING = "READY=1", "STOPPING=1", "RELOADING=1"


def notify(state: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Says it to the supervisor. Returns whether there is one that took it: where it is gone, the
    server goes on without."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    name = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.sendto(state.encode(), name)
    except OSError:
        return False
    return True
