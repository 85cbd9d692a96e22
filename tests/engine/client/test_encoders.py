"""Encoders beside the engines of a model: each medium is asked of one of them, and answered to all
who wanted it, whoever dies meanwhile."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.client import client as client_module
from lookhear.engine.client import supervisor
from lookhear.engine.client.client import EngineClient
from lookhear.engine.client.encoders import MOST_DEATHS
from lookhear.engine.client.pool import Pool
from lookhear.engine.client.wire import PREFIX, Codec
from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import (
    EncodeMedium,
    EncodingFailed,
    Event,
    MediumEncoded,
    Message,
    ModelCard,
    Ready,
)
from tests.engine.client.listening import Listening, until


@pytest.fixture(autouse=True)
def _listening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "Replica", Listening)
    monkeypatch.setattr(supervisor, "RESTART_PAUSES", (0.0,))


def medium(name: int) -> EncodeMedium:
    return EncodeMedium(bytes([name]) * 16, 4, np.ones((1, 3, 8, 8), np.float32))


def encoded(name: int) -> MediumEncoded:
    return MediumEncoded(bytes([name]) * 16, np.ones((4, 8), np.float32))


class Parted:
    """A model of two language engines and two encoders, all up."""

    def __init__(self, recover_seconds: float = 60.0, encoders: int = 2) -> None:
        config = EngineConfig(
            model="m", replicas=2, encoders=encoders, recover_seconds=recover_seconds
        )
        self.client = EngineClient([config])
        self.pool = self.client._fleet.pool("m")
        self.engines = cast(list[Listening], self.pool.replicas)
        self.encoders = cast(list[Listening], self.pool.encoders.replicas)

    async def load(self) -> None:
        for replica in (*self.engines, *self.encoders):
            replica.come_up()
        await self.client.load()

    def got(self, replica: Listening, kind: type[Message]) -> list[Message]:
        return [message for message in replica.got if isinstance(message, kind)]

    async def kill(self, replica: Listening) -> None:
        """It ends, and is started again; it is not up yet."""
        runs = replica.runs
        replica.kill()
        await until(lambda: replica.runs == runs + 1)


async def test_each_engine_knows_its_part() -> None:
    parted = Parted()
    assert [r.config.role for r in parted.engines] == ["language"] * 2
    assert [r.config.role for r in parted.encoders] == ["encoder"] * 2
    whole = Pool(EngineConfig(model="m"), lambda own: Listening(own, lambda _, event: None))
    assert [r.config.role for r in whole.engines] == [""]
    labels = [state.label for state in parted.client.states]
    assert labels == ["m", "m#2", "m#encoder-1", "m#encoder-2"]
    assert labels == [replica.label for replica in parted.pool.engines]


async def test_the_models_card_is_of_the_whole() -> None:
    parted = Parted()
    await parted.load()
    for replica, parameters in ((parted.engines[0], 70), (parted.encoders[1], 30)):
        card = ModelCard("m", "qwen3-vl", [], 0, parameters)
        replica.tell(Ready([card], 1, "cpu", "float32"))
    (card,) = parted.client.models
    assert card.parameters == 100
    await parted.client.close()


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
def test_devices_are_dealt_to_encoders_behind_the_others(
    workers: int, replicas: int, encoders: int, cards: int
) -> None:
    device = ",".join(f"cuda:{card}" for card in range(cards))
    dealt = []
    for worker in range(1, workers + 1):
        config = EngineConfig(
            model="m",
            replicas=replicas,
            encoders=encoders,
            device=device,
            workers=workers,
            worker=worker,
        )
        pool = Pool(config, lambda own: Listening(own, lambda _, event: None))
        dealt += [(r.config.role, r.number, r.config.device) for r in pool.engines]
    devices = [device for _, _, device in sorted(dealt, key=lambda e: (e[0] == "encoder", e[1]))]
    assert devices == [f"cuda:{i % cards}" for i in range(len(devices))]


async def test_a_medium_is_asked_once_and_told_to_all_who_want_it() -> None:
    parted = Parted()
    await parted.load()
    one, other = parted.engines
    first, second = parted.encoders
    one.tell(medium(1))
    other.tell(medium(1))
    one.tell(medium(2))
    assert (len(first.got), len(second.got)) == (1, 1), "who has the least to do is asked"
    first.tell(encoded(1))
    assert len(parted.got(one, MediumEncoded)) == len(parted.got(other, MediumEncoded)) == 1
    second.tell(EncodingFailed(bytes([2]) * 16, "model_error", "it burnt"))
    assert len(parted.got(one, EncodingFailed)) == 1 and not parted.got(other, EncodingFailed)
    first.tell(encoded(1))  # nobody waits for it any more
    assert len(parted.got(one, MediumEncoded)) == 1
    await parted.client.close()


async def test_what_a_dead_encoder_had_is_asked_of_another_or_of_it_again() -> None:
    parted = Parted()
    await parted.load()
    first, second = parted.encoders
    for name in range(4):
        parted.engines[0].tell(medium(name))
    assert (len(first.got), len(second.got)) == (2, 2)
    await parted.kill(first)
    assert len(second.got) == 4, "the other has them all"
    await parted.kill(second)
    first.got.clear()
    first.come_up()
    await until(lambda: len(first.got) == 4)
    for name in range(4):
        first.tell(encoded(name))
    assert len(parted.got(parted.engines[0], MediumEncoded)) == 4
    await parted.client.close()


async def test_a_medium_that_kills_encoders_fails() -> None:
    parted = Parted(encoders=1)
    await parted.load()
    (encoder,) = parted.encoders
    parted.engines[0].tell(medium(1))
    for _ in range(MOST_DEATHS):
        await until(lambda: len(encoder.got) == 1)
        encoder.got.clear()
        await parted.kill(encoder)
        encoder.come_up()
    (failed,) = parted.got(parted.engines[0], EncodingFailed)
    assert isinstance(failed, EncodingFailed) and failed.code == "engine_died"
    await parted.client.close()


async def test_without_an_encoder_it_is_waited_for_so_long() -> None:
    parted = Parted(recover_seconds=0.05, encoders=1)
    await parted.load()
    await parted.kill(parted.encoders[0])
    parted.engines[0].tell(medium(1))
    await until(lambda: bool(parted.got(parted.engines[0], EncodingFailed)))
    (failed,) = parted.got(parted.engines[0], EncodingFailed)
    assert isinstance(failed, EncodingFailed) and failed.code == "engine_unavailable"
    await parted.client.close()


async def test_engines_that_die_are_told_nothing_and_others_do_not_notice() -> None:
    parted = Parted()
    await parted.load()
    dead, other = parted.engines
    heard: list[Event] = []
    parted.client.open_session("s", heard.append)
    dead.tell(medium(1))
    other.tell(medium(1))
    await parted.kill(dead)
    dead.got.clear()
    dead.come_up()
    await until(lambda: dead.is_running)
    for encoder in parted.encoders:
        encoder.tell(encoded(1))
    assert not parted.got(dead, MediumEncoded) and len(parted.got(other, MediumEncoded)) == 1
    await parted.kill(parted.encoders[0])
    assert not heard and parted.client.is_ready("m"), "an encoder's death is no session's"
    await parted.client.close()


@pytest.mark.parametrize("item", [medium(3), encoded(3), EncodingFailed(b"x" * 16, "a", "b")])
def test_they_travel_as_they_are(item: EncodeMedium | MediumEncoded | EncodingFailed) -> None:
    prefix, header, payload = Codec().encode(item)
    assert PREFIX.unpack(prefix) == (len(header), len(payload))
    read = Codec().decode(bytes(header), bytes(payload))
    assert type(read) is type(item) and read.digest == item.digest
    for name in ("features", "rows"):
        if hasattr(item, name):
            assert np.array_equal(getattr(read, name), getattr(item, name))
