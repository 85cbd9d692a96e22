"""What the query of Deepgram's URLs may ask for, and what of it is refused by name."""

from __future__ import annotations

import pytest
from starlette.datastructures import QueryParams

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.deepgram.options import REFUSED, live_options
from lookhear.gateway.realtime.deepgram.dialect import DeepgramDialect
from lookhear.gateway.realtime.settings import SessionSettings
from lookhear.media.audio.pcm import AudioFormat
from tests.gateway.fake_chat import VISION
from tests.gateway.fake_engine import CARDS
from tests.gateway.realtime.deepgram.listening import FORMAT
from tests.gateway.scripted import counted_ids

# As the Deepgram plugins of LiveKit's agents and of pipecat ask, whatever their users say.
LIVEKIT = (
    "model=fake-english&punctuate=true&smart_format=false&no_delay=true&interim_results=true&"
    "encoding=linear16&vad_events=true&sample_rate=16000&channels=1&endpointing=25&"
    "filler_words=true&profanity_filter=false&numerals=false&mip_opt_out=false&language=en-US"
)
PIPECAT = (
    "detect_entities=false&diarize=false&dictation=false&interim_results=true&numerals=false&"
    "punctuate=true&smart_format=false&model=fake-english&language=en&encoding=linear16&"
    "channels=1&multichannel=false&sample_rate=16000"
)


def first(
    query: str, models: list[ModelCard] | None = None
) -> tuple[SessionSettings, ProtocolError | None]:
    dialect = DeepgramDialect(QueryParams(query), counted_ids())
    return dialect.first_settings(CARDS if models is None else models)


@pytest.mark.parametrize("query", [LIVEKIT, PIPECAT])
def test_what_usual_clients_ask_for_can_be_had(query: str) -> None:
    settings, problem = first(query)
    assert problem is None
    assert settings.model == "fake-english" and settings.provisional and settings.words
    assert settings.format == AudioFormat("audio/pcm", 16_000)
    assert settings.converse is None


def test_names_mean_here_what_they_mean_there() -> None:
    settings, problem = first(
        "encoding=mulaw&sample_rate=8000&endpointing=700&utterance_end_ms=1200&language=de-AT"
    )
    assert problem is None and settings.turn_detection is not None
    assert settings.format == AudioFormat("audio/pcmu", 8000)
    assert settings.turn_detection.silence_duration_ms == 700
    assert (settings.silence_ms, settings.language) == (1200, "de")
    assert not settings.provisional


def test_a_turn_does_not_end_while_somebody_draws_breath() -> None:
    settings, _ = first(f"{FORMAT}&endpointing=10")
    assert settings.turn_detection is not None
    assert settings.turn_detection.silence_duration_ms == 200


@pytest.mark.parametrize(
    ("query", "packing"),
    [
        ("", "container"),
        ("encoding=flac", "container"),
        ("encoding=ogg-opus&sample_rate=48000", "container"),
        ("encoding=opus&sample_rate=48000", "opus"),
        (FORMAT, None),
    ],
)
def test_what_is_not_raw_says_itself_how_it_is_coded(query: str, packing: str | None) -> None:
    settings, problem = first(query)
    assert problem is None and settings.packing == packing
    assert settings.format == AudioFormat("audio/pcm", 16_000)


def test_channels_side_by_side_are_heard_as_one() -> None:
    assert first(f"{FORMAT}&channels=2")[0].format == AudioFormat("audio/pcm", 16_000, 2)
    assert first(f"{FORMAT}&channels=1")[0].format == AudioFormat("audio/pcm", 16_000)


@pytest.mark.parametrize(
    "query",
    [
        "language=multi&language_hint=en&language_hint=fr-CA",
        "detect_language=en&detect_language=fr-CA",
        "language=de&language_hint=de&detect_language=true&detect_language=en&detect_language=fr",
    ],
)
def test_hints_are_the_only_languages_that_may_be(query: str) -> None:
    settings, problem = first(f"{FORMAT}&{query}")
    assert problem is None
    assert (settings.language, settings.languages) == (None, ("en", "fr"))


@pytest.mark.parametrize(
    "query, named",
    [
        ("encoding=speex&sample_rate=48000", "encoding"),
        ("encoding=linear16", "sample_rate"),
        ("encoding=linear16&sample_rate=fast", "sample_rate"),
        ("encoding=linear16&sample_rate=1000", "sample_rate"),
        ("encoding=linear16&sample_rate=" + "9" * 5000, "sample_rate"),
        ("encoding=mulaw&sample_rate=16000", "sample_rate"),
        (f"{FORMAT}&channels=17", "channels"),
        (f"{FORMAT}&alternatives=3", "alternatives"),
        (f"{FORMAT}&interim_results=perhaps", "interim_results"),
        (f"{FORMAT}&endpointing=soon", "endpointing"),
        (f"{FORMAT}&endpointing=-5", "endpointing"),
        (f"{FORMAT}&endpointing=000000000999999999", "endpointing"),
        (f"{FORMAT}&utterance_end_ms=²", "utterance_end_ms"),
        (f"{FORMAT}&language=xx", "language"),
        (f"{FORMAT}&language=multi&language_hint=xx", "language_hint"),
        (f"{FORMAT}&detect_language=perhaps", "detect_language"),
        (f"{FORMAT}&keyterm=" + "x" * 101, "keyterm"),
        (FORMAT + "".join(f"&keyterm={i}" for i in range(101)), "keyterm"),
        (f"{FORMAT}&keywords=word:-2", "keywords"),
        (f"{FORMAT}&model=nova-3", "model"),
        *((f"{FORMAT}&{name}=true", name) for name in REFUSED),
    ],
)
def test_what_cannot_be_had_is_refused_by_name(query: str, named: str) -> None:
    _, problem = first(query)
    assert problem is not None and problem.message.startswith(f"{named}: expected"), problem


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_switched_off_is_not_asked_for(name: str) -> None:
    audio = live_options(QueryParams(f"{FORMAT}&{name}=false")).audio
    assert audio == AudioFormat("audio/pcm", 16_000)


def test_what_has_no_effect_is_named() -> None:
    asked = f"{FORMAT}&interim_result=true&numerals=true&numerals=true&keyterm=a&diarize=false"
    harmless = "tag=a&extra=a:b&mip_opt_out=true&version=latest&punctuate=true&smart_format=false"
    odd = "&a%0D%0Ab=1&=1&profanity_filter=true"
    options = live_options(QueryParams(f"{asked}&{harmless}{odd}"))
    assert options.ignored == ("interim_result", "numerals", "profanity_filter")
    everything = "".join(f"&name{i}=1" for i in range(100))
    assert len(live_options(QueryParams(FORMAT + everything)).ignored) == 32


def test_a_server_that_hears_nothing_says_so() -> None:
    _, problem = first(FORMAT, [VISION])
    assert problem is not None and "transcribes" in problem.message
