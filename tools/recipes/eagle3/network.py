"""An EAGLE3 head as it is trained, in float32: see `engine.eagle3` for what it reads and says."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

HEADS, HEAD_DIM = 4, 48
THETA = 10_000.0
EPS = 1e-6
Pairs = tuple[Tensor, Tensor]  # keys and values, [heads, places, head_dim] each


class HeadNetwork(nn.Module):
    """embeddings: [vocab, width], the model's, which are not trained; they begin as the output
    rows, too, as the model's own are. norm: [width], the model's last. inputs: width of the states
    of all layers."""

    def __init__(self, embeddings: Tensor, norm: Tensor, inputs: int, ffn: int) -> None:
        super().__init__()
        vocab, width = embeddings.shape
        self.embeddings = embeddings.clone()
        self.fc = nn.Linear(inputs, width, bias=False)
        self.token_norm = nn.RMSNorm(width, EPS)
        self.feature_norm = nn.RMSNorm(width, EPS)
        self.q = nn.Linear(2 * width, HEADS * HEAD_DIM, bias=False)
        self.k = nn.Linear(2 * width, HEADS * HEAD_DIM, bias=False)
        self.v = nn.Linear(2 * width, HEADS * HEAD_DIM, bias=False)
        self.out = nn.Linear(HEADS * HEAD_DIM, width, bias=False)
        self.ffn_norm = nn.RMSNorm(width, EPS)
        self.gate = nn.Linear(width, ffn, bias=False)
        self.up = nn.Linear(width, ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)
        self.norm = nn.RMSNorm(width, EPS)
        self.rows = nn.Linear(width, vocab, bias=False)
        with torch.no_grad():
            self.norm.weight.copy_(norm)
            self.rows.weight.copy_(embeddings)

    def tensors(self) -> dict[str, Tensor]:
        """As a file of EAGLE's has them."""
        layer, attention = "midlayer", "midlayer.self_attn"
        modules = {
            "fc": self.fc,
            f"{layer}.input_layernorm": self.token_norm,
            f"{layer}.hidden_norm": self.feature_norm,
            f"{attention}.q_proj": self.q,
            f"{attention}.k_proj": self.k,
            f"{attention}.v_proj": self.v,
            f"{attention}.o_proj": self.out,
            f"{layer}.post_attention_layernorm": self.ffn_norm,
            f"{layer}.mlp.gate_proj": self.gate,
            f"{layer}.mlp.up_proj": self.up,
            f"{layer}.mlp.down_proj": self.down,
            "norm": self.norm,
            "lm_head": self.rows,
        }
        return {
            f"{name}.weight": module.get_parameter("weight").detach().clone()
            for name, module in modules.items()
        }

    def inputs(self, tokens: Tensor, features: Tensor) -> Tensor:
        """tokens: [n], those behind each place; features: [n, width]. [n, 2 * width]."""
        embedded = self.token_norm(self.embeddings[tokens])
        return torch.cat([embedded, self.feature_norm(features)], -1)

    def pairs(self, inputs: Tensor, places: Tensor) -> Pairs:
        """Keys and values of places [n]."""
        keys = _turned(_by_head(self.k(inputs)), places)
        return keys, _by_head(self.v(inputs))

    def step(
        self, tokens: Tensor, features: Tensor, places: Tensor, true: Pairs, guessed: list[Pairs]
    ) -> tuple[Tensor, Pairs]:
        """At places [m], where features are the head's own but for the first step. true: of all
        places from 0 on, made of true features. guessed: of the steps before, at the places that
        each of these then had. Every place attends to what it would have when it is drafted: true
        ones up to where its draft began, and those of its own draft. Returns [m, width], and the
        keys and values here."""
        inputs = self.inputs(tokens, features)
        mine = self.pairs(inputs, places)
        queries = _turned(_by_head(self.q(inputs)), places)
        depth = len(guessed)
        scores = queries @ true[0].transpose(1, 2)
        known = torch.arange(true[0].shape[1])[None] <= places[:, None] - depth
        if not depth:
            values = true[1]
            shares = scores.masked_fill(~known, -torch.inf)
        else:
            own = [(k[:, : len(places)], v[:, : len(places)]) for k, v in (*guessed[1:], mine)]
            single = [(queries * keys).sum(-1, keepdim=True) for keys, _ in own]
            shares = torch.cat([scores.masked_fill(~known, -torch.inf), *single], -1)
        shares = (shares * HEAD_DIM**-0.5).softmax(-1)
        count = true[0].shape[1]
        mixed = shares[..., :count] @ true[1]
        if depth:
            for number, (_, values) in enumerate(own):
                mixed = mixed + shares[..., count + number, None] * values
        stream = features + self.out(mixed.transpose(0, 1).flatten(1))
        normed = self.ffn_norm(stream)
        return stream + self.down(functional.silu(self.gate(normed)) * self.up(normed)), mine

    def logits(self, hidden: Tensor) -> Tensor:
        """[m, vocab]."""
        found: Tensor = self.rows(self.norm(hidden))
        return found


def _by_head(x: Tensor) -> Tensor:
    """[n, heads * dim] -> [heads, n, dim]."""
    return x.view(len(x), HEADS, HEAD_DIM).transpose(0, 1)


def _turned(x: Tensor, places: Tensor) -> Tensor:
    """RoPE. x: [heads, n, dim]."""
    frequencies = THETA ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angles = (places[:, None] * frequencies).repeat(1, 2)
    half = HEAD_DIM // 2
    other = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * angles.cos() + other * angles.sin()
