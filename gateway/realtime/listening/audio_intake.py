"""The media side of a session: bytes in, samples and speech boundaries out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lookhear.media.audio.pcm import AudioFormat, PcmStream
from lookhear.media.voice.silero import SileroModel, SileroStream
from lookhear.media.voice.vad import VadConfig, VadEvent, VoiceDetector

PIECE = 1600  # samples: how finely `voiced_until` is known where an event falls

Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Heard:
    """The next samples of the session and what the detector found in them.

    samples: [n] float32 at 16 kHz. events: in order, positions on the session's clock, which counts
    samples from 0. voiced_until: on the same clock, the end of the last window with speech.
    speaking: whether the detector is inside speech after these samples.
    """

    samples: Samples
    events: list[VadEvent] = field(default_factory=list)
    voiced_until: int = 0
    speaking: bool = False


class AudioIntake:
    """Decoder, resampler and voice detector of one session. One caller at a time.

    In three steps, since the middle one is cheaper for many sessions together (see `VadBatcher`):
    `decode`, the probabilities of the `windows`, and `judge`.
    """

    def __init__(self, model: SileroModel, format: AudioFormat, vad: VadConfig) -> None:
        self._stream = PcmStream(format)
        self._detector = VoiceDetector(model, vad)
        self._tail: list[Samples] = []  # flushed when the format changed, not yet heard

    @property
    def voice(self) -> SileroStream:
        """What the probabilities of the next windows depend on."""
        return self._detector.stream

    def decode(self, chunks: Sequence[bytes], *, flush: bool) -> Samples:
        """-> [n], the next samples of the session."""
        parts, self._tail = self._tail, []
        parts.append(self._stream.feed(b"".join(chunks)))
        if flush:
            parts.append(self._stream.flush())
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def windows(self, samples: Samples) -> Samples:
        """samples: what was decoded -> [k, CONTEXT + WINDOW], the windows that they complete."""
        return self._detector.windows(samples)

    def judge(self, samples: Samples, probabilities: Sequence[float]) -> list[Heard]:
        """probabilities: k, of the windows of these samples -> the samples; at each speech boundary
        a new `Heard` begins."""
        judged = iter(probabilities)
        detector = self._detector
        heard: list[Heard] = []
        begin = 0
        for start in range(0, len(samples), PIECE):
            end = min(start + PIECE, len(samples))
            events = detector.advance(end - start, judged)
            if events or end == len(samples):
                heard.append(
                    Heard(samples[begin:end], events, detector.voiced_until, detector.speaking)
                )
                begin = end
        return heard

    def tune(self, format: AudioFormat, vad: VadConfig) -> None:
        """New settings from the next bytes on; nothing heard so far is lost."""
        if format != self._stream.format:
            self._tail.append(self._stream.flush())
            self._stream = PcmStream(format)
        if vad != self._detector.config:
            self._detector.update(vad)

    def end_turn(self) -> None:
        """The buffer ends here by hand: forget what is still undecoded, begin a new turn."""
        self._stream.reset()
        self._tail.clear()
        self._detector.end_turn()
