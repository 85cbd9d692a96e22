"""As many engines as speakers need: when one more, when one fewer, and that nobody notices."""

from __future__ import annotations

import asyncio
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.client import client as client_module
from lookhear.engine.client import scaling, supervisor
from lookhear.engine.client.client import EngineClient
from lookhear.engine.client.scaling import FEW_SECONDS, SPARE_SECONDS, Scaling
from lookhear.engine.config import ConfigError, EngineConfig
from lookhear.engine.messages import (
    AppendAudio,
    CloseSession,
    EndTurn,
    Event,
    ExpectSpeech,
    FileTranscribed,
    LiveLoad,
    Pong,
    Shutdown,
    StartTurn,
    TranscribeFile,
    TranscriptionSettings,
    TurnCompleted,
)
from tests.engine.client.listening import Listening, until


def load(speakers: int, places: int) -> LiveLoad:
    """places: in all."""
    return LiveLoad(speakers, max(0, places - speakers), 0.5, 3.0, 2.0, 5.0)


# --- how many ------------------------------------------------------------------------------------


@given(
    st.integers(1, 4), st.integers(0, 4), st.integers(1, 40),
    st.lists(st.tuples(st.integers(0, 200), st.integers(1, 90)), min_size=1, max_size=12),
)  # fmt: skip
def test_it_stays_in_its_bounds_and_a_constant_load_changes_nothing_twice(
    least: int, more: int, each: int, loads: list[tuple[int, int]]
) -> None:
    """each: places of one engine. loads: speakers, and for how many seconds."""
    policy, up, now = Scaling(least, least + more), least, 0.0
    for speakers, seconds in [*loads, (loads[-1][0], 1000)]:
        changes: list[int] = []
        for _ in range(seconds):
            now += 1
            change = policy.change(now, load(speakers, each * up), up, 0)
            up += change
            changes += [change] if change else []
            assert least <= up <= least + more
    # The last load is constant: it is gone towards, and not come back from.
    assert len(set(changes)) <= 1
    if up < least + more:
        assert each * up - speakers >= min(1, scaling.FEW * each * up)


def test_one_more_is_begun_while_there_is_room_and_no_second_while_it_starts() -> None:
    policy = Scaling(1, 3)
    assert [policy.change(t, load(9, 10), 1, 0) for t in (0.0, 1.0, FEW_SECONDS)] == [0, 0, 0]
    full = load(10, 10)
    assert [policy.change(10 + t, full, 1, 0) for t in (0.0, FEW_SECONDS)] == [0, 1]
    assert [policy.change(20 + t, full, 1, 1) for t in (0.0, FEW_SECONDS, 60.0)] == [0, 0, 0]


def test_one_fewer_after_a_minute_in_which_the_others_have_room_to_spare() -> None:
    policy = Scaling(1, 3)
    assert policy.change(0.0, load(7, 20), 2, 0) == 0
    assert policy.change(SPARE_SECONDS - 1, load(8, 20), 2, 0) == 0  # not all the time
    assert policy.change(SPARE_SECONDS, load(7, 20), 2, 0) == 0
    assert policy.change(2 * SPARE_SECONDS, load(7, 20), 2, 0) == -1
    # One that does not come up is given up likewise.
    assert policy.change(500.0, load(1, 10), 1, 1) == 0
    assert policy.change(500.0 + SPARE_SECONDS, load(1, 10), 1, 1) == -1


def test_nothing_is_known_of_engines_that_bound_no_lag() -> None:
    policy = Scaling(1, 2)
    assert {policy.change(float(t), None, 1, 0) for t in range(200)} == {0}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"replicas": 3, "max_replicas": 2}, "max_replicas: expected 0, or replicas"),
        ({"max_replicas": 2, "max_lag_seconds": 0.0}, "max_lag_seconds: expected more than 0"),
        ({"max_replicas": 2, "recover_seconds": 0.0}, "recover_seconds: expected more than 0"),
    ],
)
def test_what_cannot_grow_is_refused(settings: dict[str, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        EngineConfig(**settings)  # type: ignore[arg-type]
    assert not EngineConfig(replicas=2, max_replicas=2, max_lag_seconds=0.0).can_grow


# --- who loses nothing ---------------------------------------------------------------------------


class Growing:
    """A client of a model `m` with one engine, and a second when it is needed."""

    def __init__(self) -> None:
        self.client = EngineClient([EngineConfig(model="m", max_replicas=2, device="cpu")])
        (self.pool,) = self.client._fleet.pools.values()
        self.told: dict[str, list[Event]] = {}
        self.pings = 0

    @property
    def engines(self) -> list[Listening]:
        return cast(list[Listening], self.pool.replicas)

    async def load(self) -> Listening:
        self.engines[0].come_up()
        await self.client.load()
        return self.engines[0]

    async def beat(self, speakers: int, places: int) -> None:
        """Each engine that is up answers its heartbeat: it has so many of each."""
        self.pings += 1
        for engine in self.engines:
            if engine.is_running:
                engine.tell(Pong(self.pings, load=load(speakers, places)))
        await asyncio.sleep(0)

    async def grow(self) -> Listening:
        await self.beat(9, 9)
        await self.beat(9, 9)
        added = self.engines[-1]
        added.come_up()
        await until(lambda: added.is_running)
        return added

    def open(self, session: str) -> None:
        """It speaks a tenth of a second of a turn."""
        self.told[session] = []
        self.client.open_session(session, self.told[session].append)
        self.client.send(ExpectSpeech(session, "m"))
        self.client.send(StartTurn(session, "t", TranscriptionSettings("m")))
        self.client.send(AppendAudio(session, "t", np.ones(1600, np.float32), 0))


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "Replica", Listening)
    monkeypatch.setattr(supervisor, "RESTART_PAUSES", (0.0,))
    monkeypatch.setattr(scaling, "FEW_SECONDS", 0.0)
    monkeypatch.setattr(scaling, "SPARE_SECONDS", 0.0)


@pytest.mark.usefixtures("_at_once")
async def test_the_second_gets_who_comes_then_and_ends_when_it_is_not_needed() -> None:
    fleet = Growing()
    first = await fleet.load()
    second = await fleet.grow()
    assert [e.label for e in fleet.engines] == ["m", "m#2"]
    await fleet.beat(9, 9)
    second.tell(Pong(fleet.pings, load=load(0, 9)))
    fleet.open("s")
    assert [type(m) for m in second.got] == [ExpectSpeech, StartTurn, AppendAudio]
    await fleet.beat(0, 9)  # it is to end, but somebody is speaking
    assert fleet.engines == [first, second] and CloseSession("s") not in second.got
    fleet.open("late")
    assert first.got[-1].session == "late"  # type: ignore[union-attr]
    fleet.client.send(EndTurn("s", "t"))
    second.tell(TurnCompleted("s", "t", "one", "en", 0.1, 3))
    assert [type(e) for e in fleet.told["s"]] == [TurnCompleted]
    await fleet.beat(0, 9)
    await until(lambda: not fleet.client._waiting)
    await fleet.beat(0, 9)
    assert second.got[-2:] == [CloseSession("s"), Shutdown()]
    assert fleet.engines == [first]
    await until(lambda: not second.is_running)
    assert fleet.client.recovery.moved == fleet.client.recovery.lost == 0
    assert [state.replica for state in fleet.client.states] == [1]
    fleet.client.send(StartTurn("s", "u", TranscriptionSettings("m")))
    assert first.got[-1] == StartTurn("s", "u", TranscriptionSettings("m"), tells_state=True)
    assert second.runs == 1 and (await fleet.grow()).number == 2
    await fleet.client.close()


@pytest.mark.usefixtures("_at_once")
async def test_who_speaks_for_long_goes_on_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MOVE_SECONDS", 0.0)
    fleet = Growing()
    first = await fleet.load()
    second = await fleet.grow()
    await fleet.beat(9, 9)
    second.tell(Pong(fleet.pings, load=load(0, 9)))
    fleet.open("s")
    file = TranscribeFile("f", TranscriptionSettings("m"), np.zeros(16, np.float32))
    waiting = asyncio.create_task(fleet.client.transcribe_file(file))
    await until(lambda: second.got[-1] is file)
    await fleet.beat(0, 9)
    await until(lambda: not fleet.client._waiting)
    assert [type(m) for m in first.got] == [ExpectSpeech, StartTurn, AppendAudio]
    await fleet.beat(0, 9)
    assert second in fleet.engines  # a file is not begun anew
    done = FileTranscribed("f", "text", "en", 0.0)
    second.tell(done)
    assert await waiting == done
    await fleet.beat(0, 9)
    assert fleet.engines == [first]
    assert fleet.told["s"] == []
    await fleet.client.close()


@pytest.mark.usefixtures("_at_once")
async def test_one_that_is_to_end_is_kept_if_it_is_needed_again() -> None:
    fleet = Growing()
    await fleet.load()
    second = await fleet.grow()
    await fleet.beat(9, 9)
    second.tell(Pong(fleet.pings, load=load(0, 9)))
    fleet.open("s")
    await fleet.beat(0, 9)
    assert list(fleet.pool.retiring) == [second]
    await fleet.beat(9, 9)
    await fleet.beat(9, 9)
    assert not fleet.pool.retiring and second.is_running
    await fleet.client.close()
    assert not second.is_running
