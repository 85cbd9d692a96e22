"""A window in which nobody speaks, encoded once: it stands for the padding of all short windows.

Whisper was trained on windows of 30 s, padded with silence, and misses what is cut off from them:
it repeats itself. But the padding hardly depends on what is said before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lookhear.kernels import attention, biased_attention

# Of a window's padding beside speech: the log-mel spectrogram keeps eight decades below the loudest
# sound, which for speech lies between 10^1 and 10^2; for louder or quieter ones texts are the same.
SILENT_LOG_MEL = -0.6
GROUP = 25  # positions, of 20 ms, that a CPU attends to as one


@dataclass(frozen=True, slots=True)
class EncodedSilence:
    """keys_values: of every encoder layer, two of [1, groups, heads, head_dim]. sizes: [groups]
    positions of each group. cross: keys and values of every decoder layer, as
    `WhisperModel.project_cross` gives them for a batch of one."""

    keys_values: list[tuple[Tensor, Tensor]]
    sizes: Tensor
    cross: list[Tensor]

    @classmethod
    def of(
        cls, keys_values: Sequence[tuple[Tensor, Tensor]], cross: list[Tensor], group: int
    ) -> EncodedSilence:
        """keys_values: two of [1, positions, heads, head_dim] for each layer. group: neighbours
        that are attended to as one, their mean, counted as often as they are."""
        positions = keys_values[0][0].shape[1]
        starts = range(0, positions, group)

        def pooled(x: Tensor) -> Tensor:
            if group == 1:
                return x
            means = [x[:, start : start + group].float().mean(1) for start in starts]
            return torch.stack(means, dim=1).to(x.dtype)

        sizes = torch.tensor([min(group, positions - start) for start in starts])
        pairs = [(pooled(keys), pooled(values)) for keys, values in keys_values]
        return cls(pairs, sizes.to(cross[0].device), cross)

    def attention(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Of a window's positions to themselves, and to the silence behind them: see `attention`.
        q, k, v: [batch, n, heads, head_dim], scaled."""
        batch, n = k.shape[:2]
        group = int(self.sizes[0])
        first = -(-n // group)
        rest = (x[:, first:].expand(batch, -1, -1, -1) for x in self.keys_values[layer])
        keys, values = (torch.cat(pair, dim=1) for pair in zip((k, v), rest, strict=True))
        if group == 1:
            return attention(q, keys, values, scale=1.0)
        bias = torch.cat([self.sizes.new_ones(n), self.sizes[first:]]).log()
        return biased_attention(q, keys, values, bias, scale=1.0)

    def cross_behind(self, projected: Sequence[Tensor]) -> list[Tensor]:
        """What `WhisperModel.project_cross` gives for a window, with the silence behind it."""
        batch, n = projected[0].shape[0], projected[0].shape[3]
        return [
            torch.cat([own, rest[:, :, :, n:].expand(batch, -1, -1, -1, -1)], dim=3)
            for own, rest in zip(projected, self.cross, strict=True)
        ]
