"""Who speaks, live, over real sockets and engines: whatever wire it is asked on, the last that is
told of a word is what the diariser says of the whole recording with the same cut."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import pytest_asyncio
import soxr
from numpy.typing import NDArray
from websockets.asyncio.client import connect

from lookhear.engine.client.client import EngineClient
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.nemotron3_diarisation import LIVE
from lookhear.engine.messages import DiariseFile, Event, SpeakersHeard, SpeakerTurn
from lookhear.gateway.who_speaks import label, speaker_of
from tests.end_to_end.conftest import Talk
from tests.gateway.deepgram.frames import check
from tests.gateway.running import Running, running
from tools.random_checkpoints.diarisation import STREAMING, build_random_diariser

pytestmark = pytest.mark.asyncio(loop_scope="module")
RATE = 16_000  # what the engine hears, so that nothing is resampled on the way
PATIENCE = 60.0  # seconds for what takes one or two
PACKET = RATE // 10  # samples


@dataclass
class Known:
    """What the last session was told: up to where it is known who speaks, in seconds, and turns
    that are over."""

    seconds: float = 0.0
    over: list[SpeakerTurn] = field(default_factory=list)
    more: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, event: Event) -> None:
        if isinstance(event, SpeakersHeard):
            self.seconds = event.seconds
            self.over += event.over
            self.more.set()

    async def reach(self, seconds: float) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.seconds < seconds:
                self.more.clear()
                await self.more.wait()


@dataclass
class Served:
    gateway: Running
    engine: EngineClient
    known: Known

    async def turns(self, samples: NDArray[np.int16]) -> list[SpeakerTurn]:
        """Of the whole recording, which are those that were told live."""
        whole = (samples / np.float32(32768)).astype(np.float32)
        turns = (await self.engine.diarise_file(DiariseFile("file", "who", whole))).turns
        live = sorted(self.known.over, key=lambda turn: (turn.start, turn.speaker))
        assert live == [turn for turn in turns if turn.end < self.known.seconds]
        return turns


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: Any) -> AsyncIterator[Served]:
    """A gateway in this process, with an engine that hears, and one that tells speakers apart and
    cuts files as it cuts live audio."""
    folder: Path = build_random_diariser(tmp_path_factory.mktemp("who"), seed=12)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    live = ("fifo_length", "speaker_cache_update_period")
    config |= {"chunk_length": LIVE[0], "chunk_right_context": LIVE[1], "chunk_left_context": 0}
    config |= {name: STREAMING[name] for name in live}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    usual: Any = {"device": "cpu", "threads": 1, "max_lag_seconds": 0.0}
    engine = EngineClient(
        [
            EngineConfig(model="demo-whisper", **usual),
            EngineConfig(model=str(folder), served_name="who", dtype="float32", **usual),
        ]
    )
    await engine.load()
    known, open_session = Known(), engine.open_session

    def watched(session: str, on_event: Callable[[Event], None]) -> None:
        def both(event: Event) -> None:
            on_event(event)
            known.hear(event)

        known.seconds, known.over = 0.0, []
        open_session(session, both)

    engine.open_session = watched  # type: ignore[method-assign]
    try:
        async with running(engine=cast(Any, engine)) as gateway:
            yield Served(gateway, engine, known)
    finally:
        await engine.close()


def recording(talk: Talk, utterances: int) -> NDArray[np.int16]:
    """The first of them, with a second of silence before each and two at the end, in which the
    diariser hears all that it wants to hear beside them; at 16 kHz."""
    spoken = sum(1.0 + u.end - u.start for u in talk.utterances[:utterances])
    pcm = np.concatenate([talk.pcm[: round(spoken * 24_000)], np.zeros(48_000, "<i2")])
    resampled: NDArray[np.int16] = soxr.resample(pcm, 24_000, RATE)
    return resampled


def packets(samples: NDArray[np.int16]) -> list[bytes]:
    return [samples[at : at + PACKET].tobytes() for at in range(0, len(samples), PACKET)]


def check_speakers(
    words: Sequence[tuple[float, float, str]], turns: Sequence[SpeakerTurn], least: int
) -> None:
    """words: of each, when it was said and who is told to say it. Where nobody is heard, it is of
    whoever was known next to it. Times on the wire are rounded, to ms."""
    heard = [word for word in words if any(t.start < word[1] and t.end > word[0] for t in turns)]
    wrong, roundings = [], (-0.002, 0.0, 0.002)
    for start, end, who in heard:
        right = {
            label(speaker_of(start + a, end + b, turns))
            for a, b in itertools.product(roundings, roundings)
        }
        if who not in right:
            wrong.append((start, end, who, right))
    assert not wrong
    assert len(heard) >= least and len({who for _, _, who in heard}) > 1, heard


async def test_on_openais_wire(served: Served, talks: dict[str, Talk]) -> None:
    samples = recording(talks["en"], 3)
    input = {"format": {"type": "audio/pcm", "rate": RATE}}
    starts: dict[str, float] = {}
    times: dict[str, list[dict[str, Any]]] = defaultdict(list)
    said: dict[str, list[dict[str, Any]]] = {}  # who says what, by item, as it was told last
    unsettled: set[str] = set()
    async with served.gateway.client() as client:
        await client.update({"audio": {"input": input}, "lookhear": {"speakers": True}})
        for packet in packets(samples):
            await client.append(packet)
        while len(said) < 3 or unsettled:
            frame = await client.receive()
            item = frame.get("item_id", "")
            match frame["type"].rpartition(".")[2]:
                case "speech_started":
                    starts[item] = frame["audio_start_ms"] / 1000
                case "words":
                    times[item] += frame["words"]
                case "completed":
                    said[item] = frame["lookhear"]["segments"]
                    assert "".join(s["text"] for s in said[item]) == frame["transcript"]
                    if not frame["lookhear"]["settled"]:
                        unsettled.add(item)
                case "speakers":
                    unsettled.remove(item)
                    said[item] = frame["segments"]
                case "error":
                    raise AssertionError(frame)
    words = []
    for item, segments in said.items():
        who = [segment["speaker"] for segment in segments for _ in segment["text"].split()]
        spans = [(starts[item] + w["start"], starts[item] + w["end"]) for w in times[item]]
        words += [(*span, by) for span, by in zip(spans, who, strict=True)]
    check_speakers(words, await served.turns(samples), least=12)


async def test_on_deepgrams_wire(served: Served, talks: dict[str, Talk]) -> None:
    """Results are told once, so the client lets the end of its stream wait until all is known."""
    samples, said = recording(talks["en"], 1), talks["en"].utterances[0]
    query = f"encoding=linear16&sample_rate={RATE}&endpointing=60000&diarize=true&language=en"
    url = f"ws://127.0.0.1:{served.gateway.port}/v1/listen?{query}"
    words = []
    async with connect(url, proxy=None) as socket:
        for packet in packets(samples):
            await socket.send(packet)
        await served.known.reach(1.0 + said.end - said.start)
        await socket.send('{"type": "CloseStream"}')
        async with asyncio.timeout(PATIENCE):
            frames = [check(json.loads(frame)) async for frame in socket]
    for frame in frames:
        if frame["type"] == "Results" and frame["is_final"]:
            for word in frame["channel"]["alternatives"][0]["words"]:
                words.append((word["start"], word["end"], label(word["speaker"])))
    check_speakers(words, await served.turns(samples), least=6)
