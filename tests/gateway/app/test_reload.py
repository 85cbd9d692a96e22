"""SIGHUP: the certificate and the keys are read again; what cannot be used changes nothing."""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lookhear.engine.config import ConfigError
from lookhear.engine.config.log import logging_to_stderr
from lookhear.gateway.app import server
from lookhear.gateway.app.reload import has_files, reload
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.http.access import Access, Denied
from tests.gateway.running import running


def make_certificate(folder: Path, name: str) -> None:
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(
        ["openssl", "req", *kind, *files, "-days", "2", "-subj", f"/CN={name}"],
        check=True,
        capture_output=True,
    )


def encrypted(folder: Path) -> GatewayConfig:
    return GatewayConfig(port=0, ssl_certfile=folder / "cert.pem", ssl_keyfile=folder / "key.pem")


def with_keys(file: Path) -> GatewayConfig:
    return GatewayConfig(port=0, api_keys=("given",), api_key_file=file)


async def name_served(port: int) -> str:
    """The certificate's, as a new connection sees it."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return "new" if b"new" in der else "old"


async def reloaded(caplog: pytest.LogCaptureFixture, lines: int) -> list[logging.LogRecord]:
    """What the log says of it, once there are so many lines."""

    def told() -> list[logging.LogRecord]:
        return [record for record in caplog.records if "reloaded" in record.getMessage()]

    async with asyncio.timeout(60):
        while len(told()) < lines:
            await asyncio.sleep(0.01)
    return told()


async def test_new_connections_get_the_new_certificate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lookhear.gateway")
    make_certificate(tmp_path, "old")
    async with running(encrypted(tmp_path)) as gateway:
        assert await name_served(gateway.port) == "old"
        make_certificate(tmp_path, "new")
        signal.raise_signal(signal.SIGHUP)
        await reloaded(caplog, 1)
        assert await name_served(gateway.port) == "new"
        key = (tmp_path / "key.pem").read_text()
        make_certificate(tmp_path, "old")
        (tmp_path / "key.pem").write_text(key)  # of another certificate
        signal.raise_signal(signal.SIGHUP)
        told = await reloaded(caplog, 2)
        assert told[-1].getMessage() == "not reloaded"
        assert "the old stay" in vars(told[-1])["fields"]["reason"]
        assert await name_served(gateway.port) == "new"


def let_in(rules: Access) -> Callable[[str], bool]:
    def tries(key: str) -> bool:
        try:
            rules.check_key({"authorization": f"Bearer {key}"})  # type: ignore[arg-type]
        except Denied:
            return False
        return True

    return tries


def test_keys_are_those_of_the_file_and_those_given(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lookhear.gateway")
    file = tmp_path / "keys"
    file.write_text("# of the first team\nfirst\n\n  second  \n")
    config = with_keys(file)
    rules = Access(config)
    works = let_in(rules)
    assert all(works(key) for key in ("given", "first", "second")) and not works("# of")
    assert config.has_keys and not config.checks_host and has_files(config)
    file.write_text("second\nthird")
    reload(config, rules, None)
    assert [works(key) for key in ("given", "first", "second", "third")] == [1, 0, 1, 1]
    for broken in ("", "# nobody\n", "two words", "kéy"):
        file.write_text(broken, encoding="utf-8")
        reload(config, rules, None)
        assert works("third") and works("given") and not works("two")
    file.unlink()
    reload(config, rules, None)
    assert works("third")
    assert caplog.messages == ["reloaded"] + ["not reloaded"] * 5
    shown = [str(vars(record)) for record in caplog.records]
    assert not any("third" in record or "two words" in record for record in shown)


def test_keys_that_come_with_a_file_are_not_logged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys"
    file.write_text("the-first-key")
    config = with_keys(file)
    rules = Access(config)
    with logging_to_stderr("info", "text", secrets=config.read_keys()):
        file.write_text("a-later-key")
        reload(config, rules, None)
        logging.getLogger("lookhear.gateway").info("the-first-key, a-later-key")
    assert "***, ***" in capfd.readouterr().err


@pytest.mark.parametrize("content", [None, "", "# nobody", "two words", b"\xff\xfe"])
def test_a_key_file_without_a_usable_key_is_no_server(
    content: str | bytes | None, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ConfigError, match="^api-key-file: expected") as refused:
        with_keys(file)
    assert "two words" not in str(refused.value)


def test_a_key_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """As some editors of Windows write UTF-8."""
    file = tmp_path / "keys"
    file.write_bytes(b"\xef\xbb\xbffirst\r\nsecond\r\n")
    assert with_keys(file).read_keys() == ("given", "first", "second")


def test_a_server_with_a_key_file_may_be_public(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("key")
    GatewayConfig(host="0.0.0.0", api_key_file=file)
    with pytest.raises(ConfigError):
        GatewayConfig(host="0.0.0.0")


@pytest.mark.parametrize("is_seen", [True, False])
async def test_a_closed_terminal_ends_the_server_and_a_service_goes_on(
    is_seen: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where there is nothing to read again."""
    caplog.set_level(logging.INFO, "lookhear.gateway")
    monkeypatch.setattr(server, "at_terminal", lambda: is_seen)
    before = signal.getsignal(signal.SIGHUP)
    async with running() as gateway:
        assert (signal.getsignal(signal.SIGHUP) is before) is is_seen  # which is to end
        if not is_seen:
            signal.raise_signal(signal.SIGHUP)
            async with asyncio.timeout(60):
                while "nothing to reload" not in caplog.text:
                    await asyncio.sleep(0.01)
            assert not gateway.ended.done()
    assert signal.getsignal(signal.SIGHUP) is before
