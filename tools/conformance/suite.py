"""The cases of the Autobahn test suite, from PyPI, for this Python.

They are written for Python 2, where a text is bytes. Read as Latin-1 each character of a literal
is the byte that was meant, so they stay as they are; whoever talks to them translates.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SUITE = "autobahntestsuite==25.10.1"
PACKAGES = ("autobahn", "twisted")
LATIN = '''"""What the cases import, for texts that are bytes."""

import binascii

from autobahn.websocket.utf8validator import Utf8Validator as _Validator


def b2a_hex(text):
    return binascii.b2a_hex(text.encode("latin-1")).decode()


class Utf8Validator(_Validator):
    def validate(self, text):
        return super().validate(text.encode("latin-1"))
'''
CHANGES = (
    (r"coding=utf-8", "-"),
    (r"^( *)print .*$", r"\1pass"),
    (r"^from case", "from .case"),
    (r"^import binascii", "from . import latin as binascii"),
    (r"^from autobahn\.websocket\.utf8validator import", "from .latin import"),
    (r"\bxrange\(", "range("),
    (r"\bunichr\((\w)\)\.encode\(\"utf-8\"\)", r'chr(\1).encode("utf-8").decode("latin-1")'),
    (r" / self\.p\.autoFragmentSize", " // self.p.autoFragmentSize"),
    (r"\(object, Case, \)", "(Case,)"),
    (r"^.*(case9_9_1|case12_x_x|Case1[23]_X_X).*$", ""),
)


def fetch(folder: Path) -> None:
    """Everything that `tools/conformance/fuzzer.py` imports, below that folder. Raises
    CalledProcessError."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    subprocess.run([*pip, *PACKAGES], check=True)
    subprocess.run([*pip, "--no-deps", "--no-compile", SUITE], check=True)
    translate(folder / "autobahntestsuite" / "case", folder / "case")


def translate(source: Path, target: Path) -> None:
    """The cases of one folder into another."""
    target.mkdir(exist_ok=True)
    (target / "latin.py").write_text(LATIN)
    for path in source.glob("*.py"):
        if path.name == "case12_x_x.py":
            continue
        text = path.read_text(encoding="latin-1")
        for pattern, replacement in CHANGES:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        (target / path.name).write_text(text, encoding="utf-8")
