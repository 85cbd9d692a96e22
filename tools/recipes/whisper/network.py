"""Whisper as it is trained here: standard modules and names, a compact vocabulary.

Only ids that occur get an embedding row; one extra class stands for all ids that never occur.
Its logit enters the softmax with the weight of their number, so that probabilities are those of
the exported 51,865-row checkpoint, where each unused row is a copy of it. Timestamp rows are a
learned part plus a learned map of Fourier features of their time: neighbours share what they
learn. Source: Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tools.recipes.whisper import tokenizer as tk


@dataclass(frozen=True)
class Size:
    """Geometry; FFN is always 4 x width, as the original loaders require."""

    width: int = 128
    heads: int = 4
    encoder_layers: int = 4
    decoder_layers: int = 2
    mels: int = 80
    audio_positions: int = 1500
    text_positions: int = 448


def sinusoids(length: int, channels: int) -> Tensor:
    """Whisper's encoder positions `[length, channels]`."""
    step = math.log(10_000) / (channels // 2 - 1)
    inverse = torch.exp(-step * torch.arange(channels // 2))
    at = torch.arange(length)[:, None] * inverse[None, :]
    return torch.cat([at.sin(), at.cos()], dim=1)


class Attention(nn.Module):
    """Multi-head attention; the key projection has no bias, as in Whisper."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor, source: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
        """Output `[batch, n, width]` and attention weights `[batch, heads, n, source]`."""
        b, n, w = x.shape
        q, k, v = (
            p.view(b, -1, self.heads, w // self.heads).transpose(1, 2)
            for p in (self.q_proj(x), self.k_proj(source), self.v_proj(source))
        )
        # Spelled out: the fused CPU kernel's backward pass takes several times longer.
        scores = (q * (w // self.heads) ** -0.5) @ k.transpose(2, 3)
        if causal:
            hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, -1e4)
        weights = scores.softmax(-1, dtype=scores.dtype)
        y = (weights @ v).transpose(1, 2).reshape(b, n, w)
        return self.out_proj(y), weights


class EncoderLayer(nn.Module):
    """Attention, then a feed-forward network, each behind a norm."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.self_attn = Attention(size.width, size.heads)
        self.self_attn_layer_norm = nn.LayerNorm(size.width)
        self.fc1 = nn.Linear(size.width, 4 * size.width)
        self.fc2 = nn.Linear(4 * size.width, size.width)
        self.final_layer_norm = nn.LayerNorm(size.width)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, n, width] to the same."""
        h = self.self_attn_layer_norm(x)
        x = x + self.self_attn(h, h, False)[0]
        return x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x))))  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """As the encoder's, with attention over the audio between the two."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.self_attn = Attention(size.width, size.heads)
        self.self_attn_layer_norm = nn.LayerNorm(size.width)
        self.encoder_attn = Attention(size.width, size.heads)
        self.encoder_attn_layer_norm = nn.LayerNorm(size.width)
        self.fc1 = nn.Linear(size.width, 4 * size.width)
        self.fc2 = nn.Linear(4 * size.width, size.width)
        self.final_layer_norm = nn.LayerNorm(size.width)

    def forward(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states, and the weights of the cross-attention."""
        h = self.self_attn_layer_norm(x)
        x = x + self.self_attn(h, h, True)[0]
        y, weights = self.encoder_attn(self.encoder_attn_layer_norm(x), source, False)
        x = x + y
        return x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x)))), weights


class Encoder(nn.Module):
    """`[batch, mels, frames]` log-mel to `[batch, frames / 2, width]`."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(size.mels, size.width, 3, padding=1)
        self.conv2 = nn.Conv1d(size.width, size.width, 3, stride=2, padding=1)
        self.register_buffer("positions", sinusoids(size.audio_positions, size.width))
        self.layers = nn.ModuleList(EncoderLayer(size) for _ in range(size.encoder_layers))
        self.layer_norm = nn.LayerNorm(size.width)

    def forward(self, mel: Tensor) -> Tensor:
        """[batch, mels, 2 n] to [batch, n, width]."""
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).transpose(1, 2)
        positions = self.positions
        assert isinstance(positions, Tensor)
        x = x + positions[: x.shape[1]].to(x.dtype)
        for layer in self.layers:
            x = layer(x)
        return self.layer_norm(x)  # type: ignore[no-any-return]


class Network(nn.Module):
    """Whisper over compact ids, with an auxiliary phoneme classifier on the encoder."""

    def __init__(self, size: Size, text_ids: int, phonemes: int) -> None:
        super().__init__()
        self.size, self.text_ids = size, text_ids
        width = size.width
        self.encoder = Encoder(size)
        self.decoder_layers = nn.ModuleList(DecoderLayer(size) for _ in range(size.decoder_layers))
        self.decoder_norm = nn.LayerNorm(width)
        self.text_embedding = nn.Parameter(torch.randn(text_ids, width) * 0.05)
        self.time_embedding = nn.Parameter(torch.randn(tk.TIMESTAMPS, width) * 0.01)
        self.positions = nn.Parameter(0.05 * sinusoids(size.text_positions, width))
        seconds = torch.arange(tk.TIMESTAMPS)[:, None] * 0.02
        periods = 0.08 * 1.35 ** torch.arange(24)[None, :]
        waves = 2 * math.pi * seconds / periods
        self.register_buffer("time_features", torch.cat([waves.sin(), waves.cos()], 1))
        self.time_map = nn.Parameter(torch.randn(48, width) * 0.02)
        self.phonemes = nn.Linear(width, phonemes)

    def embeddings(self) -> Tensor:
        """`[text ids + timestamps, width]`; the last text row is the unused class."""
        features = self.time_features
        assert isinstance(features, Tensor)
        times = self.time_embedding + features @ self.time_map
        return torch.cat([self.text_embedding, times])

    def decode(self, tokens: Tensor, source: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states `[batch, tokens, width]` before the (tied) output projection, and the
        cross-attention weights `[batch, heads, tokens, frames]` of the last layer."""
        x = F.embedding(tokens, table) + self.positions[: tokens.shape[1]]
        for layer in self.decoder_layers:
            x, weights = layer(x, source)
        return self.decoder_norm(x), weights

    def logits(self, hidden: Tensor, table: Tensor, unused: int) -> Tensor:
        """Compact logits, where class `text_ids - 1` weighs for `unused` equal rows."""
        bias = torch.zeros(table.shape[0])
        bias[self.text_ids - 1] = math.log(unused)
        return F.linear(hidden, table) + bias


class CompactIds:
    """Map between the 51,865 ids and the rows that are trained."""

    def __init__(self, text_ids: int) -> None:
        special = [tk.EOT, tk.SOT, *tk.LANGUAGE_IDS.values(), tk.TRANSLATE, tk.TRANSCRIBE]
        special += [tk.START_OF_PREV, tk.NO_SPEECH, tk.NO_TIMESTAMPS]
        self.full = [*range(text_ids), *special, -1]
        self.rows = len(self.full)
        self.unused = tk.VOCABULARY - tk.TIMESTAMPS - (self.rows - 1)
        self.full += range(tk.FIRST_TIMESTAMP, tk.VOCABULARY)
        self.compact = {full: i for i, full in enumerate(self.full)}

    def to_compact(self, ids: list[int]) -> list[int]:
        """Compact ids; negative ids (no loss) stay as they are."""
        return [i if i < 0 else self.compact[i] for i in ids]
