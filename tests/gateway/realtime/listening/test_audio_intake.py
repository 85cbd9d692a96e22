"""Bytes to samples and boundaries, with the real decoder and the real detector."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.gateway.realtime.listening.audio_intake import AudioIntake, Heard
from lookhear.media.audio.decode import decode_audio
from lookhear.media.audio.pcm import AudioFormat
from lookhear.media.voice.vad import SileroModel, SpeechStarted, SpeechStopped, VadConfig
from tests.gateway.running import chunks
from tests.media.audio.encoders import encode_pcm16

SPEECH = Path(__file__).parents[3] / "media" / "data" / "speech.flac"
PCM24 = AudioFormat()


@pytest.fixture(scope="module")
def silero() -> SileroModel:
    return SileroModel()


@pytest.fixture(scope="module")
def speech() -> bytes:
    """1 s silence, speech, a pause, speech; PCM16 at 24 kHz."""
    return encode_pcm16(decode_audio(SPEECH, target_rate=24_000).samples)


def hear(
    silero: SileroModel, intake: AudioIntake, chunks: Sequence[bytes], *, flush: bool
) -> list[Heard]:
    samples = intake.decode(chunks, flush=flush)
    [probabilities] = silero.judge([intake.voice], [intake.windows(samples)])
    return list(intake.judge(samples, probabilities.tolist()))


def everything(
    silero: SileroModel, parts: Sequence[Sequence[bytes]], vad: VadConfig | None = None
) -> list[Heard]:
    intake = AudioIntake(silero, PCM24, vad or VadConfig())
    heard = [piece for part in parts for piece in hear(silero, intake, part, flush=False)]
    return heard + hear(silero, intake, [], flush=True)


def test_grouping_and_splitting_change_nothing(silero: SileroModel, speech: bytes) -> None:
    whole = everything(silero, [[speech]])
    split = everything(silero, [chunks(c, 333) for c in chunks(speech, 50_001)])
    samples = [np.concatenate([h.samples for h in heard]) for heard in (whole, split)]
    assert np.array_equal(samples[0], samples[1])
    events = [[e for h in heard for e in h.events] for heard in (whole, split)]
    assert events[0] == events[1]
    assert [type(e) for e in events[0]][:2] == [SpeechStarted, SpeechStopped]


def test_voiced_until_is_known_where_a_turn_stops(silero: SileroModel, speech: bytes) -> None:
    """Also when all the audio comes in one piece and more speech follows."""
    position = 0
    for heard in everything(silero, [[speech]], VadConfig(silence_duration_ms=300)):
        position += len(heard.samples)
        assert heard.voiced_until <= position
        for event in heard.events:
            if isinstance(event, SpeechStopped):
                assert heard.voiced_until <= event.sample - 4800
                assert not heard.speaking


def test_silence_that_comes_at_once_is_not_told_as_speech(silero: SileroModel) -> None:
    """Of a minute in one piece, too, each half second says whether there was a voice."""
    sound = decode_audio(SPEECH, target_rate=24_000).samples
    silence = np.zeros(20 * 24_000, np.float32)
    audio = encode_pcm16(np.concatenate([silence, sound, silence, sound]))
    intake = AudioIntake(silero, PCM24, VadConfig())
    position, unvoiced = 0, 0
    for heard in hear(silero, intake, [audio], flush=True):
        assert len(heard.samples) <= SAMPLE_RATE * 0.6
        position += len(heard.samples)
        unvoiced += heard.voiced_until <= position - len(heard.samples)
    assert unvoiced >= 70, "of more than 80 in which nobody speaks"


def test_what_is_not_near_is_hardly_heard_where_that_is_wanted(silero: SileroModel) -> None:
    """One sentence near, the other far away: a gap of silence between them, noise behind both."""
    sound = decode_audio(SPEECH, target_rate=24_000).samples
    stopped = [e.sample for h in everything(silero, [[encode_pcm16(sound)]]) for e in h.events][1]
    sound[stopped * 3 // 2 :] *= 10 ** (-20 / 20)
    audio = encode_pcm16(sound)
    usual = np.concatenate([h.samples for h in everything(silero, [[audio]])])
    parts = [[piece] for piece in chunks(audio, 4_800)]
    heard = everything(silero, parts, VadConfig(near_field=True))
    near = np.concatenate([h.samples for h in heard])
    assert [type(e) for h in heard for e in h.events] == [SpeechStarted, SpeechStopped]
    voiced = heard[-1].voiced_until
    assert len(near) == len(usual) and np.array_equal(near[:voiced], usual[:voiced])
    assert np.std(near[stopped:]) < 0.2 * np.std(usual[stopped:]), "its first syllable"


def test_a_change_of_format_loses_nothing(silero: SileroModel, speech: bytes) -> None:
    intake = AudioIntake(silero, PCM24, VadConfig())
    first = hear(silero, intake, [speech[:96_000]], flush=False)
    intake.tune(AudioFormat("audio/pcm", 16_000), VadConfig())
    second = hear(silero, intake, [bytes(32_000)], flush=True)
    assert sum(len(h.samples) for h in first + second) == 32_000 + 16_000


def test_clearing_forgets_what_was_not_decoded_yet(silero: SileroModel) -> None:
    intake = AudioIntake(silero, PCM24, VadConfig())
    hear(silero, intake, [bytes(4801)], flush=False)
    intake.end_turn()
    assert hear(silero, intake, [], flush=True) == []
