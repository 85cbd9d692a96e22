"""A bug of ours that shows with one request is that request's failure: others do not notice."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lookhear.engine.core.core import MAX_BUGS, EngineCore
from lookhear.engine.core.request import Cost, Priority, Result
from lookhear.engine.core.scheduler import Scheduler
from lookhear.engine.messages import CloseSession, Event, TurnCompleted, TurnFailed
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.moonshine import runner as moonshine_runner
from lookhear.engine.whisper import runner as whisper_runner
from tests.engine import playing
from tests.engine.core.test_overlap import ROWS, paged_runner, paged_visits
from tests.engine.traces import (
    Asker,
    NoDesk,
    Played,
    Request,
    Staircase,
    Visit,
    assert_same,
    once,
    paged_request,
    play,
    play_on,
    ticks,
)
from tools.random_checkpoints.moonshine import build_random_moonshine
from tools.random_checkpoints.whisper import build_random_whisper

OWNERS = ("wants_request", "cost", "make_request", "follow", "absorb")


class Bug(TypeError):
    """Of whoever is asked for the `number`th time."""


class Fuse:
    """Burns with a call of the method, after so many others, and with those behind it."""

    def __init__(self, method: str, number: int) -> None:
        self._method = method
        self._left = number
        self.is_armed = True
        self.has_burnt = False

    def called(self, method: str) -> None:
        if method != self._method or not self.is_armed:
            return
        self._left -= 1
        if self._left < 0:
            self.has_burnt = True
            raise Bug(method)


class FaultyGrammar(Staircase):
    """It has a bug somewhere."""

    def __init__(self, vocab: int, fuse: Fuse) -> None:
        super().__init__(vocab)
        self._fuse = fuse

    def start(self, budget: int | None = None) -> Staircase:
        self._fuse.called("start")
        return FaultyGrammar(self._vocab, self._fuse)

    def fill(self, bits: NDArray[np.int32]) -> None:
        self._fuse.called("fill")
        super().fill(bits)


class FaultyAsker(Asker):
    """It has a bug somewhere."""

    def __init__(
        self, key: str, make: Callable[[list[Result]], Request | None], fuse: Fuse
    ) -> None:
        super().__init__(key, make)
        self._fuse = fuse

    def wants_request(self) -> bool:
        self._fuse.called("wants_request")
        return super().wants_request()

    def cost(self) -> Cost:
        self._fuse.called("cost")
        return super().cost()

    def make_request(self) -> Request:
        self._fuse.called("make_request")
        return super().make_request()

    def follow(self, sequence: Any) -> list[Event]:
        self._fuse.called("follow")
        return super().follow(sequence)

    def absorb(self, result: Result) -> list[Event]:
        self._fuse.called("absorb")
        return super().absorb(result)


def make_core(model: Qwen3AsrModel, overlap: int = 0) -> EngineCore:
    scheduler = Scheduler(ROWS, 10**9, 4096)
    return EngineCore(NoDesk(), paged_runner(model, overlap), scheduler, overlap=overlap)


def played_with(
    core: EngineCore, faulty: FaultyAsker, fuse: Fuse, comes: int, visits: Sequence[Visit]
) -> Played:
    """As `play`, and somebody comes with whom a bug shows."""

    def check() -> None:
        fuse.is_armed = False  # to be checked is no call
        core.check()
        fuse.is_armed = True

    return play_on(core, visits, {comes: faulty}, check)


@pytest.fixture(scope="module")
def asr(served_asr: Path) -> Qwen3AsrModel:
    return Qwen3AsrModel.from_folder(served_asr)


@settings(max_examples=40, deadline=None)
@given(
    data=st.data(),
    method=st.sampled_from([*OWNERS, "start", "fill"]),
    number=st.integers(0, 3),
    comes=st.integers(0, 8),
    overlap=st.sampled_from([0, 1]),
)
def test_others_are_told_the_same_and_nothing_leaks(
    asr: Qwen3AsrModel, data: st.DataObject, method: str, number: int, comes: int, overlap: int
) -> None:
    visits = data.draw(paged_visits(asr))
    fuse = Fuse(method, number)
    make = ticks(asr, "faulty", data.draw(st.integers(0, 3)), 3)
    if method not in OWNERS:
        grammar = FaultyGrammar(asr.decoder.vocab, fuse)
        make = once(paged_request(asr, "faulty", data.draw(st.integers(0, 3)), grammar=grammar))
    faulty = FaultyAsker("faulty", make, fuse)
    core = make_core(asr, overlap)
    played = played_with(core, faulty, fuse, comes, visits)
    assert len(faulty.failures) == fuse.has_burnt
    assert core.owner("faulty") is None
    expected = play(paged_runner(asr, overlap), visits, max_rows=ROWS, overlap=overlap)
    assert_same(played, expected)


@pytest.mark.parametrize("method", [*OWNERS, "start", "fill"])
def test_the_log_says_where_it_is_and_the_client_that_it_failed(
    asr: Qwen3AsrModel, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    fuse = Fuse(method, 0)
    grammar = FaultyGrammar(asr.decoder.vocab, fuse)
    faulty = FaultyAsker("v", once(paged_request(asr, "v", 0, grammar=grammar)), fuse)
    played_with(make_core(asr), faulty, fuse, 0, [])
    (message,) = faulty.failures
    assert message.endswith(f"could not be carried out: {method}")
    told = [record for record in caplog.records if record.exc_info]
    assert [(r.levelno, r.exc_info and r.exc_info[0]) for r in told] == [(logging.ERROR, Bug)]


class Telling(Asker):
    """Says something at every step."""

    def follow(self, sequence: Any) -> list[Event]:
        return [TurnFailed("s", "t", "code", "message")]


@pytest.mark.parametrize("tells", [True, False])
def test_who_goes_on_well_says_that_it_is_no_bug_of_all(asr: Qwen3AsrModel, tells: bool) -> None:
    core = make_core(asr)
    long = once(paged_request(asr, "long", 0, max_new_tokens=60, model_ends=False))
    core.add("long", Priority.LIVE, Telling("long", long) if tells else Asker("long", long))
    with contextlib.nullcontext() if tells else pytest.raises(Bug):
        for number in range(2 * MAX_BUGS):
            core.step()
            asker = FaultyAsker(
                f"v{number}", once(paged_request(asr, "v", 0)), Fuse("make_request", 0)
            )
            core.add(asker.key, Priority.LIVE, asker)
    assert core.owner("long") is not None


def test_one_that_shows_with_all_requests_is_raised(asr: Qwen3AsrModel) -> None:
    core = make_core(asr)

    def ask(key: str, method: str) -> None:
        fuse = Fuse(method, 0)
        grammar = FaultyGrammar(asr.decoder.vocab, fuse)
        request = once(paged_request(asr, key, 0, grammar=grammar))
        core.add(key, Priority.LIVE, FaultyAsker(key, request, fuse))
        while core.has_work:
            core.step()

    for _ in range(2):
        for number in range(MAX_BUGS):
            ask(f"v{number}", "make_request")
        ask("well", "nothing")  # from here on they are counted anew
    for number in range(MAX_BUGS):
        ask(f"v{number}", ("absorb", "fill")[number % 2])
    with pytest.raises(Bug):
        ask("last", "make_request")


def whisper_folder(folder: Path) -> Path:
    return build_random_whisper(folder, layers=1, width=32, heads=2, seed=3, context=96)


def moonshine_folder(folder: Path) -> Path:
    build_random_moonshine(folder, seed=2, max_position_embeddings=300)
    return folder


@pytest.mark.parametrize(
    ("build", "where", "name"),
    [
        (whisper_folder, whisper_runner, "WhisperSequence"),
        (moonshine_folder, moonshine_runner, "MoonshineSequence"),
    ],
    ids=["whisper", "moonshine"],
)
def test_who_cannot_be_placed_takes_no_room(
    build: Callable[[Path], Path],
    where: ModuleType,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = playing.make_core(build(tmp_path), max_rows=2)
    script = playing.turn("s", 0, 1.2, language="en")

    def faulty(*_: object, **__: object) -> None:
        raise Bug(name)

    with monkeypatch.context() as broken:
        broken.setattr(where, name, faulty)
        for _ in range(3):
            events = playing.play(core, script)
            assert [type(e) for e in events if isinstance(e, TurnFailed)] == [TurnFailed]
            core.submit(CloseSession("s"))
            core.check()
    assert isinstance(playing.play(core, script)[-1], TurnCompleted)
