"""demo-qwen3-asr behind the same socket and the same client, beside demo-whisper."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import pairwise

import httpx
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from lookhear.client import AsyncClient
from lookhear.commands.private_server import ServerProcess
from lookhear.live.events import Event, TextDelta, TurnCompleted, TurnFailed, Word, Words
from lookhear.wer import word_errors
from tests.end_to_end.conftest import SERVE, Talk
from tests.end_to_end.dialects.replay import replayed

Timed = tuple[str, float, float]
MODEL, ALIGNER = "demo-qwen3-asr", "demo-qwen3-aligner"
WER_BOUND = 0.15  # of three utterances; the benchmark has the real number
FASTER = 4.0


MEDIAN, MOST = 0.05, 0.12
"""Seconds that words are told away from when they were said: the median, and nine in ten."""


@pytest.fixture(scope="module")
def two_models() -> Iterator[ServerProcess]:
    arguments = ["--model", "demo-whisper", "--model", MODEL, "--aligner", ALIGNER, *SERVE]
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
        cues = await http.post(
            url,
            data={"model": MODEL, "response_format": "srt"},
            files={"file": wav(talk.samples)},
        )
    told, words = answer.json(), answer.json()["words"]
    assert told["text"] == plain.json()["text"] and told["segments"] == plain.json()["segments"]
    assert word_errors(talk.text, told["text"]).rate <= WER_BOUND
    assert [word["word"] for word in words] == told["text"].split()
    assert all(0 <= word["start"] <= word["end"] <= seconds for word in words)
    assert all(a["start"] <= b["start"] and a["end"] <= b["end"] for a, b in pairwise(words))
    for segment in told["segments"]:
        within = [w for w in words if segment["start"] <= w["start"] <= segment["end"]]
        assert within, segment
    check_times(talk, [(w["word"], w["start"], w["end"]) for w in words])
    edges = re.findall(r"(\d\d):(\d\d):(\d\d),(\d{3})", cues.text)
    seconds_of = [3600 * int(h) + 60 * int(m) + int(s) + int(ms) / 1000 for h, m, s, ms in edges]
    starts, ends = ({round(w[edge], 2) for w in words} for edge in ("start", "end"))
    assert edges and {round(t, 2) for t in seconds_of[::2]} <= starts
    assert {round(t, 2) for t in seconds_of[1::2]} <= ends


def check_times(talk: Talk, told: list[Timed]) -> None:
    """Words that were heard, told when the synthesiser said them; seconds from the beginning."""
    said, at = list[Timed](), 1.0
    for utterance in talk.utterances:
        said += [(w.word, at + w.start, at + w.end) for w in utterance.words]
        at += utterance.end - utterance.start + 1.0
    spellings = [[bare(word) for word, *_ in words] for words in (said, told)]
    matcher = SequenceMatcher(None, spellings[0], spellings[1], autojunk=False)
    away = list[float]()
    for block in matcher.get_matching_blocks():
        for i in range(block.size):
            (_, *wanted), (_, *got) = said[block.a + i], told[block.b + i]
            away += [abs(a - b) for a, b in zip(wanted, got, strict=True)]
    assert len(away) >= 2 * (1 - WER_BOUND) * len(said), (said, told)
    assert np.median(away) <= MEDIAN and np.quantile(away, 0.9) <= MOST, (said, told)


def bare(word: str) -> str:
    return word.strip(".,?!¿¡").lower()


@pytest.mark.parametrize("language", ["en", "de"])
async def test_live_words_are_timed(
    client: AsyncClient, talks: dict[str, Talk], language: str
) -> None:
    talk, all_words = talks[language], list[Word]()
    events = await hear(client, talk, words=True)
    for turn in completed(events):
        mine = [e for e in events if getattr(e, "item_id", None) == turn.item_id]
        words = [word for e in mine if isinstance(e, Words) for word in e.words]
        # A sign may be committed after its word.
        assert [bare(word.word) for word in words] == [bare(word) for word in turn.text.split()]
        assert all(a.start <= b.start and a.end <= b.end for a, b in pairwise(words))
        assert all(turn.start <= w.start <= w.end <= turn.end + 0.01 for w in words)
        all_words += words
    check_times(talk, [(word.word, word.start, word.end) for word in all_words])


async def test_deepgram_s_words_are_timed(
    two_models: ServerProcess, talks: dict[str, Talk]
) -> None:
    talk = talks["es"]
    url = f"{two_models.address.base_url}/v1/listen?model={MODEL}&language=es"
    async with httpx.AsyncClient(timeout=60.0) as http:
        file = (await http.post(url, content=wav(talk.samples))).json()
    (channel,) = file["results"]["channels"]
    told = channel["alternatives"][0]["words"]
    check_times(talk, [(w["word"], w["start"], w["end"]) for w in told])

    path = f"/v1/listen?model={MODEL}&language=es&encoding=linear16&sample_rate=24000"
    stream = {"headers": {}, "packet": 48_000, "before": [], "after": ['{"type": "CloseStream"}']}
    frames, _ = await replayed({**stream, "path": path}, two_models.port, talk.pcm.tobytes())
    results = [frame for frame in frames if frame["type"] == "Results" and frame["is_final"]]
    live = [word for frame in results for word in frame["channel"]["alternatives"][0]["words"]]
    check_times(talk, [(w["word"], w["start"], w["end"]) for w in live])
