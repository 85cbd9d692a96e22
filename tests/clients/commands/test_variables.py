"""A variable that is called as ours are, and that nothing reads, is told of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lookhear.commands import main as cli
from lookhear.commands.variables import KNOWN, unread
from lookhear.gateway.commands.arguments import serve_parser

ROOT = Path(__file__).parents[3]
NOTHING = "nothing reads the variable"


def told(**environ: str) -> list[str]:
    return list(unread(environ, serve_parser))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("LOOKHEAR_MAX_SESSION", "; is it LOOKHEAR_MAX_SESSIONS?"),
        ("LOOKHEAR_MODELS", "; is it LOOKHEAR_MODEL?"),
        ("LOOKHEAR_NO_STRICT_MODELS", "; is it LOOKHEAR_STRICT_MODELS?"),
        ("LOOKHEAR_API_KEYS", "; is it LOOKHEAR_API_KEY?"),
        ("LOOKHEAR_SERVR", "; is it LOOKHEAR_SERVER?"),
        ("LOOKHEAR_HTTP_PORT", "; it is no option of lookhear serve"),
        ("LOOKHEAR_HELP", "; it is no option of lookhear serve"),
    ],
)
def test_what_nothing_reads_is_told_with_what_is_like_it(name: str, meant: str) -> None:
    assert told(**{name: "sk-secret"}) == [f"{NOTHING} {name}{meant}"]


@pytest.mark.parametrize("name", ["MAX_SESSIONS", "CONFIG", "SERVER", "TRITON", "TURN_MODEL"])
def test_what_is_read_is_not(name: str) -> None:
    assert told(**{f"LOOKHEAR_{name}": "1"}, LOOKHEAR_MAX_SESSION="", LOOKS="1") == []


def test_what_kubernetes_says_of_services_is_not() -> None:
    for service in ("LOOKHEAR", "LOOKHEAR_GPU"):
        assert not told(**{
            f"{service}_SERVICE_HOST": "10.0.0.1", f"{service}_SERVICE_PORT": "80",
            f"{service}_SERVICE_PORT_HTTP": "80", f"{service}_PORT": "tcp://10.0.0.1:80",
            f"{service}_PORT_80_TCP": "tcp://10.0.0.1:80", f"{service}_PORT_80_TCP_PORT": "80",
            f"{service}_PORT_80_TCP_PROTO": "tcp", f"{service}_PORT_80_TCP_ADDR": "10.0.0.1",
        })  # fmt: skip


def test_without_the_server_only_what_is_like_a_known_one_is_told() -> None:
    environ = {"LOOKHEAR_MAX_SESSIONS": "1", "LOOKHEAR_SERVERS": "http://box"}
    said = [f"{NOTHING} LOOKHEAR_SERVERS; is it LOOKHEAR_SERVER?"]
    assert list(unread(environ, lambda: None)) == said


def test_every_variable_of_the_tree_is_known() -> None:
    """What tests and tools look up, too."""
    looked_up = re.compile(r"environ(?:\.get\(|\[)\"(LOOKHEAR_\w+)")
    folders = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    found = {name: "1" for text in texts for name in looked_up.findall(text)}
    assert set(KNOWN) & found.keys() >= {"LOOKHEAR_FUZZ", "LOOKHEAR_TRITON"}
    assert told(**found) == []


def test_every_command_tells(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOKHEAR_MAX_SESSION", "3")
    line = f"lookhear: {NOTHING} LOOKHEAR_MAX_SESSION; is it LOOKHEAR_MAX_SESSIONS?\n"
    for command in (["serve", "--print-config"], ["env"]):
        assert cli.main(command) == 0
        assert capsys.readouterr().err == line
