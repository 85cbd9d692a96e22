"""The encoder of a streaming transducer: a conformer that hears a recording chunk by chunk.

    log-mel frames (10 ms) -> convolutions over time and pitch -> places (80 ms)
        -> layers: half a feed-forward, attention, a convolution over time, half a feed-forward

Convolutions look back only. In attention a place sees its own chunk to its end, and the chunks
behind it, as many as there is room for; so a chunk can be encoded as soon as it is there, and never
changes. How many places a chunk has is what the session waits for: the model was trained on
several sizes. What a chunk leaves to the next is kept in an `EncoderState`, which does not grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.engine.device.staging import to_device
from lookhear.engine.transducer.dims import EncoderDims
from lookhear.engine.transducer.weights import Attention, Convolution, EncoderWeights, Half, Layer
from lookhear.kernels import linear

THETA = 10_000.0  # of the sines that say how far apart two places are


@dataclass(slots=True)
class EncoderState:
    """What was heard of one recording, as far as the rest depends on it. stages: what the next
    output of each convolution in front reads of its input, [channels, frames, bands]. past: keys
    and values of the last places, [layers, 2, room, heads, head_dim], the newest last. held: of
    these, those that are any. turns: inputs of the convolution in each layer, [layers, kernel - 1,
    width]."""

    stages: list[Tensor]
    past: Tensor
    held: int
    turns: Tensor


@dataclass(frozen=True, slots=True)
class Piece:
    """More of a recording. frames: [n, mels] log-mel. is_last: there will be no more; before that,
    frames are of whole chunks."""

    state: EncoderState
    frames: Tensor
    is_last: bool


@dataclass(eq=False)
class Encoder:
    """One pass is over pieces of several recordings, whose chunks are of one size."""

    dims: EncoderDims
    weights: EncoderWeights
    # Of each layer, by the size of chunks: keys of how far a place is.
    _far: dict[int, list[Tensor]] = field(default_factory=dict)

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and activations."""
        return self.weights.layers[0].attention.far.dtype

    @property
    def device(self) -> torch.device:
        """Of everything."""
        return self.weights.layers[0].attention.far.device

    def room(self, chunk: int) -> int:
        """Places behind its chunk that one sees: of whole chunks."""
        return self.dims.left // chunk * chunk

    def begin(self, chunk: int) -> EncoderState:
        """Of a new recording."""
        dims = self.dims

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=self.dtype, device=self.device)

        stages, channels, bands = [], 1, dims.num_mels
        for _ in range(dims.stages):
            stages.append(zeros(channels, dims.stage_kernel - 1, bands))
            channels, bands = dims.channels, (bands + dims.stride - 2) // dims.stride + 1
        past = zeros(dims.layers, 2, self.room(chunk), dims.heads, dims.head_dim)
        return EncoderState(stages, past, 0, zeros(dims.layers, dims.kernel - 1, dims.width))

    @torch.inference_mode()
    def encode(
        self, pieces: Sequence[Piece], chunk: int
    ) -> tuple[list[Tensor], list[EncoderState]]:
        """chunk: places of each. Returns [places, width] of each piece, and what they leave."""
        places, stages = self._join(pieces)
        counts = [len(own) for own in places]
        if not max(counts):
            return places, [piece.state for piece in pieces]
        states = [piece.state for piece in pieces]
        x = torch.nn.utils.rnn.pad_sequence(places, batch_first=True) * self.dims.scale
        seen = self._seen([state.held for state in states], counts, chunk)
        room = self.room(chunk)
        left = [
            EncoderState(
                own,
                torch.empty_like(state.past),
                min(room, state.held + count),
                torch.empty_like(state.turns),
            )
            for own, state, count in zip(stages, states, counts, strict=True)
        ]
        for index, (layer, far) in enumerate(
            zip(self.weights.layers, self._far_keys(chunk), strict=True)
        ):
            past = torch.stack([state.past[index] for state in states])
            turns = torch.stack([state.turns[index] for state in states])
            x, keys_values, inputs = self._layer(layer, x, past, turns, far, seen)
            for row, (state, count) in enumerate(zip(left, counts, strict=True)):
                state.past[index] = keys_values[row, :, count : count + room]
                state.turns[index] = inputs[row, count : count + self.dims.kernel - 1]
        return [own[:count] for own, count in zip(x, counts, strict=True)], left

    # --- frames to places ------------------------------------------------------------------------

    def _join(self, pieces: Sequence[Piece]) -> tuple[list[Tensor], list[list[Tensor]]]:
        """Places, [n, width] of each piece, and what the convolutions keep; those of one shape
        together."""
        alike: dict[tuple[object, ...], list[int]] = {}
        for index, piece in enumerate(pieces):
            waiting = tuple(stage.shape[1] for stage in piece.state.stages)
            alike.setdefault((waiting, len(piece.frames), piece.is_last), []).append(index)
        places: list[Tensor] = [torch.empty(0)] * len(pieces)
        left: list[list[Tensor]] = [[]] * len(pieces)
        for indices in alike.values():
            group = [pieces[index] for index in indices]
            x = torch.stack([piece.frames.to(self.dtype) for piece in group])[:, None]
            kept_of: list[Tensor] = []
            for number in range(self.dims.stages):
                before = torch.stack([piece.state.stages[number] for piece in group])
                x = torch.cat([before, x], 2)
                x, unread = self._stage(number, x, is_last=group[0].is_last)
                kept_of.append(unread)
            joined = linear(x.transpose(1, 2).flatten(2), self.weights.join)
            for row, index in enumerate(indices):
                places[index] = joined[row]
                # Of its own: a part of a batch would keep all of that.
                left[index] = [unread[row].clone() for unread in kept_of]
        return places, left

    def _stage(self, number: int, x: Tensor, *, is_last: bool) -> tuple[Tensor, Tensor]:
        """x: [n, channels, frames, bands]. Returns what comes of it, and what the next output will
        read of it. At the end of a recording each convolution reads as many zeros behind it as it
        takes to see its last frame."""
        size, stride, stage = self.dims.stage_kernel, self.dims.stride, self.weights.stages[number]
        if is_last:
            x = F.pad(x, (0, 0, 0, stride - 1))
        count = max(0, (x.shape[2] - size) // stride + 1)
        kept = x[:, :, count * stride :]
        if not count:
            bands = (x.shape[3] + stride - 2) // stride + 1
            return x.new_empty(len(x), self.dims.channels, 0, bands), kept
        x = F.pad(x, (size - 1, stride - 1))
        groups = 1 if stage.point is None else self.dims.channels
        x = F.conv2d(x, *stage.conv, stride=stride, groups=groups)
        if stage.point is not None:
            x = F.conv2d(x, *stage.point)
        return x.relu(), kept

    # --- layers ----------------------------------------------------------------------------------

    def _layer(
        self, layer: Layer, x: Tensor, past: Tensor, turns: Tensor, far: Tensor, seen: _Seen
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x: [n, places, width]. Returns it behind the layer, and keys and values, and inputs of
        the convolution, each with what was there before in front."""
        x = x + 0.5 * _half(layer.first, x)
        change, keys_values = self._attend(layer.attention, x, past, far, seen)
        x = x + change
        change, inputs = self._convolve(layer.convolution, x, turns)
        x = x + change
        x = x + 0.5 * _half(layer.second, x)
        return layer.norm(x), keys_values, inputs

    def _attend(
        self, attention: Attention, x: Tensor, past: Tensor, far: Tensor, seen: _Seen
    ) -> tuple[Tensor, Tensor]:
        """past: [n, 2, room, heads, head_dim]. far: [heads, head_dim, distances]."""
        rows, count, width = x.shape
        qkv = linear(attention.norm(x), attention.qkv)
        qkv = qkv.view(rows, count, 3, self.dims.heads, self.dims.head_dim)
        keys_values = torch.cat([past, qkv[:, :, 1:].transpose(1, 2)], 2)
        keys, values = keys_values.transpose(2, 3).unbind(1)  # [n, heads, keys, head_dim]
        q = qkv[:, :, 0]
        scores = (q + attention.content).transpose(1, 2) @ keys.transpose(2, 3)
        by_distance = (q + attention.place).transpose(1, 2) @ far
        where = seen.distances.expand(rows, self.dims.heads, *seen.distances.shape)
        scores = scores + by_distance.gather(3, where)
        # Not -inf: places that fill up a row see nothing at all, and must not become NaN.
        scores = scores.float().masked_fill(seen.hidden, torch.finfo(torch.float32).min)
        mixed = scores.softmax(3).to(values.dtype) @ values
        out = linear(mixed.transpose(1, 2).reshape(rows, count, width), attention.out)
        return out, keys_values

    def _convolve(
        self, convolution: Convolution, x: Tensor, turns: Tensor
    ) -> tuple[Tensor, Tensor]:
        gated = F.glu(linear(convolution.norm(x), convolution.gate), 2)
        inputs = torch.cat([turns, gated], 1)
        deep = F.conv1d(inputs.transpose(1, 2), *convolution.depth, groups=self.dims.width)
        assert convolution.inner is not None
        normed = convolution.inner(deep.transpose(1, 2).contiguous())
        return linear(F.silu(normed), convolution.out), inputs

    # --- who sees whom ---------------------------------------------------------------------------

    def _seen(self, held: Sequence[int], counts: Sequence[int], chunk: int) -> _Seen:
        room, most = self.room(chunk), max(counts)
        queries = torch.arange(most, device=self.device)[:, None]
        keys = torch.arange(-room, most, device=self.device)
        chunks = queries // chunk - torch.div(keys, chunk, rounding_mode="floor")
        near = (chunks >= 0) & (chunks <= room // chunk)
        ends = to_device([*(-count for count in held), *counts], torch.int64, self.device)
        oldest, newest = ends.view(2, -1, 1)
        there = (keys >= oldest) & (keys < newest)
        hidden = ~(near & there[:, None])[:, None]
        # Those out of sight have any distance.
        distances = (queries - keys + chunk - 1).clamp(0, room + 2 * chunk - 2)
        return _Seen(hidden, distances)

    def _far_keys(self, chunk: int) -> list[Tensor]:
        """Of each layer [heads, head_dim, distances]: from chunk - 1 places ahead to the oldest
        one that is seen."""
        if chunk not in self._far:
            dims = self.dims
            steps = torch.arange(0, dims.width, 2, device=self.device) / dims.width
            places = torch.arange(1 - chunk, self.room(chunk) + chunk, device=self.device)
            angles = places[:, None].float() * (1.0 / THETA**steps)
            sines = torch.stack([angles.sin(), angles.cos()], 2).flatten(1).to(self.dtype)
            self._far[chunk] = [
                F.linear(sines, layer.attention.far)
                .view(-1, dims.heads, dims.head_dim)
                .permute(1, 2, 0)
                .contiguous()
                for layer in self.weights.layers
            ]
        return self._far[chunk]


@dataclass(frozen=True, slots=True)
class _Seen:
    """hidden: [n, 1, places, keys], what one does not see. distances: [places, keys], as an index
    of the keys of distances."""

    hidden: Tensor
    distances: Tensor


def _half(half: Half, x: Tensor) -> Tensor:
    return linear(F.silu(linear(half.norm(x), half.up)), half.down)
