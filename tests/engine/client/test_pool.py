"""Several engines of a model: who gets whom, who goes on with what, and when that has an end."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.client import client as client_module
from lookhear.engine.client import journal, seat, supervisor
from lookhear.engine.client.client import (
    EngineClient,
    EngineRequestError,
    EngineUnavailable,
    InputRefused,
    Recovery,
)
from lookhear.engine.client.pool import Pool
from lookhear.engine.client.replica import PATIENCE_SECONDS
from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AdapterFailed,
    AdapterLoaded,
    AnswerSettings,
    AnswerStarted,
    AnswerText,
    AnswerUsage,
    AppendAudio,
    CancelFile,
    CloseSession,
    EndTurn,
    EngineFailed,
    Event,
    ExpectSpeech,
    FileProgress,
    FileTranscribed,
    HoldPicture,
    HoldRecording,
    LiveLoad,
    LoadAdapter,
    Message,
    ModelCard,
    Pong,
    Pooled,
    PoolingFailed,
    PoolingInput,
    PoolingSettings,
    Ready,
    Segment,
    StartAnswer,
    StartPooling,
    StartTurn,
    TextCommitted,
    TranscribeFile,
    TranscriptionSettings,
    UnloadAdapter,
)
from tests.engine.client.listening import Listening, until

CARD = ModelCard("m", "whisper", [], 0, 0)


# --- who gets whom -------------------------------------------------------------------------------


def pool_of(replicas: int, device: str = "cpu") -> tuple[Pool, list[Listening]]:
    config = EngineConfig(model="m", replicas=replicas, device=device)
    pool = Pool(config, lambda own: Listening(own, lambda _, event: None))
    for replica in pool.replicas:
        replica.ready = Ready([CARD], 1, "cpu", "float32")
        pool.came_up(replica, CARD)
    return pool, cast(list[Listening], pool.replicas)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 4))
def test_engines_of_all_workers_are_those_of_one_gateway_with_as_many(
    workers: int, replicas: int, cards: int
) -> None:
    """By number, device, and how many share it."""
    device = ",".join(f"cuda:{card}" for card in range(cards)) or "cpu"

    def engines(config: EngineConfig) -> list[tuple[int, str, int]]:
        pool = Pool(config, lambda own: Listening(own, lambda _, event: None))
        return [(r.number, r.config.device, r.config.replicas) for r in pool.replicas]

    whole = EngineConfig(model="m", replicas=workers * replicas, device=device)
    part = EngineConfig(model="m", replicas=replicas, device=device, workers=workers)
    parts = [dataclasses.replace(part, worker=number) for number in range(1, workers + 1)]
    assert [one for own in parts for one in engines(own)] == engines(whole)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=4),
    st.integers(0, 12),
)
def test_all_places_are_filled_before_anybody_is_sent_where_there_is_none(
    engines: list[tuple[int, int]], comers: int
) -> None:
    """engines: speakers and places of each. A burst, within one heartbeat."""
    pool, replicas = pool_of(len(engines))
    for replica, (speakers, places) in zip(replicas, engines, strict=True):
        pool.said(replica, Pong(1, load=LiveLoad(speakers, places, 0.1, 3.0, 2.0, 5.0)))
    total, inside = sum(places for _, places in engines), sum(s for s, _ in engines)
    given: Counter[int] = Counter()
    for come in range(comers):
        load = pool.load
        assert load is not None
        assert (load.places, load.speakers) == (max(0, total - come), inside + come)
        if not load.places:
            break
        chosen = pool.choose()
        assert chosen is not None
        pool.seated(chosen)
        pool.let_in(chosen)
        given[chosen.number] += 1
    for replica, (_, places) in zip(replicas, engines, strict=True):
        assert given[replica.number] <= places
    assert sum(given.values()) == min(comers, total)


def test_the_next_goes_where_words_wait_the_least_then_where_fewest_are() -> None:
    pool, (first, second, third) = pool_of(3)
    for replica, lag in ((first, 0.9), (second, 0.31), (third, 0.29)):
        pool.said(replica, Pong(1, load=LiveLoad(1, 9, lag, 3.0, 2.0, 5.0)))
    pool.seated(second)
    assert pool.choose() is third  # alike to a tenth of a second
    pool.seated(third)
    pool.seated(third)
    assert pool.choose() is second
    pool.left(third)
    pool.left(third)
    assert pool.choose() is third


def test_one_that_does_not_answer_gets_nobody_while_another_does() -> None:
    pool, (first, second) = pool_of(2)
    first.silence = PATIENCE_SECONDS + 1
    pool.seated(second)
    assert pool.choose() is second and pool.is_up
    second.silence = PATIENCE_SECONDS + 1
    assert pool.choose() is first and pool.choose(hung=False) is None and not pool.is_up
    first.ready = second.ready = None
    assert pool.choose() is None


@pytest.mark.parametrize(
    ("replicas", "device", "devices", "share"),
    [
        (1, "cuda", ["cuda"], 1),
        (2, "cuda:0,cuda:1", ["cuda:0", "cuda:1"], 1),
        (3, "cuda:0,cuda:1", ["cuda:0", "cuda:1", "cuda:0"], 2),
        (4, "cpu", ["cpu"] * 4, 4),
    ],
)
def test_devices_are_dealt_out_in_turn(
    replicas: int, device: str, devices: list[str], share: int
) -> None:
    """And each engine knows how many share its own."""
    pool, engines = pool_of(replicas, device)
    assert [engine.config.device for engine in engines] == devices
    assert {engine.config.replicas for engine in engines} == {share}
    assert [engine.label for engine in engines] == ["m", "m#2", "m#3", "m#4"][:replicas]


# --- who goes on with what -----------------------------------------------------------------------


class Fleet:
    """A client of a model `m` with two engines."""

    def __init__(self, recover_seconds: float, replicas: int = 2) -> None:
        config = EngineConfig(model="m", replicas=replicas, recover_seconds=recover_seconds)
        self.client = EngineClient([config])
        (self.pool,) = self.client._fleet.pools.values()
        self.engines = cast(list[Listening], self.pool.replicas)
        self.told: dict[str, list[Event]] = {}

    async def load(self) -> None:
        for engine in self.engines:
            engine.come_up()
        await self.client.load()

    def open(self, session: str) -> Listening:
        """With a turn of a tenth of a second -> who has it."""
        self.told[session] = []
        self.client.open_session(session, self.told[session].append)
        self.client.send(StartTurn(session, "t", TranscriptionSettings("m")))
        self.speak(session)
        (engine,) = (e for e in self.engines if e.got and e.got[-1].session == session)  # type: ignore[union-attr]
        return engine

    def speak(self, session: str, seconds: float = 0.1) -> None:
        samples = np.ones(round(seconds * SAMPLE_RATE), np.float32)
        self.client.send(AppendAudio(session, "t", samples, 0))

    async def kill(self, engine: Listening) -> None:
        engine.got.clear()
        engine.kill()
        await until(lambda: not engine.is_running)


@pytest.fixture(autouse=True)
def _listening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "Replica", Listening)
    monkeypatch.setattr(supervisor, "RESTART_PAUSES", (0.0,))


@pytest.mark.parametrize(("places", "asks"), [(0, True), (1, False)])
async def test_a_full_engine_is_asked_anew_when_somebody_has_gone(places: int, asks: bool) -> None:
    """So who closes a session and opens the next is not turned away until the next heartbeat."""
    fleet = Fleet(recover_seconds=30.0, replicas=1)
    await fleet.load()
    engine = fleet.open("a")
    pings = engine.pings
    load = LiveLoad(1, places, 1.5, 2.5, 2.0, 40.0)
    engine.tell(Pong(engine.last_ping, load=load))
    fleet.client.close_session("a")
    assert engine.got[-1] == CloseSession("a")
    assert engine.pings == pings + asks
    counted = asyncio.create_task(fleet.client.counted_out("m"))
    await asyncio.sleep(0)
    assert counted.done() != asks
    engine.tell(Pong(engine.last_ping, load=dataclasses.replace(load, speakers=0, places=1)))
    heard = fleet.client.live_load("m")
    assert heard is not None and heard.places == 1
    await counted
    fleet.client.close_session("a")
    assert engine.pings == pings + asks
    await fleet.client.close()


async def test_sessions_of_the_dead_go_on_with_the_other_and_its_own_do_not_notice() -> None:
    fleet = Fleet(60.0)
    await fleet.load()
    owners = {name: fleet.open(name) for name in ("r", "s", "u", "v")}
    dead, other = fleet.engines
    assert Counter(owners.values()) == {dead: 2, other: 2}
    other.got.clear()
    await fleet.kill(dead)
    await until(lambda: fleet.client.recovery.moved == 2)
    moved = [name for name, owner in owners.items() if owner is dead]
    replay = [ExpectSpeech, StartTurn, AppendAudio]
    for name in owners:
        mine = [type(m) for m in other.got if getattr(m, "session", "") == name]
        assert mine == (replay if name in moved else [])
    fleet.speak(moved[0])
    fleet.client.send(EndTurn(moved[0], "t"))
    assert [type(m) for m in other.got[-2:]] == [AppendAudio, EndTurn]
    assert not any(fleet.told.values())
    assert fleet.client.recovery == Recovery(2, 0, 5 * 1600 * 4, 0.0)
    for name in owners:
        fleet.client.close_session(name)
        assert other.got[-1] == CloseSession(name)
    assert fleet.client.recovery.held_bytes == 0
    await fleet.client.close()


async def test_what_comes_while_there_is_no_engine_is_told_to_the_next() -> None:
    fleet = Fleet(60.0, replicas=1)
    await fleet.load()
    (engine,) = fleet.engines
    fleet.open("s")
    await fleet.kill(engine)
    fleet.speak("s", 0.5)
    fleet.told["late"] = []
    fleet.client.open_session("late", fleet.told["late"].append)
    fleet.client.send(StartTurn("late", "t", TranscriptionSettings("m")))
    engine.come_up()
    await until(lambda: fleet.client.recovery.moved == 2)
    heard = [m for m in engine.got if isinstance(m, AppendAudio)]
    assert sum(len(m.samples) for m in heard) == round(0.6 * SAMPLE_RATE)
    assert [m.session for m in engine.got if isinstance(m, StartTurn)] == ["s", "late"]
    assert not any(fleet.told.values())
    await fleet.client.close()


async def test_who_waited_long_enough_is_told() -> None:
    fleet = Fleet(0.05, replicas=1)
    await fleet.load()
    (engine,) = fleet.engines
    fleet.open("s")
    await fleet.kill(engine)
    await until(lambda: bool(fleet.told["s"]))
    (failure,) = fleet.told["s"]
    assert isinstance(failure, EngineFailed) and failure.code == "engine_died"
    assert fleet.client.recovery == Recovery(0, 1, 0, 0.0)
    fleet.speak("s")  # too late: nobody has its turn
    engine.come_up()
    await until(lambda: fleet.client.is_ready("m"))
    assert engine.got == []
    await fleet.client.close()


@pytest.mark.parametrize("says", [False, True])
async def test_who_kills_engines_one_after_the_other_is_told(says: bool) -> None:
    """Not if words come in between: then it is something else that kills them."""
    fleet = Fleet(60.0, replicas=1)
    await fleet.load()
    (engine,) = fleet.engines
    fleet.open("s")
    for death in range(1, seat.MOST_DEATHS + 2):
        if says:
            engine.tell(TextCommitted("s", "t", "a"))
        await fleet.kill(engine)
        if death <= seat.MOST_DEATHS or says:
            engine.come_up()
            await until(lambda now=death: fleet.client.recovery.moved == now)  # type: ignore[misc]
    failures = [e for e in fleet.told["s"] if isinstance(e, EngineFailed)]
    assert len(failures) == (0 if says else 1)
    assert fleet.client.recovery.lost == len(failures)
    await fleet.client.close()


async def test_who_has_more_under_way_than_is_kept_ends_with_its_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others of that engine go on."""
    monkeypatch.setattr(journal, "MOST_BYTES", SAMPLE_RATE * 4)
    fleet = Fleet(60.0)
    await fleet.load()
    dead = fleet.open("large")
    fleet.open("elsewhere")
    assert fleet.open("small") is dead
    fleet.speak("large", 0.8)
    fleet.speak("large", 0.2)
    fleet.speak("large", 0.2)
    recovery = fleet.client.recovery
    assert recovery.forgotten_seconds == pytest.approx(1.3)
    assert recovery.held_bytes == 2 * 1600 * 4
    await fleet.kill(dead)
    await until(lambda: fleet.client.recovery.moved == 1)
    assert [type(e) for e in fleet.told["large"]] == [EngineFailed]
    assert not fleet.told["small"] and not fleet.told["elsewhere"]
    await fleet.client.close()


async def test_a_question_is_asked_again_with_its_media() -> None:
    fleet = Fleet(60.0)
    await fleet.load()
    fleet.told["s"] = []
    fleet.client.open_session("s", fleet.told["s"].append)
    asked: list[Message] = [
        HoldPicture("s", "m", "p", np.ones((2, 2, 3), np.uint8)),
        HoldRecording("s", "m", "p", np.ones(2, np.float32)),  # of the same name
        StartAnswer("s", "q", AnswerSettings("m", seed=7), []),
    ]
    for message in asked:
        fleet.client.send(message)
    dead, other = fleet.engines
    assert dead.got == asked
    events: list[Event] = [
        AnswerStarted("s", "q", AnswerUsage()),
        AnswerText("s", "q", "A "),
        AnswerText("s", "q", "dog"),
    ]
    for event in events[:2]:
        dead.tell(event)
    await fleet.kill(dead)
    await until(lambda: other.got == asked)
    for event in events:
        other.tell(event)
    assert fleet.told["s"] == events
    await fleet.client.close()


@pytest.mark.parametrize("words", [(" one", " two", " three"), (" one", " too", " three")])
async def test_what_was_told_of_a_file_is_not_told_again(words: tuple[str, ...]) -> None:
    """Another engine writes it from the beginning; in other words, and it is given up."""
    fleet = Fleet(60.0)
    told: list[FileProgress] = []

    def segments(*texts: str) -> list[Segment]:
        return [Segment(text, 0.0, 1.0, [], 0.0, 0.0) for text in texts]

    await fleet.load()
    file = TranscribeFile("f", TranscriptionSettings("m"), np.zeros(16, np.float32))
    waiting = asyncio.create_task(fleet.client.transcribe_file(file, told.append))
    dead, other = fleet.engines
    await until(lambda: bool(dead.got))
    [asked] = dead.got
    assert isinstance(asked, TranscribeFile) and asked.tells_progress
    dead.tell(FileProgress("f", segments(" one"), 1.0, 3.0))
    dead.tell(FileProgress("f", segments(" two"), 2.0, 3.0))
    await fleet.kill(dead)
    await until(lambda: bool(other.got))
    other.tell(FileProgress("f", segments(*words[:1]), 1.0, 3.0))
    other.tell(FileProgress("f", segments(*words[1:]), 3.0, 3.0))
    if words[1] == " two":
        other.tell(done := FileTranscribed("f", "one two three", "en", 3.0))
        assert await waiting == done
        said = [segment.text for event in told for segment in event.segments]
        assert said == [" one", " two", " three"] and told[-1].seconds == 3.0
    else:
        with pytest.raises(EngineUnavailable, match="in other words"):
            await waiting
        assert other.got[-1] == CancelFile("f") and len(told) == 2
    await fleet.client.close()


async def test_a_file_is_asked_for_once_more() -> None:
    fleet = Fleet(60.0)
    await fleet.load()
    file = TranscribeFile("f", TranscriptionSettings("m"), np.zeros(16, np.float32))
    waiting = asyncio.create_task(fleet.client.transcribe_file(file))
    dead, other = fleet.engines
    await until(lambda: dead.got == [file])
    await fleet.kill(dead)
    await until(lambda: other.got == [file])
    done = FileTranscribed("f", "text", "en", 0.0)
    other.tell(done)
    assert await waiting == done
    again = dataclasses.replace(file, request="g")
    waiting = asyncio.create_task(fleet.client.transcribe_file(again))
    dead.come_up()
    await until(lambda: again in dead.got or again in other.got)
    owner = dead if again in dead.got else other
    rest = other if owner is dead else dead
    await until(lambda: rest.is_running)
    await fleet.kill(owner)
    await until(lambda: again in rest.got)
    await fleet.kill(rest)
    with pytest.raises(EngineUnavailable, match="ended unexpectedly"):
        await waiting  # it may be what kills them
    await fleet.client.close()


async def test_who_asks_while_there_is_no_engine_waits_for_one() -> None:
    """And no longer than sessions do."""
    fleet = Fleet(60.0, replicas=1)
    await fleet.load()
    (engine,) = fleet.engines
    await fleet.kill(engine)
    file = TranscribeFile("f", TranscriptionSettings("m"), np.zeros(16, np.float32))
    asking = asyncio.create_task(fleet.client.transcribe_file(file))
    ready = asyncio.create_task(fleet.client.until_ready("m"))
    await asyncio.sleep(0)
    assert not ready.done() and not asking.done()
    engine.come_up()
    assert await ready
    await until(lambda: engine.got == [file])
    engine.tell(done := FileTranscribed("f", "text", "en", 0.0))
    assert await asking == done
    assert not await fleet.client.until_ready("another")
    await fleet.client.close()


async def test_who_asks_is_told_when_no_engine_comes() -> None:
    fleet = Fleet(0.01, replicas=1)
    await fleet.load()
    await fleet.kill(fleet.engines[0])
    assert not await fleet.client.until_ready("m")
    file = TranscribeFile("f", TranscriptionSettings("m"), np.zeros(16, np.float32))
    with pytest.raises(EngineUnavailable, match="not running"):
        await fleet.client.transcribe_file(file)
    await fleet.client.close()


async def test_vectors_are_asked_for_once_more_with_their_pictures() -> None:
    fleet = Fleet(60.0)
    await fleet.load()
    picture = HoldPicture("s", "m", "p", np.ones((2, 2, 3), np.uint8))
    asked = StartPooling("s", PoolingSettings("m"), [PoolingInput(), PoolingInput()])
    waiting = asyncio.create_task(fleet.client.pool(asked, [picture]))
    dead, other = fleet.engines
    await until(lambda: dead.got == [picture, asked])
    vectors = [Pooled("s", i, np.full((1, 2), i, np.float32), 3, 0) for i in range(2)]
    dead.tell(vectors[1])
    await fleet.kill(dead)
    await until(lambda: other.got == [picture, asked])
    for one in reversed(vectors):  # in any order
        other.tell(one)
    assert await waiting == vectors
    assert other.got[-1] == CloseSession("s")
    await fleet.client.close()


@pytest.mark.parametrize("how", ["refused", "given up"])
async def test_vectors_that_are_not_to_be(how: str) -> None:
    fleet = Fleet(60.0)
    await fleet.load()
    asked = StartPooling("s", PoolingSettings("m"), [PoolingInput()])
    waiting = asyncio.create_task(fleet.client.pool(asked))
    engine, other = fleet.engines
    await until(lambda: engine.got == [asked])
    if how == "refused":
        engine.tell(PoolingFailed("s", "invalid_value", "no", "document", 0))
        with pytest.raises(InputRefused, match="no") as raised:
            await waiting
        assert (raised.value.code, raised.value.side, raised.value.index) == (
            "invalid_value",
            "document",
            0,
        )
    else:
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert engine.got == [asked, CloseSession("s")] and not other.got
    engine.tell(Pooled("s", 0, np.zeros((1, 2), np.float32), 1, 0))  # nobody waits: no harm
    await fleet.client.close()


async def test_of_two_that_load_an_adapter_of_one_name_at_once_the_second_is_told() -> None:
    fleet = Fleet(60.0)
    await fleet.load()
    asked = LoadAdapter("r", "m", "a", "/a")
    later = dataclasses.replace(asked, request="s", folder="/b")
    first, second = (
        asyncio.create_task(fleet.client.load_adapter(message, replaces=False))
        for message in (asked, later)
    )
    await until(lambda: all(engine.got == [asked] for engine in fleet.engines))
    for engine in fleet.engines:
        engine.tell(AdapterLoaded("r", "a", 4, "v"))
    assert (await first).version == "v"
    with pytest.raises(EngineRequestError, match="expected another name") as told:
        await second
    assert told.value.code == "duplicate_adapter"
    assert all(later not in engine.got for engine in fleet.engines)
    await fleet.client.close()


async def test_adapters_are_with_all_engines_or_with_none() -> None:
    fleet = Fleet(60.0)
    await fleet.load()
    one, other = fleet.engines
    asked = LoadAdapter("r", "m", "a", "/a")
    loading = asyncio.create_task(fleet.client.load_adapter(asked, replaces=False))
    await until(lambda: one.got == [asked] and other.got == [asked])
    one.tell(AdapterLoaded("r", "a", 4, "v"))
    assert not loading.done()
    other.tell(AdapterLoaded("r", "a", 4, "v"))
    assert (await loading).version == "v"
    assert [card.id for card in fleet.client.models] == ["m", "m:a"]
    assert fleet.client.is_ready("m:a") and not fleet.client.is_ready("m:b")
    # A session that asks for it is the model's, and outlives its engine with it.
    fleet.client.open_session("s", lambda event: None)
    fleet.client.use_model("s", "m:a")
    question = StartAnswer("s", "q", AnswerSettings("m:a", seed=7), [])
    fleet.client.send(question)
    owner, rest = (one, other) if question in one.got else (other, one)
    await fleet.kill(owner)
    await until(lambda: question in rest.got)
    # Who comes back is given it before anything else.
    owner.got.clear()
    owner.come_up()
    await until(lambda: bool(owner.got))
    assert owner.got[0] == LoadAdapter("again/a", "m", "a", "/a")
    # One that cannot load another one: nobody has it, and all have what they had.
    for engine in fleet.engines:
        engine.got.clear()
    again = dataclasses.replace(asked, request="s", folder="/b")
    loading = asyncio.create_task(fleet.client.load_adapter(again, replaces=True))
    await until(lambda: again in one.got and again in other.got)
    one.tell(AdapterLoaded("s", "a", 4, "w"))
    other.tell(AdapterFailed("s", "invalid_adapter", "no"))
    back = LoadAdapter("s/back", "m", "a", "/a")
    await until(lambda: back in one.got and back in other.got)
    for engine in fleet.engines:
        engine.tell(AdapterLoaded("s/back", "a", 4, "v"))
    with pytest.raises(EngineRequestError, match="no"):
        await loading
    leaving = asyncio.create_task(fleet.client.unload_adapter(UnloadAdapter("u", "m", "a")))
    await until(lambda: UnloadAdapter("u", "m", "a") in one.got)
    await until(lambda: UnloadAdapter("u", "m", "a") in other.got)
    for engine in fleet.engines:
        engine.tell(AdapterLoaded("u", "a"))
    await leaving
    assert [card.id for card in fleet.client.models] == ["m"]
    await fleet.client.close()
