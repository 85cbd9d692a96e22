"""Adapters while engines come and go: each engine of a model has them, or none has."""

from __future__ import annotations

import asyncio

import pytest

from lookhear.engine.client import client as client_module
from lookhear.engine.client import scaling, supervisor
from lookhear.engine.client.client import EngineRequestError
from lookhear.engine.messages import AdapterFailed, AdapterLoaded, LoadAdapter, UnloadAdapter
from tests.engine.client.listening import Listening, until
from tests.engine.client.test_pool import Fleet
from tests.engine.client.test_scaling import Growing

SHOP = LoadAdapter("r", "m", "shop", "/shop")
LOADED = AdapterLoaded("r", "shop", 4, "v")
AGAIN = LoadAdapter("again/shop", "m", "shop", "/shop")
GONE = UnloadAdapter("again/shop", "m", "shop")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "Replica", Listening)
    monkeypatch.setattr(supervisor, "RESTART_PAUSES", (0.0,))
    monkeypatch.setattr(scaling, "FEW_SECONDS", 0.0)
    monkeypatch.setattr(scaling, "SPARE_SECONDS", 0.0)


@pytest.mark.parametrize("can", [True, False])
async def test_one_that_comes_up_during_a_load_is_asked_too(can: bool) -> None:
    fleet = Fleet(60.0)
    await fleet.load()
    one, other = fleet.engines
    await fleet.kill(other)
    loading = asyncio.create_task(fleet.client.load_adapter(SHOP, replaces=False))
    await until(lambda: one.got == [SHOP])
    other.come_up()
    await until(lambda: other.is_running)
    one.tell(LOADED)
    await until(lambda: other.got == [SHOP])
    if can:
        other.tell(LOADED)
        assert await loading == LOADED
        assert [card.id for card in fleet.client.models] == ["m", "m:shop"]
    else:
        other.tell(AdapterFailed("r", "invalid_adapter", "no"))
        back = UnloadAdapter("r/back", "m", "shop")
        await until(lambda: one.got[-1] == back and other.got[-1] == back)
        for engine in fleet.engines:
            engine.tell(AdapterLoaded("r/back", "shop"))
        with pytest.raises(EngineRequestError, match="no"):
            await loading
        assert [card.id for card in fleet.client.models] == ["m"]
    await fleet.client.close()


async def test_one_that_dies_behind_its_answer_is_asked_again_when_it_is_back() -> None:
    """While another one takes long over the same load."""
    fleet = Fleet(60.0)
    await fleet.load()
    one, other = fleet.engines
    loading = asyncio.create_task(fleet.client.load_adapter(SHOP, replaces=False))
    await until(lambda: one.got == other.got == [SHOP])
    one.tell(LOADED)
    await asyncio.sleep(0)
    await fleet.kill(one)
    one.got.clear()
    one.come_up()
    await until(lambda: one.is_running)
    other.tell(LOADED)
    await until(lambda: one.got == [SHOP] or loading.done())
    assert not loading.done()
    one.tell(LOADED)
    assert await loading == LOADED
    await fleet.client.close()


async def test_one_that_is_to_end_ends_behind_the_load_that_it_was_asked_for() -> None:
    fleet = Growing()
    first = await fleet.load()
    second = await fleet.grow()
    loading = asyncio.create_task(fleet.client.load_adapter(SHOP, replaces=False))
    await until(lambda: second.got == [SHOP])
    first.tell(LOADED)
    await fleet.beat(0, 9)
    await fleet.beat(0, 9)
    assert fleet.engines == [first, second] and second in fleet.pool.retiring
    second.tell(LOADED)
    assert await loading == LOADED
    await fleet.beat(0, 9)
    assert fleet.engines == [first]
    leaving = asyncio.create_task(fleet.client.unload_adapter(UnloadAdapter("s", "m", "shop")))
    await until(lambda: first.got[-1] == UnloadAdapter("s", "m", "shop"))
    first.tell(AdapterLoaded("s", "shop"))
    await leaving
    await fleet.client.close()


async def failing(fleet: Fleet) -> tuple[Listening, Listening]:
    """An adapter is loaded, one engine dies and cannot load it when it is back; the other one."""
    await fleet.load()
    one, other = fleet.engines
    loading = asyncio.create_task(fleet.client.load_adapter(SHOP, replaces=False))
    await until(lambda: one.got == other.got == [SHOP])
    for engine in fleet.engines:
        engine.tell(LOADED)
    await loading
    await fleet.kill(other)
    other.come_up()
    await until(lambda: other.got == [AGAIN])
    other.tell(AdapterFailed(AGAIN.request, "invalid_adapter", "expected a folder"))
    await until(lambda: other.got == [AGAIN, AGAIN])
    return other, one


async def test_what_one_cannot_load_again_nobody_has_any_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fleet = Fleet(60.0)
    broken, other = await failing(fleet)
    assert fleet.client.is_ready("m:shop")
    broken.tell(AdapterFailed(AGAIN.request, "invalid_adapter", "expected a folder"))
    await until(lambda: other.got[-1] == broken.got[-1] == GONE)
    other.tell(AdapterLoaded(GONE.request, "shop"))
    broken.tell(AdapterFailed(GONE.request, "invalid_adapter", "expected one that is loaded"))
    assert [card.id for card in fleet.client.models] == ["m"]
    assert not fleet.client.is_ready("m:shop")
    told = f"adapter shop of m is unloaded, {broken.label} cannot load it: expected a folder"
    assert told in caplog.messages
    loading = asyncio.create_task(fleet.client.load_adapter(SHOP, replaces=False))
    await until(lambda: other.got[-1] == broken.got[-1] == SHOP)
    for engine in fleet.engines:
        engine.tell(LOADED)
    assert await loading == LOADED
    await fleet.client.close()


@pytest.mark.parametrize("outcome", ["loads", "dies", "unloaded", "closed"])
async def test_an_adapter_stays_unless_it_can_not_be_loaded(outcome: str) -> None:
    """At the second try, and whatever else happens meanwhile."""
    fleet = Fleet(60.0)
    broken, other = await failing(fleet)
    if outcome == "loads":
        broken.tell(AdapterLoaded(AGAIN.request, "shop", 4, "v"))
    elif outcome == "dies":
        await fleet.kill(broken)
        broken.come_up()
        await until(lambda: broken.got == [AGAIN])
    elif outcome == "unloaded":
        leaving = asyncio.create_task(fleet.client.unload_adapter(UnloadAdapter("s", "m", "shop")))
        broken.tell(AdapterLoaded(AGAIN.request, "shop", 4, "v"))
        await until(lambda: broken.got[-1] == other.got[-1] == UnloadAdapter("s", "m", "shop"))
        for engine in fleet.engines:
            engine.tell(AdapterLoaded("s", "shop"))
        await leaving
    await fleet.client.close()
    assert GONE not in other.got
    assert list(fleet.pool.adapters) == ([] if outcome == "unloaded" else ["shop"])
    assert not fleet.client._adapters.has(broken)
