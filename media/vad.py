"""Voice activity: Silero VAD on onnxruntime, and the state machine that turns it into turns.

The model file lies beside this one (silero_vad.LICENSE.txt says where it comes from): the
`silero-vad` distribution that carries it depends on torch, which this package must never load.
All positions are absolute sample numbers on one 16 kHz stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

__all__ = [
    "SileroModel",
    "SileroState",
    "SpeechStarted",
    "SpeechStopped",
    "TurnDetector",
    "VadConfig",
    "VadEvent",
    "VoiceDetector",
]

Samples = NDArray[np.float32]

RATE = 16000
WINDOW = 512  # samples, 32 ms: what the model was trained on
CONTEXT = 64  # samples of the window before, which the model also sees
MODEL_FILE = "silero_vad.onnx"


@dataclass(frozen=True)
class SpeechStarted:
    """A turn began at `sample`, prefix padding included."""

    sample: int


@dataclass(frozen=True)
class SpeechStopped:
    """A turn ended at `sample`, the required silence included."""

    sample: int


VadEvent = SpeechStarted | SpeechStopped


@dataclass(frozen=True)
class VadConfig:
    """When speech counts as begun and as over. Probabilities in [0, 1], times in milliseconds."""

    threshold: float = 0.5
    negative_threshold: float | None = None  # None: threshold - 0.15, not below 0.01
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    min_speech_ms: int = 64

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold <= 1.0:
            raise ValueError(f"threshold: expected a number from 0 to 1; got {self.threshold!r}")
        if self.negative_threshold is not None and not (
            0.0 <= self.negative_threshold <= self.threshold
        ):
            raise ValueError(
                f"negative_threshold: expected a number from 0 to threshold ({self.threshold}); "
                f"got {self.negative_threshold!r}"
            )
        for name in ("prefix_padding_ms", "silence_duration_ms", "min_speech_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: expected 0 or more; got {getattr(self, name)!r}")

    @property
    def floor(self) -> float:
        """Below this probability a window of a running turn is silent."""
        if self.negative_threshold is not None:
            return self.negative_threshold
        return min(max(self.threshold - 0.15, 0.01), self.threshold)


class TurnDetector:
    """Speech probabilities in, turns out. Pure: no model, no clock.

    idle -> (min_speech_ms in a row at or above the threshold; dips down to the floor are
    forgiven) -> speaking -> (silence_duration_ms without a window at or above the threshold,
    counted from the first window below the floor) -> idle.
    """

    def __init__(self, config: VadConfig) -> None:
        self.config = config
        self.reset()

    def reset(self) -> None:
        """Back to sample 0, before any speech."""
        self.speaking = False
        self.voiced_until = 0
        self._turn_end = 0  # no turn may begin before this sample
        self._onset: int | None = None  # first window of a run of speech too short to count yet
        self._silent_from: int | None = None  # while speaking: where the present silence began

    def push(self, probability: float, start: int, end: int) -> VadEvent | None:
        """One window [start, end): the next one of the stream."""
        config = self.config
        voiced = probability >= config.threshold or (
            probability >= config.floor
            and (self._onset is not None or (self.speaking and self._silent_from is None))
        )
        if voiced:
            self.voiced_until = end
        if not self.speaking:
            return self._wait(voiced, start, end)
        if voiced:
            self._silent_from = None
            return None
        if self._silent_from is None:
            if probability >= config.floor:
                return None
            self._silent_from = start
        silence = config.silence_duration_ms * RATE // 1000
        if end - self._silent_from < silence:
            return None
        self.end_turn(self._silent_from + silence)
        return SpeechStopped(self._turn_end)

    def _wait(self, voiced: bool, start: int, end: int) -> VadEvent | None:
        if not voiced:
            self._onset = None
            return None
        if self._onset is None:
            self._onset = start
        if (end - self._onset) * 1000 < self.config.min_speech_ms * RATE:
            return None
        padding = self.config.prefix_padding_ms * RATE // 1000
        sample = max(self._onset - padding, self._turn_end)
        self.speaking, self._onset, self._silent_from = True, None, None
        return SpeechStarted(sample)

    def end_turn(self, sample: int) -> None:
        """The turn is over at `sample` (also by hand: a commit or a clear). No event is given."""
        self.speaking, self._onset, self._silent_from = False, None, None
        self._turn_end = max(self._turn_end, sample)


class SileroModel:
    """The network, loaded once and shared by all streams (onnxruntime's run is thread-safe)."""

    def __init__(self, path: Path | None = None) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Without this an idle pool thread would spin on a core that the engine needs.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(
            str(path or Path(__file__).with_name(MODEL_FILE)),
            sess_options=options,
            providers=["CPUExecutionProvider"],
        )
        self._rate = np.array(RATE, dtype=np.int64)

    def run(self, window: Samples, state: Samples) -> tuple[float, Samples]:
        """window: [1, CONTEXT + WINDOW], state: [2, 1, 128] -> speech probability, next state."""
        probability, state = self._session.run(
            None, {"input": window, "state": state, "sr": self._rate}
        )
        return float(probability[0, 0]), state


class SileroState:
    """One stream's recurrent state and context."""

    def __init__(self, model: SileroModel) -> None:
        self._model = model
        self._window = np.zeros((1, CONTEXT + WINDOW), dtype=np.float32)
        self.reset()

    def reset(self) -> None:
        self._state: Samples = np.zeros((2, 1, 128), dtype=np.float32)
        self._window[:] = 0

    def probability(self, window: Samples) -> float:
        """window: [512] at 16 kHz, the next of the stream -> probability of speech in it."""
        assert window.shape == (WINDOW,), window.shape
        self._window[0, :CONTEXT] = self._window[0, WINDOW:]
        self._window[0, CONTEXT:] = window
        probability, self._state = self._model.run(self._window, self._state)
        return probability


class VoiceDetector:
    """A stream of samples in chunks of any size -> turns. Events do not depend on the chunking.

    Not thread-safe: one stream, one caller at a time.
    """

    def __init__(self, model: SileroModel, config: VadConfig | None = None) -> None:
        self._voice = SileroState(model)
        self._turns = TurnDetector(config or VadConfig())
        self._pending = np.zeros(0, dtype=np.float32)
        self.position = 0  # samples fed; up to one window of them is not judged yet

    @property
    def config(self) -> VadConfig:
        return self._turns.config

    @property
    def speaking(self) -> bool:
        return self._turns.speaking

    @property
    def voiced_until(self) -> int:
        """End of the last window with speech in it; 0 if there was none yet."""
        return self._turns.voiced_until

    def feed(self, samples: Samples) -> list[VadEvent]:
        """samples: [n] float32 at 16 kHz -> the events that they complete, in order."""
        self._pending = np.concatenate([self._pending, samples]).astype(np.float32, copy=False)
        start = self.position + len(samples) - len(self._pending)
        self.position += len(samples)
        events: list[VadEvent] = []
        offset = 0
        while offset + WINDOW <= len(self._pending):
            probability = self._voice.probability(self._pending[offset : offset + WINDOW])
            event = self._turns.push(probability, start + offset, start + offset + WINDOW)
            if event is not None:
                events.append(event)
            offset += WINDOW
        self._pending = self._pending[offset:].copy()
        return events

    def update(self, config: VadConfig) -> None:
        """New settings from the next window on; the turn in progress goes on."""
        self._turns.config = config

    def end_turn(self) -> None:
        """The turn ends here by hand (a commit, a clear): the next one begins no earlier.

        If the person speaks on, SpeechStarted follows again.
        """
        self._turns.end_turn(self.position)

    def reset(self) -> None:
        """A new stream: position 0, nothing heard."""
        self._voice.reset()
        self._turns.reset()
        self._pending = np.zeros(0, dtype=np.float32)
        self.position = 0
