"""What items point at, as it is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.fetching.fetcher import Fetcher
from lookhear.gateway.fetching.pictures import Pictures
from lookhear.gateway.realtime.pictures.media_requests import AudioRequest, Recording, load
from lookhear.media.audio.pcm import AudioFormat
from lookhear.media.voice.silero import SileroModel
from tests.gateway.decoding.direct import ANYONE, decode_here

pytestmark = pytest.mark.asyncio

T = TypeVar("T")

SPEECH = Path(__file__).parents[3] / "media" / "data" / "speech.flac"


async def at_once(work: Callable[[], T], /) -> T:
    return work()


async def heard(samples: NDArray[np.float32]) -> Recording:
    audio = np.rint(samples * 32767).astype("<i2").tobytes()
    request = AudioRequest("item.content[0].audio", audio, AudioFormat("audio/pcm", 16_000))
    pictures = Pictures(GatewayConfig(), Fetcher(at_once), decode_here)
    media = await load([request], pictures, SileroModel(), at_once, ANYONE)
    found = media[request.path]
    assert isinstance(found, Recording)
    return found


async def test_of_a_recording_is_known_where_the_speech_ends() -> None:
    speech, _ = soundfile.read(SPEECH, dtype="float32")
    found = await heard(np.concatenate([speech, np.zeros(5 * 16_000, np.float32)]))
    assert len(found.samples) == len(speech) + 5 * 16_000
    assert 0 < found.voiced_until <= len(speech)


@pytest.mark.parametrize("loud", [0.0, 0.01])
async def test_where_nobody_speaks_there_is_no_speech(loud: float) -> None:
    noise = np.random.default_rng(0).normal(0.0, loud, 5 * 16_000).astype(np.float32)
    found = await heard(noise)
    assert (len(found.samples), found.voiced_until) == (5 * 16_000, 0)
