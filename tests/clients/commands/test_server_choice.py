"""LOOKHEAR_SERVER is the server of whoever names none: of every command, and of the library."""

from __future__ import annotations

import argparse

import pytest

from lookhear.bench.subject import add_server_arguments as bench_arguments
from lookhear.blocking import Client
from lookhear.client import AsyncClient
from lookhear.commands import models
from lookhear.commands.private_server import ServerProcess
from lookhear.commands.server_choice import add_server_arguments

NAMED = "http://named.example:1"


def parsers() -> list[argparse.ArgumentParser]:
    """Of all that takes --server, as the environment is now."""
    client, bench = argparse.ArgumentParser(), argparse.ArgumentParser()
    add_server_arguments(client)
    bench_arguments(bench)
    return [client, bench, models.parser()]


@pytest.mark.parametrize(("value", "server"), [(NAMED, NAMED), ("", None), (None, None)])
def test_the_environment_names_the_server(
    value: str | None, server: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOOKHEAR_SERVER", raising=False)
    if value is not None:
        monkeypatch.setenv("LOOKHEAR_SERVER", value)
    for parser in parsers():
        assert parser.parse_args([]).server == server
        assert parser.parse_args(["--server", "http://b"]).server == "http://b"
    usual = server or "http://127.0.0.1:8000"
    assert AsyncClient().server.base_url == usual
    assert AsyncClient("http://b").server.base_url == "http://b"
    with Client() as client:
        assert client._twin.server.base_url == usual


def test_a_private_server_is_not_configured_as_one_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strange = {
        "CONFIG": "/nowhere.yaml",
        "SSL_CERTFILE": "/nowhere.pem",
        "API_KEY": "[one,two]",
        "API_KEY_FILE": "/nowhere",
        "ALIAS": "ear=another-model",
        "ENCODERS": "another-model=1",
        "MAX_REPLICAS": "2",
    }
    for name, value in strange.items():
        monkeypatch.setenv(f"LOOKHEAR_{name}", value)
    monkeypatch.setenv("LOOKHEAR_DEVICE", "cuda")
    server = ServerProcess(1)
    environment = server._environment
    server.__exit__()  # its log
    assert environment is not None and environment["LOOKHEAR_DEVICE"] == "cuda"
    assert not {f"LOOKHEAR_{name}" for name in strange} & environment.keys()
