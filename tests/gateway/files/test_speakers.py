"""Who said what: words and the turns of speakers, in both shapes, over HTTP and by themselves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from openai.types.audio import TranscriptionDiarized, TranscriptionTextSegmentEvent

from lookhear.engine.client.client import EngineRequestError
from lookhear.engine.messages import (
    FileTranscribed,
    ModelCard,
    Segment,
    SpeakerTurn,
    TranscribeFile,
    Word,
)
from lookhear.gateway.files.speakers import with_speakers
from lookhear.gateway.who_speaks import label, parts, speaker_of
from tests.gateway.deepgram.frames import check_transcript
from tests.gateway.fake_engine import CARDS, FakeEngine, OnProgress
from tests.gateway.files.test_http import wav
from tests.gateway.running import Running, running

DIARISER = ModelCard("who", "nemotron", [], 0, 1, abilities=["diarise"])
TURNS = [SpeakerTurn(0, 0.1, 1.0), SpeakerTurn(1, 0.9, 2.1), SpeakerTurn(0, 3.0, 3.5)]
WORDS = [Word(" Hello", 0.0, 0.4, 0.9), Word(" there.", 0.5, 0.8, 0.8)]
WORDS += [Word(" Hi,", 1.0, 1.3, 0.7), Word(" you.", 1.4, 2.0, 0.6), Word(" Yes.", 3.1, 3.4, 1.0)]
SEGMENTS = [Segment(" Hello there. Hi, you.", 0.0, 2.0, [1, 2], -0.2, 0.0)]
SEGMENTS += [Segment(" Yes.", 3.0, 3.5, [3], -0.1, 0.0)]
TEXT = "Hello there. Hi, you. Yes."


def heard(words: list[Word] = WORDS) -> FileTranscribed:
    return FileTranscribed("r", TEXT, "en", 4.0, SEGMENTS, words, 3)


# --- by themselves -------------------------------------------------------------------------------


def test_letters_go_on_behind_z() -> None:
    assert [label(n) for n in (0, 1, 25, 26, 27, 51, 52, 702)] == [
        *("A", "B", "Z", "AA", "AB", "AZ", "BA", "AAA"),
    ]


def test_a_word_is_of_whoever_speaks_most_of_it_or_next_to_it() -> None:
    assert speaker_of(0.8, 1.4, TURNS) == 1
    assert speaker_of(0.5, 1.0, TURNS) == 0
    assert speaker_of(2.2, 2.4, TURNS) == 1  # nearest
    assert speaker_of(2.8, 2.9, TURNS) == 0
    assert speaker_of(2.8, 2.9, []) == 0


def test_segments_are_cut_where_another_one_begins() -> None:
    result = with_speakers(heard(), TURNS)
    assert [word.speaker for word in result.words] == [0, 0, 1, 1, 0]
    assert [segment.speaker for segment in result.segments] == [1, 0]
    found = parts(result.segments, result.words)
    assert [(part.speaker, part.text) for part in found] == [
        (0, " Hello there."),
        (1, " Hi, you."),
        (0, " Yes."),
    ]
    assert [(part.start, part.end) for part in found] == [(0.0, 0.8), (1.0, 2.0), (3.0, 3.5)]


def test_without_words_segments_stay_whole() -> None:
    result = with_speakers(heard([]), TURNS)
    found = parts(result.segments, result.words)
    assert [(part.speaker, part.text) for part in found] == [
        (1, " Hello there. Hi, you."),
        (0, " Yes."),
    ]


SAID = st.lists(
    st.lists(st.tuples(st.sampled_from(["a", "the", "a,", "é."]), st.integers(0, 2)), max_size=6),
    max_size=4,
)


@given(SAID)
def test_parts_joined_are_the_text(said: list[list[tuple[str, int]]]) -> None:
    words, segments, at = [], [], 0.0
    for segment in said:
        text = "".join(f" {word}" for word, _ in segment)
        segments.append(Segment(text, at, at + len(segment), [], 0.0, 0.0, speaker=0))
        for word, speaker in segment:
            words.append(Word(f" {word}", at, at + 1, 1.0, speaker))
            at += 1
    found = parts(segments, words)
    assert "".join(part.text for part in found) == "".join(s.text for s in segments)
    spoken = [(word, speaker) for segment in said for word, speaker in segment]
    assert [(w, part.speaker) for part in found for w in part.text.split()] == spoken


# --- over HTTP -----------------------------------------------------------------------------------


class Two(FakeEngine):
    """Two people speak in every recording."""

    def __init__(self) -> None:
        super().__init__()
        self.models = [*CARDS, DIARISER]
        self.speakers = TURNS

    async def transcribe_file(
        self, message: TranscribeFile, on_progress: OnProgress | None = None
    ) -> FileTranscribed:
        self.files.append(message)
        if self.file_error is not None:
            raise self.file_error
        return replace(heard(WORDS if message.settings.words else []), request=message.request)


@pytest_asyncio.fixture
async def two() -> AsyncIterator[tuple[Running, httpx.AsyncClient]]:
    async with running(engine=Two()) as gateway:
        async with httpx.AsyncClient(
            base_url=gateway.http, trust_env=False, verify=False
        ) as client:
            yield gateway, client


async def post(client: httpx.AsyncClient, **data: Any) -> httpx.Response:
    files = {"file": ("a.wav", wav(1.0))}
    return await client.post("/v1/audio/transcriptions", files=files, data=data)


async def test_diarized_json_is_openais(two: tuple[Running, httpx.AsyncClient]) -> None:
    gateway, client = two
    answer = await post(client, response_format="diarized_json", chunking_strategy="auto")
    told = TranscriptionDiarized.model_validate(answer.json(), strict=True)
    assert [(s.speaker, s.text) for s in told.segments] == [
        ("A", " Hello there."),
        ("B", " Hi, you."),
        ("A", " Yes."),
    ]
    assert told.text == TEXT and len({s.id for s in told.segments}) == 3
    [asked] = gateway.engine.diarised
    assert asked.model == "who" and len(asked.samples) == 16_000
    assert gateway.engine.files[0].settings.words


async def test_who_said_it_is_told_of_a_stream_at_its_end(
    two: tuple[Running, httpx.AsyncClient],
) -> None:
    answer = await post(two[1], response_format="diarized_json", stream="true")
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    events = [json.loads(line) for line in lines[:-1]]
    assert lines[-1] == "[DONE]"
    said = [e for e in events if e["type"] == "transcript.text.segment"]
    for event in said:
        TranscriptionTextSegmentEvent.model_validate(event, strict=True)
    assert [event["speaker"] for event in said] == ["A", "B", "A"]
    assert events[-1]["type"] == "transcript.text.done"


async def test_verbose_json_has_speakers_if_they_are_wanted(
    two: tuple[Running, httpx.AsyncClient],
) -> None:
    gateway, client = two
    asked = {"response_format": "verbose_json", "timestamp_granularities[]": ["word", "segment"]}
    told = (await post(client, diarize="true", **asked)).json()
    assert [word["speaker"] for word in told["words"]] == ["A", "A", "B", "B", "A"]
    assert [segment["speaker"] for segment in told["segments"]] == ["B", "A"]
    told = (await post(client, **asked)).json()
    assert not any("speaker" in entry for entry in (*told["words"], *told["segments"]))
    assert len(gateway.engine.diarised) == 1  # nobody else is asked


@pytest.mark.parametrize(
    ("form", "param"),
    [
        ({"diarize": "true"}, "diarize"),
        (
            {"response_format": "diarized_json", "known_speaker_names[]": "Ada"},
            "known_speaker_names[]",
        ),
    ],
)
async def test_what_cannot_be_told_is_refused(
    two: tuple[Running, httpx.AsyncClient], form: dict[str, str], param: str
) -> None:
    answer = await post(two[1], **form)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == param


async def test_either_failure_is_the_answer(two: tuple[Running, httpx.AsyncClient]) -> None:
    gateway, client = two
    gateway.engine.diarise_error = EngineRequestError("model_error", "not finite")
    answer = await post(client, response_format="diarized_json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "model_error")
    gateway.engine.file_error = EngineRequestError("audio_too_long", "file: expected less")
    answer = await post(client, response_format="diarized_json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "audio_too_long")


async def test_a_diariser_that_is_down_is_told_before_anything_is_done(
    two: tuple[Running, httpx.AsyncClient],
) -> None:
    gateway, client = two
    gateway.engine.down.add("who")
    assert (await post(client, response_format="diarized_json")).status_code == 503
    assert not gateway.engine.files
    assert (await post(client)).status_code == 200


async def test_a_diariser_is_listed_and_transcribes_nothing(
    two: tuple[Running, httpx.AsyncClient],
) -> None:
    client = two[1]
    listed = (await client.get("/v1/models")).json()["data"]
    assert next(m for m in listed if m["id"] == "who")["abilities"] == ["diarise"]
    answer = await post(client, model="who")
    assert answer.status_code in (400, 404) and "who" in answer.json()["error"]["message"]


async def test_deepgrams_words_and_utterances_have_speakers(
    two: tuple[Running, httpx.AsyncClient],
) -> None:
    client = two[1]
    path = "/v1/listen?diarize=true&utterances=true"
    told = check_transcript((await client.post(path, content=wav(1.0))).json())
    [said] = told["results"]["channels"][0]["alternatives"]
    assert [word["speaker"] for word in said["words"]] == [0, 0, 1, 1, 0]
    spoken = [(u["speaker"], u["transcript"]) for u in told["results"]["utterances"]]
    assert spoken == [(0, "Hello there."), (1, "Hi, you."), (0, "Yes.")]
    told = (await client.post("/v1/listen?utterances=true", content=wav(1.0))).json()
    assert not any("speaker" in u for u in told["results"]["utterances"])
