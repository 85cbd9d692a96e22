"""Where somebody speaks in a whole recording."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lookhear.media.voice.silero import SileroModel
from lookhear.media.voice.vad import RATE, SpeechStarted, VadConfig, VoiceDetector

__all__ = ["FILE_CONFIG", "speech_stretches"]

Samples = NDArray[np.float32]

# Every pause is told: whoever reads the stretches decides which of them matter.
FILE_CONFIG = VadConfig(prefix_padding_ms=0, silence_duration_ms=128, min_speech_ms=96)
BLOCK = 30 * RATE  # samples judged at once: the windows of an hour would be 260 MB


def speech_stretches(
    model: SileroModel, samples: Samples, config: VadConfig = FILE_CONFIG
) -> list[tuple[int, int]]:
    """samples: [n] mono float32 at 16 kHz, of a whole recording.

    Returns the stretches with speech in them as (first sample, end), in order: with the padding of
    `config` in front, and apart by its silence at least. Takes 1.5 ms per second of audio.
    """
    detector = VoiceDetector(model, config)
    silence = config.silence_duration_ms * RATE // 1000
    found: list[tuple[int, int]] = []
    began: int | None = None
    for start in range(0, len(samples), BLOCK):
        for event in detector.feed(samples[start : start + BLOCK]):
            if isinstance(event, SpeechStarted):
                began = event.sample
            elif began is not None:
                found.append((began, event.sample - silence))
                began = None
    if began is not None:  # to the very end, as far as anybody can tell
        found.append((began, len(samples)))
    return found
