"""Qwen3-ASR as it is trained here: Hugging Face's names and numbers, fast on a CPU core.

The audio encoder turns each second of log-mel into 13 tokens, with attention inside windows of
8 s; a Qwen3 decoder reads them between the words of its prompt. Attention is spelled out, because
the fused CPU kernel's backward pass takes several times longer, and because training looks into
it. Source: Qwen3-ASR technical report (2026), transformers' `modeling_qwen3_asr.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CHUNK_FRAMES, CHUNK_TOKENS, WINDOW_CHUNKS = 100, 13, 8
GUIDED_HEADS = 2
SUBFRAMES = 4
"""Phoneme labels (of 20 ms) that an encoder token of 80 ms tells."""


@dataclass(frozen=True)
class Size:
    """Geometry. Heads of the decoder have `head_width` each, whatever its width."""

    mels: int = 128
    channels: int = 32
    encoder_width: int = 192
    encoder_heads: int = 4
    encoder_layers: int = 4
    width: int = 192
    heads: int = 4
    shared_heads: int = 2
    head_width: int = 64
    inner: int = 576
    layers: int = 4
    rope_base: float = 10_000.0


def token_counts(frames: Tensor) -> Tensor:
    """Encoder tokens of so many log-mel frames."""
    rest = frames % CHUNK_FRAMES
    for _ in range(3):
        rest = (rest + 1) // 2
    return frames // CHUNK_FRAMES * CHUNK_TOKENS + rest


def sinusoids(length: int, width: int) -> Tensor:
    """Positions `[length, width]` inside a chunk: sines, then cosines."""
    step = math.log(10_000) / (width // 2 - 1)
    at = torch.arange(length)[:, None] * torch.exp(-step * torch.arange(width // 2))[None]
    return torch.cat([at.sin(), at.cos()], dim=1)


class AudioAttention(nn.Module):
    """Attention inside windows; what pads a window at its end is not seen."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor, absent: Tensor) -> Tensor:
        """[batch, n, width] to the same; absent: [batch, n], keys that are no audio."""
        b, n, w = x.shape
        q, k, v = (
            p(x).view(b, n, self.heads, w // self.heads).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q = q * (w // self.heads) ** -0.5
        outputs = []
        size = WINDOW_CHUNKS * CHUNK_TOKENS
        for at in range(0, n, size):
            rows = slice(at, at + size)
            scores = q[:, :, rows] @ k[:, :, rows].transpose(2, 3)
            scores = scores.masked_fill(absent[:, None, None, rows], -1e4)
            outputs.append(scores.softmax(-1, dtype=scores.dtype) @ v[:, :, rows])
        y = torch.cat(outputs, 2).transpose(1, 2).reshape(b, n, w)
        return self.out_proj(y)  # type: ignore[no-any-return]


class AudioLayer(nn.Module):
    """Attention inside a window, then a feed-forward network, each behind a norm."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.encoder_width
        self.self_attn = AudioAttention(width, size.encoder_heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, absent: Tensor) -> Tensor:
        """[batch, n, width] to the same."""
        x = x + self.self_attn(self.self_attn_layer_norm(x), absent)
        return x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x))))  # type: ignore[no-any-return]


class AudioTower(nn.Module):
    """`[batch, mels, seconds * 100]` log-mel to `[batch, seconds * 13, encoder_width]`."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        c = size.channels
        self.conv2d1 = nn.Conv2d(1, c, 3, 2, padding=1)
        self.conv2d2 = nn.Conv2d(c, c, 3, 2, padding=1)
        self.conv2d3 = nn.Conv2d(c, c, 3, 2, padding=1)
        self.conv_out = nn.Linear(c * size.mels // 8, size.encoder_width, bias=False)
        self.layers = nn.ModuleList(AudioLayer(size) for _ in range(size.encoder_layers))
        self.ln_post = nn.LayerNorm(size.encoder_width)
        positions = sinusoids(CHUNK_TOKENS, size.encoder_width)
        self.register_buffer("positions", positions, persistent=False)

    def forward(self, mel: Tensor, counts: Tensor) -> Tensor:
        """counts: `[batch]` encoder tokens; the rows behind them have no meaning."""
        b, mels, frames = mel.shape
        chunks = mel.view(b, mels, frames // CHUNK_FRAMES, CHUNK_FRAMES).transpose(1, 2)
        x = chunks.reshape(-1, 1, mels, CHUNK_FRAMES)
        if x.device.type == "cpu":
            x = x.contiguous(memory_format=torch.channels_last)
        for conv in (self.conv2d1, self.conv2d2, self.conv2d3):
            x = F.gelu(conv(x))
        x = self.conv_out(x.permute(0, 3, 1, 2).flatten(2))
        positions = self.positions
        assert isinstance(positions, Tensor)
        x = (x + positions).reshape(b, -1, x.shape[-1])
        absent = torch.arange(x.shape[1])[None] >= counts[:, None]
        for layer in self.layers:
            x = layer(x, absent)
        return self.ln_post(x)  # type: ignore[no-any-return]


class Projector(nn.Module):
    """From the encoder's width to the decoder's."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(size.encoder_width, size.encoder_width)
        self.linear_2 = nn.Linear(size.encoder_width, size.width)

    def forward(self, x: Tensor) -> Tensor:
        """[..., encoder width] to [..., width]."""
        return self.linear_2(F.gelu(self.linear_1(x)))  # type: ignore[no-any-return]


class RMSNorm(nn.Module):
    """Scaled to a root mean square of 1, in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] to the same."""
        scale = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)
        return x * scale.to(x.dtype) * self.weight.to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding of `[..., n, head width]`, halves paired."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class CausalAttention(nn.Module):
    """Grouped queries, normalised queries and keys, rotary positions."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads, self.shared, self.head = size.heads, size.shared_heads, size.head_width
        self.q_proj = nn.Linear(size.width, size.heads * size.head_width, bias=False)
        self.k_proj = nn.Linear(size.width, size.shared_heads * size.head_width, bias=False)
        self.v_proj = nn.Linear(size.width, size.shared_heads * size.head_width, bias=False)
        self.o_proj = nn.Linear(size.heads * size.head_width, size.width, bias=False)
        self.q_norm = RMSNorm(size.head_width)
        self.k_norm = RMSNorm(size.head_width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Output, and the weights `[batch, heads, n, n]`."""
        b, n, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(b, n, self.heads, self.head)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(b, n, self.shared, self.head)).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.shared, self.head).transpose(1, 2)
        q = rotate(q, cos, sin) * self.head**-0.5
        k = rotate(k, cos, sin)
        # Query heads that share keys become rows of one product.
        scores = q.reshape(b, self.shared, -1, self.head) @ k.transpose(2, 3)
        scores = scores.view(b, self.heads, n, n).masked_fill(hidden, -1e4)
        weights = scores.softmax(-1, dtype=scores.dtype)
        y = weights.view(b, self.shared, -1, n) @ v
        y = y.view(b, self.heads, n, self.head).transpose(1, 2).reshape(b, n, -1)
        return self.o_proj(y), weights


class GatedFeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(size.width, size.inner, bias=False)
        self.up_proj = nn.Linear(size.width, size.inner, bias=False)
        self.down_proj = nn.Linear(size.inner, size.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] to the same."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))  # type: ignore[no-any-return]


class TextLayer(nn.Module):
    """A decoder layer, as Qwen3's."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.self_attn = CausalAttention(size)
        self.mlp = GatedFeedForward(size)
        self.input_layernorm = RMSNorm(size.width)
        self.post_attention_layernorm = RMSNorm(size.width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """[batch, n, width] to the same, and the weights of its attention."""
        y, weights = self.self_attn(self.input_layernorm(x), cos, sin, hidden)
        x = x + y
        return x + self.mlp(self.post_attention_layernorm(x)), weights


class LanguageModel(nn.Module):
    """Qwen3: embeddings in, hidden states out; the output projection is the embedding table."""

    def __init__(self, size: Size, vocabulary: int) -> None:
        super().__init__()
        self.size = size
        self.embed_tokens = nn.Embedding(vocabulary, size.width)
        nn.init.normal_(self.embed_tokens.weight, std=0.06)
        self.layers = nn.ModuleList(TextLayer(size) for _ in range(size.layers))
        self.norm = RMSNorm(size.width)

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """`[batch, n, width]` embeddings to hidden states, and each layer's attention weights."""
        n, half = x.shape[1], self.size.head_width // 2
        speeds = self.size.rope_base ** (-torch.arange(half) / half)
        angles = torch.arange(n)[:, None] * speeds[None]
        cos, sin = angles.cos(), angles.sin()
        if torch.is_autocast_enabled("cpu"):
            cos, sin = cos.bfloat16(), sin.bfloat16()
        hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
        attended = []
        for layer in self.layers:
            x, weights = layer(x, cos, sin, hidden)
            attended.append(weights)
        return self.norm(x), attended


class Model(nn.Module):
    """The name that Hugging Face's folder has for what both parts are in."""

    def __init__(self, size: Size, vocabulary: int) -> None:
        super().__init__()
        self.audio_tower = AudioTower(size)
        self.multi_modal_projector = Projector(size)
        self.language_model = LanguageModel(size, vocabulary)


class Network(nn.Module):
    """Qwen3-ASR with an auxiliary phoneme classifier on the encoder, `phonemes`."""

    def __init__(self, size: Size, vocabulary: int, phonemes: int) -> None:
        super().__init__()
        self.size, self.vocabulary, self.classes = size, vocabulary, phonemes
        self.model = Model(size, vocabulary)
        self.phonemes = nn.Linear(size.encoder_width, SUBFRAMES * phonemes)

    def forward(
        self, mel: Tensor, counts: Tensor, tokens: Tensor, starts: Tensor
    ) -> tuple[Tensor, list[Tensor], Tensor]:
        """mel: `[batch, mels, frames]`, whole seconds. counts, starts: `[batch]` audio tokens and
        the place of the first among `tokens` `[batch, n]`. Returns hidden states, attention
        weights of each layer, and encoder states."""
        source = self.model.audio_tower(mel, counts)
        heard = self.model.multi_modal_projector(source)
        row, column = torch.nonzero(
            torch.arange(source.shape[1])[None] < counts[:, None], as_tuple=True
        )
        x = self.model.language_model.embed_tokens(tokens)
        place = row * tokens.shape[1] + starts[row] + column
        flat = x.flatten(0, 1).index_copy(0, place, heard[row, column].to(x.dtype))
        hidden, attended = self.model.language_model(flat.view_as(x))
        return hidden, attended, source

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., width] to [..., vocabulary]."""
        return F.linear(hidden, self.model.language_model.embed_tokens.weight)

    def phoneme_guesses(self, source: Tensor) -> Tensor:
        """`[batch, tokens, SUBFRAMES, classes]`."""
        guesses: Tensor = self.phonemes(source)
        return guesses.view(*source.shape[:2], SUBFRAMES, self.classes)
