"""Which engine gets what, and who hears of its death: the client with engines that only listen."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import numpy as np
import pytest

from lookhear.engine.client import client as client_module
from lookhear.engine.client import supervisor
from lookhear.engine.client.client import EngineClient, EngineStartError, EngineUnavailable
from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import (
    AnswerCompleted,
    AnswerSettings,
    AnswerStarted,
    AnswerUsage,
    AppendAudio,
    CancelAnswer,
    CloseSession,
    DropPicture,
    DropRecording,
    EngineFailed,
    Event,
    HoldPicture,
    HoldRecording,
    Message,
    ReadAhead,
    StartAnswer,
    Starting,
    StartTurn,
    TranscribeFile,
    TranscriptionSettings,
)
from tests.engine.client.listening import Listening, until


class Pair:
    """A client of the models `a` and `b`."""

    def __init__(self) -> None:
        configs = [EngineConfig(model=name, recover_seconds=0.0) for name in ("a", "b")]
        self.client = EngineClient(configs)
        a, b = (pool.replicas[0] for pool in self.client._fleet.pools.values())
        assert isinstance(a, Listening) and isinstance(b, Listening)
        self.a, self.b = a, b
        self.told: dict[str, list[Event]] = {}

    @property
    def is_ready(self) -> bool:
        return self.client.is_ready("a") and self.client.is_ready("b")

    def open(self, session: str, model: str | None = None) -> None:
        self.told[session] = []
        self.client.open_session(session, self.told[session].append)
        if model is not None:
            self.client.use_model(session, model)

    def start(self, session: str, turn: str, model: str) -> None:
        self.client.send(StartTurn(session, turn, TranscriptionSettings(model=model)))
        samples = np.zeros(16, np.float32)
        self.client.send(AppendAudio(session, turn, samples, 0))


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.setattr(client_module, "Replica", Listening)
    return Pair()


async def loaded(pair: Pair) -> None:
    pair.b.come_up()
    pair.a.come_up()
    await pair.client.load()


async def test_the_first_is_the_default_whichever_is_loaded_first(pair: Pair) -> None:
    heard: list[tuple[str, Starting]] = []
    loading = asyncio.create_task(pair.client.load(lambda name, event: heard.append((name, event))))
    await asyncio.sleep(0)
    pair.b.starting = Starting("loading b", 0.5)
    pair.b.tell(pair.b.starting)
    assert heard == [("b", pair.b.starting)]
    states = [(s.model, s.state, s.stage, s.progress) for s in pair.client.states]
    assert states[1] == ("b", "loading", "loading b", 0.5)
    pair.b.come_up()
    await until(lambda: pair.client.is_ready("b"))
    assert [state.state for state in pair.client.states] == ["loading", "ready"]
    assert pair.client.models == [] and not pair.is_ready and not loading.done()
    pair.a.come_up()
    await loading
    assert [card.id for card in pair.client.models] == ["a", "b"] and pair.is_ready
    assert not pair.client.is_ready("c")
    await pair.client.close()


async def test_speech_and_questions_of_one_session_go_to_two_engines(pair: Pair) -> None:
    await loaded(pair)
    pair.open("s")
    pair.start("s", "t", "a")
    picture = HoldPicture("s", "b", "p", np.zeros((2, 2, 3), np.uint8))
    question = StartAnswer("s", "q", AnswerSettings("b"), [])
    recording = HoldRecording("s", "b", "r", np.zeros(2, np.float32))
    held: list[Message] = [picture, recording, ReadAhead("s", "b", []), question]
    for message in (*held, DropPicture("s", "b", "p"), DropRecording("s", "b", "r")):
        pair.client.send(message)
    assert [type(m) for m in pair.a.got] == [StartTurn, AppendAudio]
    assert pair.b.got[:4] == held
    assert [type(m) for m in pair.b.got[4:]] == [DropPicture, DropRecording]
    started = AnswerStarted("s", "q", AnswerUsage())
    pair.b.tell(started)
    pair.b.tell(AnswerCompleted("s", "q", "stop", AnswerUsage()))
    assert [type(e) for e in pair.told["s"]] == [AnswerStarted, AnswerCompleted]
    pair.client.send(CancelAnswer("s", "q"))  # too late: it is over
    assert not isinstance(pair.b.got[-1], CancelAnswer)
    with pytest.raises(EngineUnavailable, match="no engine serves 'c'"):
        pair.client.send(StartAnswer("s", "r", AnswerSettings("c"), []))
    pair.client.close_session("s")
    assert isinstance(pair.a.got[-1], CloseSession) and isinstance(pair.b.got[-1], CloseSession)
    await pair.client.close()


async def test_the_death_of_an_engine_is_told_to_who_waits_for_its_answer(pair: Pair) -> None:
    await loaded(pair)
    for session in ("asks", "listens"):
        pair.open(session, "a")
    pair.client.send(StartAnswer("asks", "q", AnswerSettings("b"), []))
    pair.b.kill()
    await until(lambda: bool(pair.told["asks"]))
    assert isinstance(pair.told["asks"][0], EngineFailed) and not pair.told["listens"]
    await pair.client.close()


async def test_one_that_cannot_be_loaded_ends_the_start_at_once(pair: Pair) -> None:
    loading = asyncio.create_task(pair.client.load())
    await asyncio.sleep(0)
    pair.b.failure = EngineFailed("model_not_loaded", "b: no such folder")
    pair.b.kill()
    with pytest.raises(EngineStartError, match="^cannot load b: no such folder$"):
        await loading  # `a` would have loaded for ever


async def test_a_process_that_ends_without_a_word(pair: Pair) -> None:
    loading = asyncio.create_task(pair.client.load())
    await asyncio.sleep(0)
    pair.a.kill()
    with pytest.raises(EngineStartError, match="cannot load a: .* status -9"):
        await loading


async def test_a_death_is_told_to_whom_it_concerns_and_nobody_else(pair: Pair) -> None:
    await loaded(pair)
    pair.open("default")
    pair.open("on-a", "a")
    pair.open("on-b", "b")
    pair.open("moved", "b")
    pair.start("moved", "t", "b")
    pair.client.use_model("moved", "a")  # its turn is still with b
    pair.b.kill()
    await until(lambda: not pair.client.is_ready("b"))
    await until(lambda: bool(pair.told["on-b"]))
    assert pair.told["default"] == pair.told["on-a"] == []
    for session in ("on-b", "moved"):
        (failure,) = pair.told[session]
        assert isinstance(failure, EngineFailed) and failure.code == "engine_died"
    assert [state.state for state in pair.client.states] == ["ready", "restarting"]
    assert [card.id for card in pair.client.models] == ["a", "b"]
    pair.start("on-a", "t", "a")
    with pytest.raises(EngineUnavailable):
        pair.start("on-b", "t", "b")
    pair.b.come_up()
    await until(lambda: pair.is_ready)
    await pair.client.close()


async def test_a_session_is_closed_in_every_engine_that_knew_it(pair: Pair) -> None:
    await loaded(pair)
    pair.open("s")
    pair.start("s", "t", "a")
    pair.open("idle")
    for session in ("s", "idle", "s"):
        pair.client.close_session(session)
    assert pair.a.got[-1] == CloseSession("s") and pair.b.got == []
    pair.open("s")
    pair.start("s", "u", "a")
    pair.start("s", "v", "b")
    pair.client.close_session("s")
    assert [r.got.count(CloseSession("s")) for r in (pair.a, pair.b)] == [2, 1]
    await pair.client.close()


async def test_who_gives_up_on_a_file_need_not_hear_that_its_engine_is_busy(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    await loaded(pair)
    file = TranscribeFile("f", TranscriptionSettings(model="a"), np.zeros(16, np.float32))
    waiting = asyncio.create_task(pair.client.transcribe_file(file))
    await until(lambda: pair.a.got == [file])

    def refuse(message: Message) -> None:
        raise EngineUnavailable("it does not keep up")

    monkeypatch.setattr(pair.a, "send", refuse)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await pair.client.close()


@pytest.mark.parametrize("steady", [0.0, 1e9])
async def test_an_engine_that_lived_long_is_started_again_at_once(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, steady: float
) -> None:
    monkeypatch.setattr(supervisor, "STEADY_SECONDS", steady)
    monkeypatch.setattr(supervisor, "RESTART_PAUSES", (0.0, 1e9))
    await loaded(pair)
    runs = pair.b.runs
    pair.b.kill()
    await until(lambda: pair.b.runs == runs + 1)
    pair.b.come_up()
    await until(lambda: pair.client.is_ready("b"))
    pair.b.kill()
    await until(lambda: not pair.client.is_ready("b"))
    if steady:  # the second time in a row: a pause, in which nothing can be asked of it
        for _ in range(100):
            await asyncio.sleep(0)
        assert pair.b.runs == runs + 1
    else:
        await until(lambda: pair.b.runs == runs + 2)
    await pair.client.close()


async def test_an_engine_that_does_not_answer_is_ended(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "SILENCE_LIMIT", 0.1)
    for replica in (pair.a, pair.b):
        replica.config = replace(replica.config, heartbeat_seconds=0.05)
    pair.open("s", "b")
    await loaded(pair)
    pair.b.answers = False
    await until(lambda: bool(pair.told["s"]))
    assert isinstance(pair.told["s"][0], EngineFailed)
    assert "engine of b does not answer" in caplog.text
    assert pair.client.is_ready("a")
    await pair.client.close()


async def test_who_slept_does_not_take_its_engines_for_hung(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "SILENCE_LIMIT", 0.1)
    for replica in (pair.a, pair.b):
        replica.config = replace(replica.config, heartbeat_seconds=0.05)
    await loaded(pair)
    time.sleep(0.3)  # the event loop stands still, as when this process is stopped
    before = pair.a.pings
    await until(lambda: pair.a.pings >= before + 2 or not pair.is_ready)
    assert pair.is_ready
    await pair.client.close()
