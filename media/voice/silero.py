"""Silero VAD 5: how probable speech is in each 32 ms of a stream, for many streams at once.

The network reads 512 samples and the 64 before them: magnitudes of a short Fourier transform
(window 256, hop 128), four convolutions over the time of the window, and one LSTM cell that carries
what was heard before. Only that cell needs the windows of a stream one after another. All else is
one matrix product per layer over all windows of all streams, and there it pays to batch: a window
among many costs a fifth of what it costs alone, and a sixth of what an ONNX runtime takes, whose
convolutions go window by window.

The weights are read from the model file that lies beside this module (silero_vad.LICENSE.txt says
where it comes from); the `silero-vad` distribution that carries it depends on torch, which this
package must never load.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookhear.media.voice.onnx_file import ModelFileError, initializers

__all__ = ["CONTEXT", "WINDOW", "ModelFileError", "SileroModel", "SileroStream"]

Array = NDArray[np.float32]

WINDOW = 512  # samples at 16 kHz, 32 ms: what the model was trained on
CONTEXT = 64  # samples of the window before, which the model also sees
MODEL_FILE = "silero_vad.onnx"
HIDDEN = 128
FRAME, HOP, FRAMES, BINS = 256, 128, 4, 129
TOGETHER = 48  # windows per matrix product: more would not stay in the cache


class SileroStream:
    """What the network carries from one window of a stream to the next."""

    __slots__ = ("hidden", "cell")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.hidden: Array = np.zeros(HIDDEN, dtype=np.float32)
        self.cell: Array = np.zeros(HIDDEN, dtype=np.float32)


class SileroModel:
    """The network, loaded once and shared by all streams. Has no state: threads may share it."""

    def __init__(self, path: Path | None = None) -> None:
        """Raises ModelFileError, OSError."""
        path = path or Path(__file__).with_name(MODEL_FILE)
        weights = dict(initializers(path.read_bytes()))

        def weight(name: str, *shape: int) -> Array:
            found = weights.get(f"model.{name}")
            if found is None or found.shape != shape:
                got = "nothing" if found is None else str(found.shape)
                raise ModelFileError(f"{path}: expected {name} of shape {shape}, got {got}")
            return found

        def convolution(layer: int, ins: int, outs: int) -> tuple[Array, Array]:
            """[3 * ins, outs], for three neighbours in time side by side."""
            name = f"encoder.{layer}.reparam_conv"
            kernel = weight(f"{name}.weight", outs, ins, 3)
            return _matrix(kernel.transpose(2, 1, 0).reshape(3 * ins, outs)), weight(
                f"{name}.bias", outs
            )

        self._basis = _matrix(weight("stft.forward_basis_buffer", 2 * BINS, 1, FRAME)[:, 0].T)
        self._layers = [
            convolution(0, BINS, 128),
            convolution(1, 128, 64),
            convolution(2, 64, 64),
            convolution(3, 64, 128),
        ]
        # The last layer sees one moment between zeros: only the middle of its kernel counts.
        self._layers[3] = _matrix(self._layers[3][0][64:128]), self._layers[3][1]
        # sigmoid(x) = (1 + tanh(x / 2)) / 2, so that one tanh serves all four gates. Gates are in
        # torch's order: input, forget, cell, output.
        half = np.repeat(np.array([0.5, 0.5, 1.0, 0.5], dtype=np.float32), HIDDEN)
        rnn = "decoder.rnn"
        bias = weight(f"{rnn}.bias_ih", 4 * HIDDEN) + weight(f"{rnn}.bias_hh", 4 * HIDDEN)
        self._from_input = _matrix(weight(f"{rnn}.weight_ih", 4 * HIDDEN, HIDDEN).T * half)
        self._from_hidden = _matrix(weight(f"{rnn}.weight_hh", 4 * HIDDEN, HIDDEN).T * half)
        self._gate_bias = bias * half
        self._out = weight("decoder.decoder.2.weight", 1, HIDDEN, 1)[0, :, 0]
        self._out_bias = weight("decoder.decoder.2.bias", 1)[0]

    def judge(self, streams: Sequence[SileroStream], windows: Sequence[Array]) -> list[Array]:
        """windows: for each stream its next ones, [k, CONTEXT + WINDOW], k may be 0 and differ.

        -> for each stream [k] probabilities of speech. The streams move on. A probability depends
        on what else is in the batch by rounding only (1e-6).
        """
        counts = np.array([len(own) for own in windows])
        # Longest first: then those that still have a window are always the first rows.
        order = np.argsort(-counts, kind="stable")
        most = int(counts.max(initial=0))
        if most == 0:
            return [np.zeros(0, dtype=np.float32) for _ in windows]
        gates = self._gates(np.concatenate([windows[i] for i in order]))
        firsts = np.concatenate([[0], np.cumsum(counts[order])])
        hidden = np.stack([streams[i].hidden for i in order])
        cell = np.stack([streams[i].cell for i in order])
        raw = np.zeros((len(streams), most), dtype=np.float32)
        for turn in range(most):
            rows = int(np.searchsorted(-counts[order], -turn, side="left"))
            mine = gates[firsts[:rows] + turn]
            mine += hidden[:rows] @ self._from_hidden
            np.tanh(mine, out=mine)
            wide = mine.reshape(rows, 4, HIDDEN)
            enter, keep, new, show = wide[:, 0], wide[:, 1], wide[:, 2], wide[:, 3]
            now = ((keep + 1) * cell[:rows] + (enter + 1) * new) * np.float32(0.5)
            cell[:rows] = now
            hidden[:rows] = (show + 1) * np.tanh(now) * np.float32(0.5)
            raw[:rows, turn] = np.maximum(hidden[:rows], 0) @ self._out
        probabilities = (np.tanh((raw + self._out_bias) * np.float32(0.5)) + 1) * np.float32(0.5)
        judged: list[Array] = [probabilities[0, :0]] * len(streams)
        for row, i in enumerate(order):
            if counts[i]:
                streams[i].hidden, streams[i].cell = hidden[row].copy(), cell[row].copy()
                judged[i] = probabilities[row, : counts[i]]
        return judged

    def _gates(self, windows: Array) -> Array:
        """[n, CONTEXT + WINDOW] -> [n, 4 * HIDDEN]: what the windows say to the cell's gates."""
        found = np.empty((len(windows), 4 * HIDDEN), dtype=np.float32)
        for i in range(0, len(windows), TOGETHER):
            seen = self._encode(windows[i : i + TOGETHER])
            np.matmul(seen, self._from_input, out=found[i : i + TOGETHER])
        found += self._gate_bias
        return found

    def _encode(self, windows: Array) -> Array:
        """[n, CONTEXT + WINDOW] -> [n, HIDDEN]."""
        n = len(windows)
        # The end is mirrored, so that the last frame is full.
        whole = np.concatenate([windows, windows[:, -2 : -CONTEXT - 2 : -1]], axis=1)
        frames = _neighbours(whole, FRAMES, FRAME, HOP)
        spectrum = frames @ self._basis
        np.square(spectrum, out=spectrum)
        x = np.zeros((n, FRAMES + 2, BINS), dtype=np.float32)
        power = (spectrum[:, :BINS] + spectrum[:, BINS:]).reshape(n, FRAMES, BINS)
        np.sqrt(power, out=x[:, 1:-1])
        # Each layer: [n, times + 2 zeros, channels] -> [n * times, channels], times by its stride.
        for (kernel, bias), times, stride in zip(
            self._layers[:3], (4, 2, 1), (1, 2, 2), strict=True
        ):
            channels = x.shape[2]
            flat = x.reshape(n, -1)
            near = _neighbours(flat, times, 3 * channels, stride * channels)
            y = near @ kernel
            y += bias
            np.maximum(y, 0, out=y)
            if times > 1:
                x = np.zeros((n, times + 2, y.shape[1]), dtype=np.float32)
                x[:, 1:-1] = y.reshape(n, times, -1)
        kernel, bias = self._layers[3]
        y = y @ kernel
        y += bias
        return np.maximum(y, 0, out=y)


def _neighbours(rows: Array, times: int, width: int, step: int) -> Array:
    """[n, length] -> [n * times, width]: `times` pieces of each row, `step` apart."""
    n, (across, along) = len(rows), rows.strides
    shape, strides = (n, times, width), (across, step * along, along)
    return np.lib.stride_tricks.as_strided(rows, shape, strides).reshape(n * times, width)


def _matrix(values: NDArray[np.float32]) -> Array:
    return np.ascontiguousarray(values, dtype=np.float32)
