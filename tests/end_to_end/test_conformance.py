"""What `python -m tools.conformance` runs, without the suite itself: its echo, its translation, and
what it calls a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from tools.conformance import suite
from tools.conformance.__main__ import is_good, table

CASE = """# coding=utf-8
from case import Case
import binascii

class Case0(Case):
   PAYLOAD = "µ\\xce"
   NAME = binascii.b2a_hex(PAYLOAD)

   def onOpen(self):
      print "in the words of Python 2"
      return [unichr(i).encode("utf-8") for i in xrange(0xb5, 0xb6)]
"""


def test_the_echo_says_what_it_hears() -> None:
    command = [sys.executable, "-m", "tools.conformance.echo"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as echo:
        assert echo.stdin is not None and echo.stdout is not None
        port = int(echo.stdout.readline())
        with connect(f"ws://127.0.0.1:{port}", compression=None, proxy=None) as socket:
            for message in ("κόσμε", b"\xfe\xff", "", "x" * 200_000):
                socket.send(message)
                assert socket.recv() == message
            socket.send(["in ", "three ", "pieces"])
            assert socket.recv() == "in three pieces"
            assert socket.ping().wait(60)
        echo.stdin.close()
        assert echo.wait(60) == 0


def test_cases_are_translated_byte_for_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "source", tmp_path / "translated_cases"
    source.mkdir()
    (source / "__init__.py").write_text("from case0 import *\n")
    (source / "case.py").write_text("class Case:\n   pass\n")
    (source / "case0.py").write_text(CASE, encoding="utf-8")
    suite.translate(source, target)
    # Its validator is autobahn's, which is not installed here.
    latin = (target / "latin.py").read_text().replace("from autobahn.", "# ")
    (target / "latin.py").write_text(latin.replace("(_Validator)", ""))
    monkeypatch.syspath_prepend(str(tmp_path))
    cases = __import__("translated_cases")
    assert cases.Case0.PAYLOAD.encode("latin-1") == "µ".encode() + b"\xce"
    assert cases.Case0.NAME == "c2b5ce"
    assert cases.Case0().onOpen() == ["µ".encode().decode("latin-1")]


@pytest.mark.parametrize(
    ("behavior", "close", "good"),
    [
        ("OK", "OK", True),
        ("NON-STRICT", "OK", True),
        ("INFORMATIONAL", "INFORMATIONAL", True),
        ("OK", "FAILED BY CLIENT", False),
        ("FAILED", "OK", False),
        ("OK", "WRONG CODE", False),
        ("OK", "UNCLEAN", False),
    ],
)
def test_only_what_the_rfc_allows_is_good(behavior: str, close: str, good: bool) -> None:
    outcome: dict[str, Any] = {
        "case": "6.1.2", "behavior": behavior, "close": close, "seconds": 0.5
    }  # fmt: skip
    assert is_good(outcome) is good
    [section, *counts] = [next(iter(column.cells)) for column in table([outcome]).columns]
    assert section == "6.*" and counts[0] == "1" and counts[4] == ("0" if good else "1")
