"""Smart Turn: how probably somebody who pauses has said all, from the sound of the last seconds.

A small classifier shaped like Whisper's encoder (Daily, BSD-2-Clause; v3.2, its weights in 8 bits).
It listens to intonation and rhythm and needs no words. It is made for 8 s and asked about the last
2.5, for which it takes a quarter of the time and is right no less often
(docs/benchmarks/turns.md). It is optional: neither onnxruntime nor the file is part of the plain
installation.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lookhear.media.voice.onnx_file import ModelFileError, in_float, shortened

RATE = 16_000
MADE_FOR = 8  # seconds
LENGTH = RATE * 5 // 2  # samples that it hears
SILENCE_MS = 50  # of them behind the last word: with 200 more Spanish pauses sound like ends
WINDOW, HOP = 400, 160  # samples
FRAMES, BINS = LENGTH // HOP, 80
# Its places in time, of two frames each.
TABLE, PLACES = "encoder.embed_positions.weight", MADE_FOR * RATE // HOP // 2

Samples = NDArray[np.float32]
Features = NDArray[np.float32]


class TurnModel(Protocol):
    """What says how probably turns are over."""

    def judge(self, heard: Sequence[Samples]) -> list[float]:
        """heard: of several speakers, [n] float32 at 16 kHz up to now -> a probability for each."""


class TurnModelError(Exception):
    """The file cannot be used; says which and why."""


class LogMel:
    """Whisper's log-mel spectrogram of the last 2.5 s, of a waveform brought to mean 0, variance 1.

    What is shorter has silence in front of it: the classifier learned where the present is.
    """

    def __init__(self) -> None:
        self._filters = mel_filters()
        self._taper = np.hanning(WINDOW + 1)[:-1].astype(np.float32)

    def __call__(self, samples: Samples) -> Features:
        """samples: [n] -> [80, 250] float32."""
        wave = np.zeros(LENGTH, dtype=np.float32)
        samples = samples[-LENGTH:]
        wave[LENGTH - len(samples) :] = samples
        wave = (wave - wave.mean()) / np.sqrt(wave.var() + 1e-7)
        padded = np.pad(wave, WINDOW // 2, mode="reflect")
        frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP][:FRAMES]
        power = np.abs(np.fft.rfft(frames * self._taper, axis=1)) ** 2
        bels = np.log10(np.maximum(self._filters @ power.T, 1e-10))
        found: Features = ((np.maximum(bels, bels.max() - 8.0) + 4.0) / 4.0).astype(np.float32)
        return found


def mel_filters() -> NDArray[np.float32]:
    """Slaney's mel filter bank (Auditory Toolbox, 1998), as Whisper's: [80, 201], 0 to 8 kHz, each
    triangle of area 1 in Hz. Of numpy alone: librosa would bring 140 MB into the gateway."""
    step, bend, growth = 200 / 3, 15, np.log(6.4) / 27  # Hz a mel, up to 1 kHz; then as a logarithm
    top = bend + np.log(RATE / 2 / (bend * step)) / growth
    mels = np.linspace(0.0, top, BINS + 2)
    above = bend * step * np.exp(growth * (mels - bend))
    corners = np.where(mels < bend, mels * step, above)
    bins = np.linspace(0.0, RATE / 2, WINDOW // 2 + 1)
    filters = [
        np.interp(bins, corners[i : i + 3], [0.0, 2 / (corners[i + 2] - corners[i]), 0.0])
        for i in range(BINS)
    ]
    return np.array(filters, dtype=np.float32)


class SmartTurn:
    """The classifier in onnxruntime, on one thread. Not for several callers at once."""

    def __init__(self, path: Path) -> None:
        """Raises ImportError without onnxruntime, TurnModelError if the file is not the model."""
        # Its builds report their use to Microsoft, from the import on, unless told otherwise before
        # it. Whoever wants that sets 0.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3  # it warns of what nothing reads any more
        # It would round activations again by itself, otherwise on each processor.
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        try:
            # Rounded to 8 bits on the way, what it hears tells less (docs/benchmarks/turns.md).
            model = in_float(shortened(path.read_bytes(), TABLE, PLACES, FRAMES // 2))
            self._session = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"]
            )
        except OSError:
            raise
        except ModelFileError as error:
            raise TurnModelError(f"{path}: {error}") from error
        except Exception as error:  # onnxruntime has a class for each of its states, all its own
            raise TurnModelError(f"{path}: expected an ONNX model, got: {error}") from error
        inputs = [(tensor.name, list(tensor.shape[1:])) for tensor in self._session.get_inputs()]
        if inputs != [("input_features", [BINS, FRAMES])]:
            raise TurnModelError(
                f"{path}: expected a model of input_features [n, {BINS}, {FRAMES}], got {inputs}"
            )
        self._features = LogMel()

    def judge(self, heard: Sequence[Samples]) -> list[float]:
        """See `TurnModel`."""
        if not heard:
            return []
        features = np.stack([self._features(samples) for samples in heard])
        [probabilities] = self._session.run(None, {"input_features": features})
        return [float(probability) for probability in probabilities[:, 0]]
