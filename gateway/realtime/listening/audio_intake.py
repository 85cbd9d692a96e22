"""The media side of a session: bytes in, samples and speech boundaries out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lookhear.gateway.realtime.listening.turn import RecentAudio
from lookhear.media.audio.pcm import AudioFormat, PcmStream
from lookhear.media.voice import smart_turn
from lookhear.media.voice.silero import SileroModel, SileroStream
from lookhear.media.voice.vad import (
    SpeechPaused,
    SpeechStarted,
    SpeechStopped,
    VadConfig,
    VadEvent,
    VoiceDetector,
)

PIECE = 512  # samples, a window of the detector: none is judged behind the one with an event

LONGEST = 16 * PIECE  # samples told at once: of each is said up to where there was a voice

Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Heard:
    """The next samples of the session and what the detector found in them.

    samples: [n] float32 at 16 kHz. events: in order, positions on the session's clock, which counts
    samples from 0. voiced_until: on the same clock, the end of the last window with speech.
    speaking: whether the detector is inside speech after these samples. sound: at a pause, [m], the
    turn up to the first pause of this silence, 2.5 s at most; None: it was asked about. over: at a
    pause, how probably the turn is over by that sound; None: nobody was asked, or could tell.
    """

    samples: Samples
    events: list[VadEvent] = field(default_factory=list)
    voiced_until: int = 0
    speaking: bool = False
    sound: Samples | None = None
    over: float | None = None

    @property
    def pause(self) -> SpeechPaused | None:
        """The one that the samples end in."""
        last = self.events[-1] if self.events else None
        return last if isinstance(last, SpeechPaused) else None


class Ends(Protocol):
    """Who can tell whether turns are over, and counts them."""

    async def ask(self, sound: Samples) -> float | None:
        """sound: [n], of a turn up to now -> how probably it is over; None: nobody can tell now."""

    def decided(self, rule: str) -> None:
        """A turn ended by `silence`, by `words` or by `sound`."""


def _stops(heard: Heard) -> bool:
    return any(isinstance(event, SpeechStopped) for event in heard.events)


class AudioIntake:
    """Decoder, resampler and voice detector of one session. One caller at a time.

    In three steps, since the middle one is cheaper for many sessions together (see `VadBatcher`):
    `decode`, the probabilities of the `windows`, and `judge`.
    """

    def __init__(self, model: SileroModel, format: AudioFormat, vad: VadConfig) -> None:
        self._stream = PcmStream(format)
        self._detector = VoiceDetector(model, vad)
        self._tail: list[Samples] = []  # flushed when the format changed, not yet heard
        self._recent: RecentAudio | None = None  # of this turn, where its sound is asked about
        self._sound: Samples | None = None  # of this turn at this silence; nobody was asked yet
        self._over: float | None = None  # by it, once somebody said so

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

    def judge(self, samples: Samples, probabilities: Sequence[float]) -> Iterator[Heard]:
        """probabilities: k, of the windows of these samples -> the samples, with near_field less
        voices that are not near; at each speech boundary a new `Heard` begins. A turn that is ended
        meanwhile is over for those that follow."""
        judged = iter(probabilities)
        detector = self._detector
        if not detector.config.pauses_ms:
            self._recent = None
        elif self._recent is None:
            self._recent = RecentAudio(detector.position)
        if detector.config.near_field:
            samples = samples.copy()
        begin = 0
        for start in range(0, len(samples), PIECE):
            end = min(start + PIECE, len(samples))
            events = detector.advance(end - start, judged)
            if detector.config.near_field:
                samples[start:end] = detector.quieten(samples[start:end])
            if self._recent is not None:
                self._remember(self._recent, samples[start:end], events)
            if events or end == len(samples) or end - begin >= LONGEST:
                heard = Heard(samples[begin:end], events, detector.voiced_until, detector.speaking)
                begin = end
                yield self._at_pause(heard)

    async def heard(
        self,
        samples: Samples,
        probabilities: Sequence[float],
        ends: Ends,
        wants_sound: Callable[[Heard], bool],
    ) -> AsyncIterator[Heard]:
        """As `judge`, and pauses come with what is known of them. wants_sound: whether it matters,
        at a pause, how the turn sounds: asking costs more than all else that is done here."""
        for part in self.judge(samples, probabilities):
            if part.sound is not None and wants_sound(part):
                part = self.told(part, await ends.ask(part.sound))
            yield part
            if _stops(part):
                if self._recent is not None:
                    ends.decided("silence")
            elif part.pause is not None and not self._detector.speaking:
                unheard = "silence" if part.sound is None else "words"
                ends.decided(unheard if part.over is None else "sound")

    def told(self, part: Heard, over: float | None) -> Heard:
        """What somebody says of its sound, for this pause and those that follow in this silence."""
        self._sound, self._over = None, over
        return replace(part, sound=None, over=over)

    def _at_pause(self, heard: Heard) -> Heard:
        recent, pause = self._recent, heard.pause
        if recent is None or pause is None:
            return heard
        if pause.milliseconds == self._detector.config.pauses_ms[0]:
            self._sound = self._over = None
            unheard = pause.milliseconds - smart_turn.SILENCE_MS
            end = pause.sample - unheard * smart_turn.RATE // 1000
            if end > recent.start:  # not asked for in the middle of the silence
                self._sound = recent.slice(max(recent.start, end - smart_turn.LENGTH), end)
        return replace(heard, sound=self._sound, over=self._over)

    def _remember(self, recent: RecentAudio, samples: Samples, events: Sequence[VadEvent]) -> None:
        recent.append(samples)
        begun = [event.sample for event in events if isinstance(event, SpeechStarted)]
        silence = self._detector.config.pauses_ms[0] * smart_turn.RATE // 1000
        recent.keep_from(max([recent.end - smart_turn.LENGTH - silence, *begun]))

    def tune(self, format: AudioFormat, vad: VadConfig) -> None:
        """New settings from the next bytes on; nothing heard so far is lost."""
        if format != self._stream.format:
            self._tail.append(self._stream.flush())
            self._stream = PcmStream(format)
        if vad != self._detector.config:
            self._detector.update(vad)

    def end_turn(self, sample: int | None = None) -> None:
        """The buffer ends here by hand: forget what is still undecoded, begin a new turn. Or the
        turn was over at `sample`, and the next begins no earlier."""
        if sample is not None:
            self._detector.end_turn(sample)
            return
        self._stream.reset()
        self._tail.clear()
        self._detector.end_turn()
