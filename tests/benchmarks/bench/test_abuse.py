"""`lookhear bench abuse`: what counts as noticed, and every attack's own half."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.bench.abuse.attacker import ATTACKS, Job, attack
from lookhear.bench.abuse.connections import HOSTILE, lists
from lookhear.bench.abuse.place import ATTACKER, Assault, multipart
from lookhear.bench.abuse.verdict import Seen, reasons

CALM = Seen(["one", "two"], 0.2, 0.4, 0.01, 0, 800.0, 810.0, 800.0)


def test_what_is_as_before_holds() -> None:
    assert reasons(CALM, CALM) == []


@given(lag=st.floats(0, 100), health=st.floats(0, 100), after=st.floats(0, 10_000))
def test_it_holds_just_within_the_bounds(lag: float, health: float, after: float) -> None:
    seen = dataclasses.replace(CALM, lag=lag, health=health, memory_after=after)
    within = (lag <= 1.5 * 0.2 + 0.1, health <= 0.2, after <= 1.15 * 800 + 64)
    assert len(reasons(CALM, seen)) == 3 - sum(within)


@pytest.mark.parametrize(
    "change", [{"drops": 1}, {"texts": ["one", ""]}, {"lag": float("inf")}], ids=str
)
def test_each_loss_is_told(change: dict[str, object]) -> None:
    assert len(reasons(CALM, dataclasses.replace(CALM, **change))) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("num_bytes", [30, 3_000, 300_000])
def test_lists_are_as_long_as_wanted(num_bytes: int) -> None:
    assert abs(len(lists(num_bytes)) - num_bytes) <= 3


def test_a_form_says_where_it_ends() -> None:
    body, kind = multipart([("model", "m")], "a.mp3", b"\x00\xff")
    boundary = kind.partition("boundary=")[2].encode()
    assert body.count(b"--" + boundary) == 3 and body.endswith(b"--" + boundary + b"--\r\n")
    assert b"\r\n\r\n\x00\xff\r\n" in body


@pytest.fixture
async def refusing() -> AsyncIterator[tuple[int, set[str]]]:
    """A server that hangs up on everybody, and from where they came."""
    came: set[str] = set()

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.add(writer.get_extra_info("peername")[0])
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], came


@pytest.mark.parametrize("name", ["heads", "silent", "bodies", "garbage", "churn", "schemas"])
async def test_an_attack_counts_what_was_refused(name: str, refusing: tuple[int, set[str]]) -> None:
    port, came = refusing
    async with asyncio.timeout(60) as limit:
        assault = Assault("127.0.0.1", port, limit.when() or 0.0, {}, "m", None)
        work = asyncio.ensure_future(ATTACKS[name](assault))
        while not assault.tally:  # a loaded machine may take seconds over the first
            await asyncio.sleep(0.01)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert came == {ATTACKER}


async def test_an_attack_ends_in_time(refusing: tuple[int, set[str]]) -> None:
    port, _ = refusing
    async with asyncio.timeout(20):
        await attack(Job("heads", "127.0.0.1", port, 0.1, "m", None, {}))


def test_every_attack_says_what_it_is() -> None:
    assert all(work.__doc__ for work in ATTACKS.values())
    assert len(set(HOSTILE)) == len(HOSTILE)
