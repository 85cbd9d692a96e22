"""`lookhear wyoming` before a server, for the wire that needs it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

from lookhear.bench.generator import realtime_url
from lookhear.errors import ConnectionFailed
from lookhear.transport.address import KEY_VARIABLE


@contextlib.contextmanager
def live_address(server: str, wire: str, key: str | None = None) -> Iterator[str]:
    """Where a server as people name it is spoken to on this wire; key: its. AddressError,
    ConnectionFailed."""
    if wire != "wyoming":
        yield realtime_url(server, wire)
        return
    with bridge(server, key) as address:
        yield address


@contextlib.contextmanager
def bridge(server: str, key: str | None) -> Iterator[str]:
    """A child that ends with us; its address. ConnectionFailed."""
    command = [sys.executable, "-m", "lookhear", "wyoming", "--uri", "tcp://127.0.0.1:0"]
    command += ["--server", server]
    environment = os.environ if key is None else {**os.environ, KEY_VARIABLE: key}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line)
            if found := re.match(r"(tcp://\S+): ", line):
                break
        else:
            raise ConnectionFailed(f"the bridge did not start: {''.join(said).strip()}")
        try:
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
