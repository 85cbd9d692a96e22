"""A window in which nobody speaks, encoded once: it stands for the padding of all short windows.

Whisper was trained on windows of 30 s, padded with silence, and misses what is cut off from them:
it repeats itself. But the padding hardly depends on what is said before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lookhear.kernels import attention, biased_attention

# Of a window's padding beside speech: the log-mel spectrogram keeps eight decades below the loudest
# sound, which for speech lies between 10^1 and 10^2; for louder or quieter ones texts are the same.
SILENT_LOG_MEL = -0.6
GROUP = 25  # positions, of 20 ms, that a CPU attends to as one
# Positions that a decoder attends to one by one. Some of the silence are unlike their neighbours,
# and it rests on those when it does not look at speech: with Whisper base 40 of 1,500 had three
# quarters of the weight. Averaged with others they change words, in Spanish more than in English.
ALONE = 128


@dataclass(frozen=True, slots=True)
class EncodedSilence:
    """keys_values: of every encoder layer, two of [1, groups, heads, head_dim]. sizes: [groups]
    positions of each group. group: of all but the last. cross: of every decoder layer [1, 2, heads,
    groups of its own, head_dim]. cross_sizes, cross_starts: positions of each of these, and the
    first of them, ascending."""

    keys_values: list[tuple[Tensor, Tensor]]
    sizes: Tensor
    group: int
    cross: list[Tensor]
    cross_sizes: Tensor
    cross_starts: Sequence[int]

    @classmethod
    def of(
        cls,
        keys_values: Sequence[tuple[Tensor, Tensor]],
        cross: list[Tensor],
        group: int,
        alone: int = ALONE,
    ) -> EncodedSilence:
        """keys_values: two of [1, positions, heads, head_dim] for each layer. cross: as
        `WhisperModel.project_cross` gives it for a batch of one. group: neighbours that are
        attended to as one, their mean, counted as often as they are. alone: positions that the
        decoder attends to one by one."""
        positions = keys_values[0][0].shape[1]
        groups = [
            list(range(start, min(start + group, positions)))
            for start in range(0, positions, group)
        ]
        pairs = [
            (_pooled(keys, 1, groups), _pooled(values, 1, groups)) for keys, values in keys_values
        ]
        theirs = groups if group == 1 else _without(groups, _unlike(cross, groups, alone))
        device = cross[0].device
        return cls(
            keys_values=pairs,
            sizes=torch.tensor([len(part) for part in groups], device=device),
            group=group,
            cross=[_pooled(x, 3, theirs) for x in cross],
            cross_sizes=torch.tensor([len(part) for part in theirs], device=device),
            cross_starts=[part[0] for part in theirs],
        )

    def attention(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Of a window's positions to themselves, and to the silence behind them: see `attention`.
        q, k, v: [batch, n, heads, head_dim], scaled; q may be of the last of them only."""
        batch, n = k.shape[:2]
        first = -(-n // self.group)
        rest = (x[:, first:].expand(batch, -1, -1, -1) for x in self.keys_values[layer])
        keys, values = (torch.cat(pair, dim=1) for pair in zip((k, v), rest, strict=True))
        if self.group == 1:
            return attention(q, keys, values, scale=1.0)
        bias = torch.cat([self.sizes.new_ones(n), self.sizes[first:]]).log()
        return biased_attention(q, keys, values, bias, scale=1.0)

    def cross_rest(self, n: int) -> tuple[list[Tensor], Tensor | None]:
        """What the decoder finds behind a window of n positions, for `CrossCache.write`: keys and
        values per layer, and how often each counts; None: once."""
        first = bisect_left(self.cross_starts, n)
        rest = [x[:, :, :, first:] for x in self.cross]
        return rest, None if self.group == 1 else self.cross_sizes[first:]

    def cross_behind(self, projected: Sequence[Tensor]) -> list[Tensor]:
        """What `WhisperModel.project_cross` gives for a window, with the silence behind it; where
        every position counts once."""
        assert self.group == 1
        batch, n = projected[0].shape[0], projected[0].shape[3]
        return [
            torch.cat([own, rest.expand(batch, -1, -1, -1, -1)], dim=3)
            for own, rest in zip(projected, self.cross_rest(n)[0], strict=True)
        ]


def _pooled(x: Tensor, axis: int, groups: Sequence[list[int]]) -> Tensor:
    """The mean of each group of positions, which lie along an axis."""
    if len(groups) == x.shape[axis]:
        return x
    means = [
        x.index_select(axis, torch.tensor(group, device=x.device)).float().mean(axis)
        for group in groups
    ]
    return torch.stack(means, dim=axis).to(x.dtype)


def _unlike(cross: Sequence[Tensor], groups: Sequence[list[int]], count: int) -> set[int]:
    """Positions whose keys are farthest from the mean of their group, over all decoder layers."""
    far = torch.zeros(cross[0].shape[3], device=cross[0].device)
    sizes = torch.tensor([len(group) for group in groups], device=far.device)
    for layer in cross:
        keys = layer[0, 0].float()  # [heads, positions, head_dim]
        means = _pooled(keys, 1, groups).repeat_interleave(sizes, dim=1)
        spread = (keys - keys.mean(1, keepdim=True)).square().sum((0, 2)).mean()
        far += (keys - means).square().sum((0, 2)) / spread.clamp(min=1e-9)
    return set(far.topk(min(count, len(far))).indices.tolist())


def _without(groups: Sequence[list[int]], alone: set[int]) -> list[list[int]]:
    """The same groups, but these positions are groups of their own; in order of their first."""
    left = [[i for i in group if i not in alone] for group in groups]
    return sorted([*([i] for i in alone), *(group for group in left if group)])
