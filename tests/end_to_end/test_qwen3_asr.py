"""demo-qwen3-asr behind the same socket and the same client, beside demo-whisper."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from itertools import pairwise

import httpx
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from lookhear.client import AsyncClient
from lookhear.commands.private_server import ServerProcess
from lookhear.live.events import Event, TextDelta, TurnCompleted, TurnFailed, Words
from lookhear.wer import word_errors
from tests.end_to_end.conftest import SERVE, Talk
from tools.random_checkpoints.qwen3 import build_random_qwen3_aligner

MODEL = "demo-qwen3-asr"
WER_BOUND = 0.15  # of three utterances; the benchmark has the real number
FASTER = 4.0


@pytest.fixture(scope="module")
def two_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """With an aligner of random weights: its times mean nothing, but they are times."""
    aligner = tmp_path_factory.mktemp("aligner")
    build_random_qwen3_aligner(aligner, labels=40)
    arguments = ["--model", "demo-whisper", "--model", MODEL, "--aligner", str(aligner), *SERVE]
    with ServerProcess(arguments=arguments, start_seconds=180.0) as process:
        yield process


@pytest.fixture
def client(two_models: ServerProcess) -> AsyncClient:
    return AsyncClient(two_models.address.base_url)


async def hear(client: AsyncClient, talk: Talk, **options: object) -> list[Event]:
    stream = client.transcribe(
        talk.samples,
        rate=24_000,
        pace=FASTER,
        **{"model": MODEL, **options},  # type: ignore[arg-type]
    )
    return [event async for event in stream]


def completed(events: list[Event]) -> list[TurnCompleted]:
    """In the order of speaking: a short turn may be completed before the one said before it."""
    turns = [e for e in events if isinstance(e, TurnCompleted) and e.text.strip()]
    return sorted(turns, key=lambda turn: turn.start)


@pytest.mark.parametrize("language", ["en", "es", "de"])
async def test_speech_becomes_its_text(
    client: AsyncClient, talks: dict[str, Talk], language: str
) -> None:
    talk = talks[language]
    events = await hear(client, talk, provisional=True)
    assert not [e for e in events if isinstance(e, TurnFailed)]
    turns = completed(events)
    text = " ".join(turn.text for turn in turns)
    assert word_errors(talk.text, text).rate <= WER_BOUND, (text, talk.text)
    assert [turn.language for turn in turns] == [language] * len(turns)
    for turn in turns:
        mine = [e for e in events if getattr(e, "item_id", None) == turn.item_id]
        assert "".join(e.text for e in mine if isinstance(e, TextDelta)) == turn.text
        assert "<" not in turn.text and not turn.text.startswith("language")


async def test_one_long_turn_without_voice_detection(
    client: AsyncClient, talks: dict[str, Talk]
) -> None:
    """Segments stay open over pauses and follow each other with one space between."""
    talk = talks["en"]
    turns = completed(await hear(client, talk, turn_detection=None))
    (turn,) = turns
    assert word_errors(talk.text, turn.text).rate <= WER_BOUND, turn.text
    assert "  " not in turn.text and turn.text == turn.text.strip()


async def test_words_to_expect_do_not_get_into_the_text(
    client: AsyncClient, talks: dict[str, Talk]
) -> None:
    talk = talks["en"]
    turns = completed(await hear(client, talk, prompt="kitchen, museum", language="en"))
    text = " ".join(turn.text for turn in turns)
    assert word_errors(talk.text, text).rate <= 2 * WER_BOUND, text


async def test_both_models_at_once(client: AsyncClient, talks: dict[str, Talk]) -> None:
    heard = await asyncio.gather(
        *(hear(client, talks["de"], model=model) for model in (MODEL, "demo-whisper"))
    )
    for events in heard:
        text = " ".join(turn.text for turn in completed(events))
        assert word_errors(talks["de"].text, text).rate <= WER_BOUND, text


async def test_a_file(client: AsyncClient, talks: dict[str, Talk]) -> None:
    text = (await client.transcribe_file(wav(talks["es"].first), model=MODEL)).text
    assert word_errors(talks["es"].utterances[0].text, text).rate <= WER_BOUND, text


def wav(samples: NDArray[np.float32]) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, 24_000, format="WAV")
    return file.getvalue()


async def test_words_of_a_file_are_timed(two_models: ServerProcess, talks: dict[str, Talk]) -> None:
    talk = talks["en"]
    seconds = len(talk.samples) / 24_000
    url = f"{two_models.address.base_url}/v1/audio/transcriptions"
    wanted = {"model": MODEL, "response_format": "verbose_json"}
    both = {**wanted, "timestamp_granularities[]": ["word", "segment"]}
    async with httpx.AsyncClient(timeout=60.0) as http:
        answer = await http.post(url, data=both, files={"file": wav(talk.samples)})
        plain = await http.post(url, data=wanted, files={"file": wav(talk.samples)})
    told, words = answer.json(), answer.json()["words"]
    assert told["text"] == plain.json()["text"] and told["segments"] == plain.json()["segments"]
    assert word_errors(talk.text, told["text"]).rate <= WER_BOUND
    assert [word["word"] for word in words] == told["text"].split()
    assert all(0 <= word["start"] <= word["end"] <= seconds for word in words)
    assert all(a["start"] <= b["start"] and a["end"] <= b["end"] for a, b in pairwise(words))
    for segment in told["segments"]:
        within = [w for w in words if segment["start"] <= w["start"] <= segment["end"]]
        assert within, segment


async def test_live_words_are_timed(client: AsyncClient, talks: dict[str, Talk]) -> None:
    events = await hear(client, talks["en"], words=True)
    for turn in completed(events):
        mine = [e for e in events if getattr(e, "item_id", None) == turn.item_id]
        words = [word for e in mine if isinstance(e, Words) for word in e.words]
        bare = [word.word.rstrip(".,?!") for word in words]  # a sign may be committed after it
        assert bare == [word.rstrip(".,?!") for word in turn.text.split()]
        assert all(a.start <= b.start and a.end <= b.end for a, b in pairwise(words))
        assert all(turn.start <= w.start <= w.end <= turn.end + 0.01 for w in words)
