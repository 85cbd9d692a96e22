"""Keys and certificate as they were last read: each is used until another can be."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import pytest

from lookhear.engine.config import ConfigError
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.credentials import Credentials, read_again, read_credentials
from lookhear.gateway.services.siblings import Siblings
from tests.gateway.app.test_reload import encrypted, make_certificate, name_served
from tests.gateway.running import running


def with_both(folder: Path) -> GatewayConfig:
    make_certificate(folder, "old")
    (folder / "keys").write_text("the-old-key")
    return dataclasses.replace(encrypted(folder), api_key_file=folder / "keys")


def test_each_stays_by_itself_where_it_cannot_be_used(tmp_path: Path) -> None:
    config = with_both(tmp_path)
    old = read_credentials(config)
    assert old.keys == ("the-old-key",) and old.context() is not None
    make_certificate(tmp_path, "new")
    (tmp_path / "keys").write_text("")
    newer = read_again(old, config)
    assert newer.keys == old.keys and newer.certificate != old.certificate
    (tmp_path / "cert.pem").unlink()
    (tmp_path / "keys").write_text("the-new-key")
    newest = read_again(newer, config)
    assert newest == Credentials(("the-new-key",), newer.certificate)
    with pytest.raises(ConfigError, match="^ssl-certfile: expected a PEM certificate"):
        read_credentials(config)
    assert "key" not in repr(newest).replace("keys", ""), "they are for no log"


def test_who_needs_neither_has_neither() -> None:
    credentials = read_credentials(GatewayConfig())
    assert credentials == Credentials(()) == read_again(credentials, GatewayConfig())
    assert credentials.context() is None


async def test_a_worker_serves_with_what_it_was_given(tmp_path: Path) -> None:
    """Though the certificate is of another key by now, and the keys are gone."""
    config = with_both(tmp_path)
    given = pickle.loads(pickle.dumps(Siblings(credentials=read_credentials(config))))
    key = (tmp_path / "key.pem").read_text()
    make_certificate(tmp_path, "new")
    (tmp_path / "key.pem").write_text(key)
    (tmp_path / "keys").unlink()
    async with running(config, siblings=given) as gateway:
        assert await name_served(gateway.port) == "old"
        rules = gateway.app.state.services.access
        assert rules.key_name({"authorization": "Bearer the-old-key"}) is not None
