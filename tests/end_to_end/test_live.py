"""Speech in over a real socket, text out of a real model."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator

import numpy as np
import pytest
import soundfile

from lookhear.client import AsyncClient
from lookhear.live.events import (
    Event,
    Provisional,
    SpeechStarted,
    SpeechStopped,
    TextDelta,
    TurnCompleted,
    TurnFailed,
    Words,
)
from lookhear.wer import word_errors
from tests.end_to_end.conftest import Talk

LANGUAGES = ("en", "es", "de")
WER_BOUND = 0.15  # of three utterances: one wrong word in seven; the benchmark has the real number
FASTER = 4.0  # times the speed of speech: slow enough for text to come while it is spoken
PATIENCE = 60.0  # seconds for what takes one


async def hear(client: AsyncClient, talk: Talk, **options: object) -> list[Event]:
    stream = client.transcribe(talk.samples, rate=24_000, pace=FASTER, **options)  # type: ignore[arg-type]
    return [event async for event in stream]


def completed(events: list[Event]) -> list[TurnCompleted]:
    """In the order of speaking: a short turn may be completed before the one said before it."""
    turns = [e for e in events if isinstance(e, TurnCompleted) and e.text.strip()]
    return sorted(turns, key=lambda turn: turn.start)


def letters(text: str) -> str:
    return "".join(c for c in text if c.isalnum())


@pytest.mark.parametrize("language", LANGUAGES)
async def test_speech_becomes_its_text(
    client: AsyncClient, talks: dict[str, Talk], language: str
) -> None:
    talk = talks[language]
    events = await hear(client, talk, provisional=True, words=True)
    assert not [e for e in events if isinstance(e, TurnFailed)]
    turns = completed(events)
    text = " ".join(turn.text for turn in turns)
    assert word_errors(talk.text, text).rate <= WER_BOUND, (text, talk.text)
    assert [turn.language for turn in turns] == [language] * len(turns)
    for turn in turns:
        mine = [e for e in events if getattr(e, "item_id", None) == turn.item_id]
        assert "".join(e.text for e in mine if isinstance(e, TextDelta)) == turn.text
        assert mine[-1] == turn, "something followed the end of the turn"
        words = [word for e in mine if isinstance(e, Words) for word in e.words]
        # A mark that is committed after its word is no word of its own.
        assert letters("".join(word.word for word in words)) == letters(turn.text)
        for word in words:
            assert turn.start - 0.05 <= word.start <= word.end <= turn.end + 0.05


async def test_text_comes_while_the_person_speaks(
    client: AsyncClient, talks: dict[str, Talk]
) -> None:
    """Whoever speaks waits in mid-utterance: first for words, then for words that are firm."""
    talk = talks["en"]
    spoken: set[str] = set()  # items whose speech has not stopped
    shown: set[str] = set()
    committed: set[str] = set()
    news = asyncio.Event()

    async def until(items: set[str], count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(items) < count:
                news.clear()
                await news.wait()

    async def speak() -> AsyncIterator[bytes]:
        end = 0
        for number, utterance in enumerate(talk.utterances, 1):
            begin, end = end, end + 24_000 + int(24_000 * (utterance.end - utterance.start))
            half, most = (end - int(share * (end - begin - 24_000)) for share in (0.5, 0.1))
            yield talk.pcm[begin:half].tobytes()
            await until(shown, number)
            yield talk.pcm[half:most].tobytes()
            await until(committed, number)
            yield talk.pcm[most:end].tobytes()
        yield talk.pcm[end:].tobytes()

    async for event in client.transcribe(speak(), provisional=True):
        match event:
            case SpeechStarted():
                spoken.add(event.item_id)
            case SpeechStopped():
                spoken.discard(event.item_id)
            case Provisional() if event.text and event.item_id in spoken:
                shown.add(event.item_id)
            case TextDelta() if event.item_id in spoken:
                committed.add(event.item_id)
        news.set()
    assert len(shown) == len(committed) == len(talk.utterances)


async def test_nothing_private_comes_unasked(client: AsyncClient, talks: dict[str, Talk]) -> None:
    events = await hear(client, talks["en"])
    assert not [e for e in events if isinstance(e, (Provisional, Words))]


async def test_two_languages_at_once_do_not_mix(
    client: AsyncClient, talks: dict[str, Talk]
) -> None:
    heard = await asyncio.gather(*(hear(client, talks[code]) for code in ("es", "de")))
    for code, events in zip(("es", "de"), heard, strict=True):
        turns = completed(events)
        text = " ".join(turn.text for turn in turns)
        assert word_errors(talks[code].text, text).rate <= WER_BOUND, text
        assert {turn.language for turn in turns} == {code}


async def test_a_file_at_full_speed_as_one_turn(
    client: AsyncClient, talks: dict[str, Talk]
) -> None:
    """Null turn detection: the last sample counts although nothing follows it."""
    talk = talks["es"]
    stream = client.transcribe(talk.first, rate=24_000, turn_detection=None, language="es")
    (turn,) = [event async for event in stream if isinstance(event, TurnCompleted)]
    assert word_errors(talk.utterances[0].text, turn.text).rate <= WER_BOUND, turn.text


async def test_speech_up_to_the_very_end_is_heard(
    client: AsyncClient, talks: dict[str, Talk]
) -> None:
    talk = talks["en"]
    text = await client.transcribe_text(talk.first, rate=24_000)
    assert word_errors(talk.utterances[0].text, text).rate <= WER_BOUND, text


async def test_silence_and_noise_are_no_text(client: AsyncClient) -> None:
    noise = np.random.default_rng(0).normal(0, 0.003, 3 * 24_000).astype("f4")
    noise[:24_000] = 0.0
    assert await client.transcribe_text(noise, rate=24_000) == ""


async def test_a_whole_file_over_http(client: AsyncClient, talks: dict[str, Talk]) -> None:
    talk, file = talks["en"], io.BytesIO()
    soundfile.write(file, talk.first, 24_000, format="FLAC")
    transcript = await client.transcribe_file(file.getvalue())
    said = talk.utterances[0].text
    assert word_errors(said, transcript.text).rate <= WER_BOUND, transcript.text
    assert transcript.language in ("en", "english")
    assert transcript.duration == pytest.approx(len(talk.first) / 24_000, abs=0.05)
    assert transcript.segments and transcript.words
