"""`lookhear wyoming`: what it says where it cannot begin."""

from __future__ import annotations

import sys

import pytest

from lookhear.commands import main as cli
from tests.clients.counting_server import CountingServer
from tests.clients.threads import on_thread


def test_what_is_missing_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("lookhear.wyoming")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "wyoming", None)
    for name in [name for name in sys.modules if name.startswith("wyoming.")]:
        monkeypatch.setitem(sys.modules, name, None)
    assert cli.main(["wyoming", "--server", "http://127.0.0.1:1"]) == 2
    said = capsys.readouterr().err
    assert 'pip install "lookhear[wyoming]"' in said and "Traceback" not in said


def test_a_place_that_is_none_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """And before any server is asked, or one started."""
    pytest.importorskip("wyoming")
    assert cli.main(["wyoming", "--server", "http://127.0.0.1:1", "--uri", "stdio://"]) == 2
    assert "--uri: expected tcp://HOST[:PORT]" in capsys.readouterr().err


def test_a_key_that_the_server_does_not_take_is_said_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Not when the first command is spoken."""
    pytest.importorskip("wyoming")
    counting = CountingServer(api_key="k")
    with on_thread(counting.running()):
        uri = ["--uri", "tcp://203.0.113.1:1"]  # not this machine's: told when it begins
        assert cli.main(["wyoming", "--server", counting.url, "--api-key", "b", *uri]) == 1
    assert "Incorrect API key" in capsys.readouterr().err
