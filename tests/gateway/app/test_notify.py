"""What systemd hears of our life."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lookhear.gateway.app.notify import READY, STOPPING, notify


@pytest.mark.parametrize("is_abstract", [False, True])
def test_the_supervisor_is_told(is_abstract: bool, tmp_path: Path) -> None:
    path = f"@lookhear-test-{tmp_path.name}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind("\0" + path[1:] if is_abstract else path)
        for state in (READY, STOPPING):
            assert notify(state, {"NOTIFY_SOCKET": path})
            assert supervisor.recv(100).decode() == state


@pytest.mark.parametrize(
    "environ", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/nowhere/at/all"}], ids=str
)
def test_without_one_nothing_is_said(environ: dict[str, str]) -> None:
    assert not notify(READY, environ)
