"""Qwen3-VL as it is trained here: Hugging Face's names and numbers, fast on a CPU core.

A vision encoder turns blocks of 32 x 32 pixels into tokens; a Qwen3 decoder reads them between the
words of its prompt, placed on three axes (M-RoPE), and gets what early layers of the encoder saw
behind its first layers (DeepStack). Attention is spelled out, as in `qwen3_asr.network`. Source:
Qwen3-VL technical report (2025), transformers' `modeling_qwen3_vl.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tools.recipes.qwen3_asr import network as decoder
from tools.recipes.qwen3_asr.network import RMSNorm, TextLayer, rotate

PATCH, MERGE, FRAMES, CHANNELS = 16, 2, 2, 3
PATCH_VALUES = CHANNELS * FRAMES * PATCH**2
LIGHT = 0.75


@dataclass(frozen=True)
class Size:
    """Geometry. text: of the decoder. sections: a head's pairs that turn with time, row, column."""

    width: int = 128
    heads: int = 4
    inner: int = 512
    layers: int = 6
    side: int = 12
    deepstack: tuple[int, ...] = (1, 3)
    text: decoder.Size = field(
        default_factory=lambda: decoder.Size(
            width=192, heads=4, shared_heads=2, head_width=48, inner=576, layers=4
        )
    )
    sections: tuple[int, int, int] = (8, 8, 8)
    rope_base: float = 10_000.0


def block_order(height: int, width: int) -> tuple[Tensor, Tensor]:
    """Row and column of every patch of a picture of height x width patches, block by block."""
    places = torch.arange(height * width).view(height // MERGE, MERGE, width // MERGE, MERGE)
    flat = places.transpose(1, 2).flatten()
    return flat // width, flat % width


class VisionAttention(nn.Module):
    """Every patch attends to every other of its frame."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.proj = nn.Linear(size.width, size.width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[batch, n, width] to the same; cos, sin: of the patches' places."""
        b, n, w = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q = rotate(q, cos, sin) * (w // self.heads) ** -0.5
        scores = q @ rotate(k, cos, sin).transpose(2, 3)
        y = scores.softmax(-1, dtype=scores.dtype) @ v
        return self.proj(y.transpose(1, 2).reshape(b, n, w))  # type: ignore[no-any-return]


class VisionFeedForward(nn.Module):
    """Two products with a GELU between them."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(size.width, size.inner)
        self.linear_fc2 = nn.Linear(size.inner, size.width)

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] to the same."""
        return self.linear_fc2(F.gelu(self.linear_fc1(x), approximate="tanh"))  # type: ignore[no-any-return]


class VisionBlock(nn.Module):
    """Attention, then a feed-forward network, each behind a norm."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(size.width, eps=1e-6)
        self.norm2 = nn.LayerNorm(size.width, eps=1e-6)
        self.attn = VisionAttention(size)
        self.mlp = VisionFeedForward(size)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[batch, n, width] to the same."""
        x = x + self.attn(self.norm1(x), cos, sin)
        return x + self.mlp(self.norm2(x))  # type: ignore[no-any-return]


class Merger(nn.Module):
    """Blocks of patches to tokens; the norm is of patches, or of blocks (`behind`)."""

    def __init__(self, size: Size, behind: bool) -> None:
        super().__init__()
        inside = MERGE**2 * size.width
        self.norm = nn.LayerNorm(inside if behind else size.width, eps=1e-6)
        self.linear_fc1 = nn.Linear(inside, inside)
        self.linear_fc2 = nn.Linear(inside, size.text.width)
        self.behind, self.inside = behind, inside

    def forward(self, x: Tensor) -> Tensor:
        """[batch, n, width] to [batch, n / block, decoder width]."""
        blocks = (x.shape[0], -1, self.inside)
        x = self.norm(x.reshape(blocks)) if self.behind else self.norm(x).reshape(blocks)
        return self.linear_fc2(F.gelu(self.linear_fc1(x)))  # type: ignore[no-any-return]


class PatchEmbed(nn.Module):
    """Learns from pixels less LIGHT, which nearly all backgrounds are: else a step changes every
    patch by the sum of 1,536 weights' steps, and little is learnt for long. See `standard_bias`."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.proj = nn.Conv3d(CHANNELS, size.width, (FRAMES, PATCH, PATCH), (FRAMES, PATCH, PATCH))

    def forward(self, x: Tensor) -> Tensor:
        """[..., pixels of a patch] to [..., width]."""
        # A convolution whose stride is its size: one product per patch.
        return F.linear(x - LIGHT, self.proj.weight.flatten(1), self.proj.bias)

    def standard_bias(self) -> Tensor:
        """The bias that does the same to pixels as they are."""
        bias = self.proj.bias
        assert bias is not None
        return bias - LIGHT * self.proj.weight.flatten(1).sum(1)


class Visual(nn.Module):
    """`[pictures, patches, PATCH_VALUES]`, all of one size, to tokens."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.patch_embed = PatchEmbed(size)
        self.pos_embed = nn.Embedding(size.side**2, size.width)
        nn.init.normal_(self.pos_embed.weight, std=0.1)
        self.blocks = nn.ModuleList(VisionBlock(size) for _ in range(size.layers))
        self.merger = Merger(size, behind=False)
        self.deepstack_merger_list = nn.ModuleList(Merger(size, True) for _ in size.deepstack)

    def forward(
        self, patches: Tensor, height: int, width: int
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Tokens of the merger and of DeepStack's `[pictures, tokens, text width]` each, and what
        patches are behind every layer. height, width: in patches."""
        x = self.patch_embed(patches)
        x = x + self._positions(height, width).to(x.dtype)
        rows, columns = block_order(height, width)
        pairs = self.size.width // self.size.heads // 4
        speeds = self.size.rope_base ** (-torch.arange(pairs) / pairs)
        angles = torch.cat([rows[:, None] * speeds, columns[:, None] * speeds], 1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        inside: list[Tensor] = []
        deep: list[Tensor] = []
        for index, block in enumerate(self.blocks):
            x = block(x, cos, sin)
            inside.append(x)
            if index in self.size.deepstack:
                deep.append(self.deepstack_merger_list[len(deep)](x))
        return [self.merger(x), *deep], inside

    def _positions(self, height: int, width: int) -> Tensor:
        """Learnt positions, stretched bilinearly so that corners meet: `[patches, width]`."""
        side = self.size.side
        table = self.pos_embed.weight.view(side, side, -1).permute(2, 0, 1)[None]
        grid = F.interpolate(table, (height, width), mode="bilinear", align_corners=True)[0]
        rows, columns = block_order(height, width)
        return grid[:, rows, columns].T


class LanguageModel(nn.Module):
    """Qwen3 with M-RoPE; the output projection is the embedding table."""

    def __init__(self, size: Size, vocabulary: int) -> None:
        super().__init__()
        self.size = size
        self.embed_tokens = nn.Embedding(vocabulary, size.text.width)
        nn.init.normal_(self.embed_tokens.weight, std=0.06)
        self.layers = nn.ModuleList(TextLayer(size.text) for _ in range(size.text.layers))
        self.norm = RMSNorm(size.text.width)

    def forward(
        self, x: Tensor, positions: Tensor, place: Tensor, deep: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """x: `[batch, n, width]`. positions: `[3, batch, n]`. place: of visual tokens in the
        flattened batch; deep: rows added there behind the first layers. Returns hidden states and
        each layer's attention weights."""
        cos, sin = self._angles(positions)
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        n = x.shape[1]
        hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
        attended = []
        for index, layer in enumerate(self.layers):
            x, weights = layer(x, cos, sin, hidden)
            if index < len(deep) and len(place):
                x = x.flatten(0, 1).index_add(0, place, deep[index].to(x.dtype)).view_as(x)
            attended.append(weights)
        return self.norm(x), attended

    def _angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines `[batch, 1, n, half a head]`; pairs go round time, row and column."""
        half = self.size.text.head_width // 2
        speeds = self.size.text.rope_base ** (-torch.arange(half) / half)
        axis = torch.zeros(half, dtype=torch.long)
        for which in (1, 2):
            axis[which : 3 * self.size.sections[which] : 3] = which
        angles = positions[axis].permute(1, 2, 0).float() * speeds
        return angles.cos()[:, None], angles.sin()[:, None]


class Model(nn.Module):
    """The name that Hugging Face's folder has for what both parts are in."""

    def __init__(self, size: Size, vocabulary: int) -> None:
        super().__init__()
        self.visual = Visual(size)
        self.language_model = LanguageModel(size, vocabulary)


@dataclass(frozen=True)
class Seen:
    """hidden: decoder states `[batch, n, width]`. attended: weights of each of its layers. tokens:
    of the merger `[pictures, tokens, width]`. patches: behind every layer of the encoder."""

    hidden: Tensor
    attended: list[Tensor]
    tokens: Tensor
    patches: list[Tensor]


class Network(nn.Module):
    """Qwen3-VL with auxiliary classifiers of what is under each visual token and each patch."""

    def __init__(self, size: Size, vocabulary: int, under_token: int, under_patch: int) -> None:
        super().__init__()
        self.size, self.vocabulary = size, vocabulary
        self.model = Model(size, vocabulary)
        self.token_labels = nn.Linear(size.text.width, under_token)
        self.patch_labels = nn.Linear(size.width, under_patch)
        for head in (self.token_labels, self.patch_labels):
            nn.init.constant_(head.bias, -4.0)

    def forward(
        self,
        patches: Tensor,
        grid: tuple[int, int],
        tokens: Tensor,
        positions: Tensor,
        place: Tensor,
    ) -> Seen:
        """patches: `[pictures, patches, PATCH_VALUES]` of grid (height, width) in patches each.
        tokens: `[batch, n]`. positions: `[3, batch, n]`. place: where the visual tokens of all
        pictures go in the flattened batch, in order."""
        seen, inside = self.model.visual(patches, *grid)
        rows = [each.flatten(0, 1) for each in seen]
        x = self.model.language_model.embed_tokens(tokens)
        if torch.is_autocast_enabled("cpu"):
            x = x.bfloat16()
        if len(place):
            x = x.flatten(0, 1).index_copy(0, place, rows[0].to(x.dtype)).view_as(x)
        hidden, attended = self.model.language_model(x, positions, place, rows[1:])
        return Seen(hidden, attended, seen[0], inside)

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., width] to [..., vocabulary]."""
        return F.linear(hidden, self.model.language_model.embed_tokens.weight)
