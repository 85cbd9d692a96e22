"""Deepgram's turn-based wire against the real thing: it hears what OpenAI's hears, word for
word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lookhear.bench.recordings.dataset import Audio
from lookhear.client import AsyncClient
from lookhear.commands.private_server import ServerProcess
from lookhear.live.events import TurnCompleted
from lookhear.live.turns import ServerVad
from tests.end_to_end.conftest import Talk
from tests.end_to_end.dialects.replay import replayed
from tests.end_to_end.dialects.test_deepgram import apart
from tests.gateway.realtime.deepgram.flux import check, check_order, ended, kinds

QUERY = "model=flux-general-en&encoding=linear16&sample_rate=24000"
STREAM = {"headers": {}, "packet": 48_000, "before": [], "after": ['{"type": "CloseStream"}']}
# What the SDKs sent of one utterance by the programs of `test_deepgram_sdks`, as it was recorded.
RECORDED = json.loads((Path(__file__).parent / "flux_sdks.json").read_text("utf-8"))


async def listen(port: int, talk: Talk, query: str) -> list[dict[str, Any]]:
    """-> every frame until the server closes."""
    path = f"/v2/listen?{QUERY}&{query}"
    frames, _ = await replayed({**STREAM, "path": path}, port, talk.pcm.tobytes())
    check_order([check(frame) for frame in frames])
    return frames


@pytest.mark.parametrize("query", ["eot_timeout_ms=2000", "eager_eot_threshold=0.4&keyterm=phone"])
async def test_it_hears_what_the_openai_wire_hears(
    server: ServerProcess, client: AsyncClient, talks: dict[str, Talk], query: str
) -> None:
    talk = apart(talks["en"])
    pause = ServerVad(silence_duration_ms=900)
    stream = client.transcribe(
        talk.samples, rate=24_000, pace=None, language="en", turn_detection=pause
    )
    turns = [event async for event in stream if isinstance(event, TurnCompleted)]
    expected = [turn for turn in sorted(turns, key=lambda turn: turn.start) if turn.text.strip()]
    ends = ended(await listen(server.port, talk, query))
    texts = [turn.text.strip() for turn in expected]
    if "keyterm" not in query:  # which the toy takes for something that was said
        assert [frame["transcript"] for frame in ends] == texts
    assert len(ends) == len(expected) == len(talk.utterances)
    for frame, turn in zip(ends, expected, strict=True):
        assert abs(frame["audio_window_start"] - turn.start) <= 0.05
        assert turn.end - 0.8 <= frame["audio_window_end"] <= turn.end + 1.2  # by sound or silence
        assert " ".join(word["word"] for word in frame["words"]) == frame["transcript"]
        for word in frame["words"]:
            assert 0.0 < word["confidence"] <= 1.0
            assert frame["audio_window_start"] - 0.05 <= word["start"] <= word["end"]
            assert word["end"] <= frame["audio_window_end"] + 0.05


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["client"])
async def test_what_the_sdks_send_is_answered(
    server: ServerProcess, talks: dict[str, Talk], recorded: dict[str, Any]
) -> None:
    said = talks["en"].utterances[0]
    told, code = await replayed(recorded, server.port, Audio().of(said).tobytes())
    frames = [check(frame) for frame in told]
    check_order(frames)
    assert " ".join(frame["transcript"] for frame in ended(frames)) == said.text
    assert ended(frames)[-1]["trigger"] == "manual"
    assert kinds(frames)[:2] == ["Connected", "ConfigureSuccess"] and code == 1000
