"""Qwen3-ASR's audio encoder by captured graphs: a shape for a number of chunks (seconds of audio),
whatever windows they belong to.

    windows -> chunks, zeros behind the last frame -> convolutions -> tokens that are real, packed
            -> layers, attention inside windows    -> rows of each window

Which tokens are real, and where windows end, are integers of the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor

from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.device.graphs import Fields, Shape
from lookhear.engine.device.staging import Integers, to_device
from lookhear.engine.models.audio_encoder import PAD_MULTIPLE, AudioEncoder
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.paged.request import Medium

# Of one pass; eight closed windows are 64. A dozen ticks in a step are some 50, and what is padded
# is computed too.
CHUNKS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96)


class AudioGraphs:
    """Encodes media as the model does. See `MediaEncoder`."""

    def __init__(self, model: Qwen3AsrModel, acceleration: Acceleration) -> None:
        assert acceleration.memory is not None
        self._model = model
        self._encoder: AudioEncoder = model.encoder
        dims = self._encoder.dims
        self._chunk_tokens = dims.num_tokens(dims.chunk_frames)
        shape = (CHUNKS[-1], dims.num_mels, dims.chunk_frames)
        self._chunks = acceleration.memory.persistent(shape, self._encoder.dtype)
        capacity = CHUNKS[-1] * (self._chunk_tokens + 1) + 256
        self.graphs = acceleration.new_graphs(capacity)
        shapes: list[Shape] = [(count,) for count in CHUNKS]
        self.graphs.plan("encode", shapes, self._region, lambda shape: self._integers([], shape[0]))

    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """Per medium [num_tokens, width], in memory that the next call may write. In several passes
        if it is too much for the largest graph."""
        encoded: list[Tensor] = []
        for group in self._groups(media):
            if encoded:  # this pass writes where the one before did
                encoded = [rows.clone() for rows in encoded]
            encoded += self._encode(group)
        return encoded

    def _groups(self, media: Sequence[Medium]) -> list[list[Medium]]:
        """In order, as many in each as the largest graph takes, but one at least."""
        groups: list[list[Medium]] = []
        room = 0
        for medium in media:
            count = -(-medium.features.shape[1] // self._encoder.dims.chunk_frames)
            if not groups or count > room:
                groups.append([])
                room = CHUNKS[-1]
            groups[-1].append(medium)
            room -= count
        return groups

    def _encode(self, media: Sequence[Medium]) -> list[Tensor]:
        chunk = self._encoder.dims.chunk_frames
        frames = [medium.features.shape[1] for medium in media]
        counts = [-(-number // chunk) for number in frames]
        shape = self.graphs.fit("encode", sum(counts))
        if shape is None:
            eager: list[Tensor] = self.graphs.run("encode", None, lambda: self._model.encode(media))
            return eager
        packed = np.empty((sum(counts), *self._chunks.shape[1:]), np.float32)
        at = 0
        for medium in media:
            features = medium.features
            full, rest = divmod(features.shape[1], chunk)
            whole = features[:, : full * chunk].reshape(len(features), full, chunk)
            packed[at : at + full] = whole.transpose(1, 0, 2)
            at += full
            if rest:
                packed[at, :, :rest], packed[at, :, rest:] = features[:, full * chunk :], 0.0
                at += 1
        self.graphs.staging.put(self._integers(frames, shape[0]), is_fixed=True)
        self._chunks[:at] = to_device(packed, torch.float32, self._chunks.device)
        rows = self.graphs.run("encode", shape, lambda: None)
        ends = list(accumulate(map(self._encoder.dims.num_tokens, frames), initial=0))
        return [rows[a:b] for a, b in pairwise(ends)]

    def _integers(self, frames: Sequence[int], num_chunks: int) -> dict[str, Integers]:
        """frames: of each window. places: [tokens] of the real tokens among those of all chunks;
        limits: [chunks + 1] of the windows, of which there are no more than chunks."""
        dims = self._encoder.dims
        size = num_chunks * self._chunk_tokens
        places = np.zeros(size + -size % PAD_MULTIPLE, np.int64)
        limits = np.zeros(num_chunks + 1, np.int64)
        chunk = end = 0
        for index, number in enumerate(frames):
            count = dims.num_tokens(number)
            # A window's chunks but the last are whole, so its tokens lie side by side.
            first = chunk * self._chunk_tokens
            places[end : end + count] = np.arange(first, first + count)
            end += count
            chunk += -(-number // dims.chunk_frames)
            limits[index + 1 :] = end
        return {"places": places, "limits": limits}

    def _region(self, fields: Fields) -> Tensor:
        num_chunks = len(fields["limits"]) - 1
        tokens = self._encoder.convolve(self._chunks[:num_chunks]).flatten(0, 1)
        return self._encoder.transform(tokens[fields["places"]], fields["limits"])
