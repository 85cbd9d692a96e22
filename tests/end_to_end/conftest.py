"""Real servers, gateway and engines, on the demo checkpoints, for all tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import psutil
import pytest
import pytest_asyncio
from numpy.typing import NDArray

from lookhear.bench.recordings.dataset import Audio, Utterance, held_out
from lookhear.client import AsyncClient
from lookhear.commands.private_server import ServerProcess
from lookhear.engine.client.client import EngineClient
from lookhear.engine.config import EngineConfig
from tests.gateway.running import Running, running
from tools.random_checkpoints.qwen3_vl import build_served_qwen3_vl

# The machine has other things to do; nobody is refused because of them.
SERVE = ["--threads", "1", "--max-lag", "0"]
SEEING = ["--model", "demo-qwen3-asr", "--model", "demo-qwen3-vl"]


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    with ServerProcess(arguments=SERVE, start_seconds=120.0) as process:
        yield process


@pytest.fixture(scope="session")
def seeing_server() -> Iterator[ServerProcess]:
    """One that hears, sees and answers. Who changes what it is starts another."""
    with ServerProcess(arguments=[*SEEING, *SERVE], start_seconds=120.0) as process:
        yield process


@pytest.fixture
def client(server: ServerProcess) -> AsyncClient:
    return AsyncClient(server.address.base_url)


@dataclass(frozen=True)
class Talk:
    """Held-out utterances of one language, with pauses between: samples at 24 kHz, and the text."""

    language: str
    utterances: tuple[Utterance, ...]
    pcm: NDArray[np.int16]

    @property
    def text(self) -> str:
        return " ".join(utterance.text for utterance in self.utterances)

    @property
    def first(self) -> NDArray[np.float32]:
        """The first utterance up to its last sample, after a second of silence."""
        said = self.utterances[0]
        return self.samples[: int((1.0 + said.end - said.start) * 24_000)]

    @property
    def samples(self) -> NDArray[np.float32]:
        return (self.pcm / np.float32(32768)).astype(np.float32)


@pytest.fixture(scope="session")
def talks() -> dict[str, Talk]:
    """By language code: three utterances of voices the model knows, a second of silence each."""
    audio, talks = Audio(), {}
    silence = np.zeros(24_000, "<i2")
    for language in ("en", "es", "de"):
        chosen = [u for u in held_out() if u.language == language and u.seen_voice][:3]
        pieces = [piece for u in chosen for piece in (audio.of(u), silence)]
        talks[language] = Talk(language, tuple(chosen), np.concatenate([silence, *pieces]))
    return talks


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seeing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """A gateway in this process, with the engine of a random Qwen3-VL behind it, named `vl`."""
    folder: Path = tmp_path_factory.mktemp("vl")
    build_served_qwen3_vl(folder)
    config = EngineConfig(
        model=str(folder),
        served_name="vl",
        device="cpu",
        dtype="float32",
        threads=1,
        kv_cache_gigabytes=0.05,
        recover_seconds=0.0,
    )
    engine = EngineClient([config])
    await engine.load()
    try:
        async with running(engine=cast(Any, engine)) as it:
            yield it
    finally:
        await engine.close()


def engine_pid(server: ServerProcess) -> int:
    """The process that the gateway started for the model."""
    (pid,) = engine_pids(server)
    return pid


def engine_pids(server: ServerProcess) -> list[int]:
    """Those that the gateway started, in the order of their start."""
    processes = psutil.Process(server.pid).children()
    engines = [p for p in processes if "lookhear.engine.process" in p.cmdline()]
    return [p.pid for p in sorted(engines, key=lambda p: p.create_time())]
