"""The parent of several workers, with workers that only follow a script."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lookhear.gateway.app.server import bind
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.services.siblings import Siblings
from lookhear.gateway.workers import control, members, supervisor
from lookhear.gateway.workers.supervisor import FAILED, Setup, Supervisor

PATIENCE = 60.0
SUPERVISOR = "lookhear.gateway.workers.supervisor"
WORKER = "tests.gateway.workers.scripted_worker"


class Led:
    """Workers that are led. heard: what the parent told of them, in order; is_ready: whether that
    they are ready."""

    def __init__(self, port: int, ended: asyncio.Task[int], heard: list[str]) -> None:
        self.port, self.ended, self.heard = port, ended, heard
        self.is_ready = asyncio.Event()

    async def connect(self) -> dict[str, Any]:
        """What the worker says that got the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            line = await reader.readline()
        finally:
            writer.close()
        # Who is killed may have taken it, and said nothing.
        return json.loads(line) if line else {"number": 0, "states": {}}


Lead = Callable[..., contextlib.AbstractAsyncContextManager[Led]]


@pytest.fixture
def lead(tmp_path: Path) -> Lead:
    (tmp_path / "metrics").mkdir()

    @contextlib.asynccontextmanager
    async def leading(
        scripts: Sequence[str], config: GatewayConfig | None = None
    ) -> AsyncIterator[Led]:
        heard: list[str] = []
        setups = []

        def ready() -> None:
            heard.append("ready")
            led.is_ready.set()

        for number, script in enumerate(scripts, 1):
            (tmp_path / f"script-{number}").write_text(script)
            own = Siblings(number, tmp_path)
            setups.append(Setup(config or GatewayConfig(), [], own, 0, "info", "text"))
        with bind("127.0.0.1", 0) as listening:
            supervisor = Supervisor(
                setups,
                listening,
                tmp_path,
                WORKER,
                is_reloadable=True,
                on_ready=ready,
                on_end=lambda: heard.append("end"),
            )
            ended = asyncio.create_task(supervisor.run())
            await asyncio.sleep(0)  # it listens
            led = Led(listening.getsockname()[1], ended, heard)
            try:
                async with asyncio.timeout(PATIENCE):
                    yield led
            finally:
                if not ended.done():
                    os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.wait_for(ended, PATIENCE)

    return leading


async def test_connections_are_dealt_out_and_all_end_with_the_parent(lead: Lead) -> None:
    async with lead(["hold"] * 3) as led:
        assert (await led.connect())["number"] == 1  # as soon as there is one
        await led.is_ready.wait()
        counts = Counter([1])
        for _ in range(29):
            counts[(await led.connect())["number"]] += 1
        assert counts == {1: 10, 2: 10, 3: 10}
        os.kill(os.getpid(), signal.SIGTERM)
        assert await led.ended == 0
        assert led.heard == ["ready", "end"]


async def test_one_that_is_killed_is_started_again_and_the_other_serves(lead: Lead) -> None:
    async with lead(["serve"] * 2) as led:
        await led.is_ready.wait()
        first, second = await led.connect(), await led.connect()
        assert first["states"] == second["states"] == {"1": "ready", "2": "ready"}
        by_number = {said["number"]: said["pid"] for said in (first, second)}
        os.kill(by_number[1], signal.SIGKILL)
        while (await led.connect())["states"].get("1") != "down":
            pass
        while (said := await led.connect())["number"] != 1:
            assert said["pid"] == by_number[2]
        assert said["pid"] != by_number[1]
        assert led.heard == ["ready"]


@pytest.mark.parametrize("scarce", ["pair", "asyncio.create_subprocess_exec"])
async def test_one_that_cannot_be_started_again_at_once_is_later(
    scarce: str, lead: Lead, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However often that takes; the other serves meanwhile."""
    monkeypatch.setattr(supervisor, "PAUSE", 0.0)
    monkeypatch.setattr(members, "RESTART_PAUSES", (0.0,))
    made: list[socket.socket] = []

    def pair() -> tuple[socket.socket, socket.socket]:
        ends = control.pair()
        made.append(ends[0])
        return ends

    def refuse(*_: object, **__: object) -> None:
        refusals.append(None)
        if len(refusals) == 3:
            monkeypatch.setattr(f"{SUPERVISOR}.{scarce}", before)
        raise OSError(errno.EMFILE, "Too many open files")

    refusals: list[None] = []
    monkeypatch.setattr(supervisor, "pair", pair)
    before = {"pair": pair, "asyncio.create_subprocess_exec": asyncio.create_subprocess_exec}[
        scarce
    ]
    async with lead(["serve"] * 2) as led:
        await led.is_ready.wait()
        while (first := await led.connect())["number"] != 1:
            pass
        monkeypatch.setattr(f"{SUPERVISOR}.{scarce}", refuse)
        os.kill(first["pid"], signal.SIGKILL)
        while (said := await led.connect())["number"] != 1 or said["pid"] == first["pid"]:
            pass
        assert sum(sock.fileno() >= 0 for sock in made) == 2, "none is left of the tries"
        assert led.heard == ["ready"]
    told = [record.getMessage() for record in caplog.records if "worker 1" in record.message]
    failed = "worker 1 cannot be started: [Errno 24] Too many open files"
    assert told == ["worker 1 ended with status -9; starting it again", *[failed] * 3]


async def test_who_takes_nothing_for_a_while_hears_how_all_are_later(
    lead: Lead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if nothing changes any more."""
    takes = asyncio.Event()

    class Full(control.Control):
        def send(self, message: control.Message, connection: socket.socket | None = None) -> bool:
            has_room = message["kind"] != supervisor.STATES or takes.is_set()
            return has_room and super().send(message, connection)

    monkeypatch.setattr(supervisor, "Control", Full)
    monkeypatch.setattr(supervisor, "WATCH_SECONDS", 0.0)
    async with lead(["serve"] * 2) as led:
        await led.is_ready.wait()
        assert (await led.connect())["states"] == {}
        takes.set()
        while (await led.connect())["states"] != {"1": "ready", "2": "ready"}:
            pass


async def test_all_hear_that_files_are_to_be_read_again(lead: Lead) -> None:
    async with lead(["serve"] * 2) as led:
        await led.is_ready.wait()
        os.kill(os.getpid(), signal.SIGHUP)
        told: set[int] = set()
        while told != {1, 2}:
            said = await led.connect()
            assert said["hang_ups"] <= 1
            told |= {said["number"]} if said["hang_ups"] else set()


async def test_who_is_started_again_begins_with_the_last_keys_that_could_be_used(
    lead: Lead, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    file.write_text("first")
    config = GatewayConfig(api_keys=("given",), api_key_file=file)
    async with lead(["serve"] * 2, config) as led:
        await led.is_ready.wait()

        async def reloaded(keys: str, times: int) -> dict[str, Any]:
            """What worker 1 says once it was told of it."""
            file.write_text(keys)
            os.kill(os.getpid(), signal.SIGHUP)
            while (said := await led.connect())["number"] != 1 or said["hang_ups"] < times:
                pass
            return said

        assert (await reloaded("second", 1))["keys"] == ["given", "first"]
        said = await reloaded("", 2)
        file.write_text("nobody has asked for it")
        os.kill(said["pid"], signal.SIGKILL)
        while (again := await led.connect())["number"] != 1 or again["pid"] == said["pid"]:
            pass
        assert again["keys"] == ["given", "second"]
        assert led.heard == ["ready"]


async def test_who_is_started_while_keys_change_hears_of_it(lead: Lead, tmp_path: Path) -> None:
    """It was given those from before, and does not listen to signals before it reports."""
    file = tmp_path / "keys"
    file.write_text("first")
    config = GatewayConfig(api_key_file=file)
    async with lead(["serve", "wait"], config) as led:
        while not (tmp_path / "begun").exists():  # the second one is there, and has its keys
            await led.connect()
        file.write_text("second")
        os.kill(os.getpid(), signal.SIGHUP)
        while not (await led.connect())["hang_ups"]:
            pass
        (tmp_path / "go-on").touch()
        while (said := await led.connect())["number"] != 2 or not said["hang_ups"]:
            pass
        assert said["keys"] == ["first"]


@pytest.mark.parametrize("scripts", [["fail3", "serve"], ["serve", "fail3"]])
async def test_what_one_cannot_do_at_the_start_ends_all(lead: Lead, scripts: list[str]) -> None:
    async with lead(scripts) as led:
        assert await led.ended == 3
        assert led.heard == ["end"]


async def test_one_that_dies_again_and_again_ends_all(
    lead: Lead, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(members, "RESTART_PAUSES", (0.01, 0.02))
    async with lead(["serve", "die"]) as led:
        assert await led.ended == FAILED
    told = [record.getMessage() for record in caplog.records if "worker 2" in record.message]
    again = "worker 2 ended with status 1; starting it again"
    assert told == [again, again, "worker 2 ended with status 1 again and again"]
