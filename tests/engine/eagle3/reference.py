"""An EAGLE3 head put together of transformers' Llama and Qwen3, without a cache: what ours has to
agree with, and what can be trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


class ReferenceHead(nn.Module):
    """tensors: as they are in its file. embeddings, rows: the large model's, [vocab, width]."""

    def __init__(
        self, folder: Path, tensors: dict[str, Tensor], embeddings: Tensor, rows: Tensor
    ) -> None:
        super().__init__()
        from transformers.models.llama.modeling_llama import (
            LlamaAttention,
            LlamaConfig,
            LlamaMLP,
            LlamaRMSNorm,
            LlamaRotaryEmbedding,
        )
        from transformers.models.qwen3.modeling_qwen3 import (
            Qwen3Attention,
            Qwen3Config,
            Qwen3MLP,
        )

        config = json.loads((folder / "config.json").read_text())
        layer = dict(config.get("transformer_layer_config", config))
        rope = {"rope_type": "default", "rope_theta": layer.pop("rope_theta")}
        known = {
            name: layer[name]
            for name in (
                "vocab_size", "hidden_size", "intermediate_size", "num_attention_heads",
                "num_key_value_heads", "head_dim", "rms_norm_eps", "max_position_embeddings",
            )
        }  # fmt: skip
        has_norms = any("q_norm" in name for name in tensors)
        make: Any = Qwen3Config if has_norms else LlamaConfig
        shape = make(
            **known,
            num_hidden_layers=1,
            attention_bias=layer.get("attention_bias", False),
            rope_parameters=rope,
            attn_implementation="eager",
        )
        width, eps = shape.hidden_size, shape.rms_norm_eps
        self.norms_first = bool(config.get("norm_before_residual", False))
        self.attention = (Qwen3Attention if has_norms else LlamaAttention)(shape, 0)
        for part in ("q_proj", "k_proj", "v_proj"):
            old = getattr(self.attention, part)
            wide = nn.Linear(2 * width, old.out_features, bias=old.bias is not None)
            setattr(self.attention, part, wide)
        self.mlp = (Qwen3MLP if has_norms else LlamaMLP)(shape)
        self.token_norm = LlamaRMSNorm(width, eps)
        self.feature_norm = LlamaRMSNorm(width, eps)
        self.ffn_norm = LlamaRMSNorm(width, eps)
        self.norm = LlamaRMSNorm(width, eps)
        self.rotary = LlamaRotaryEmbedding(shape)
        fc = tensors["fc.weight"]
        self.fc = nn.Linear(fc.shape[1], width, bias=False)
        self.input_norm = LlamaRMSNorm(fc.shape[1], eps) if "input_norm.weight" in tensors else None
        self.embeddings = tensors.get("embed_tokens.weight", embeddings)
        rows = tensors.get("lm_head.weight", rows)
        self.head = nn.Linear(width, len(rows), bias=False)
        said = tensors.get("d2t", torch.zeros(len(rows), dtype=torch.int64))
        self.said = said + torch.arange(len(rows))
        self._name = "layers.0" if "layers.0.hidden_norm.weight" in tensors else "midlayer"
        with torch.no_grad():
            for name, parameter in self.placed().items():
                parameter.copy_(tensors.get(name, rows))
        self.eval()

    def placed(self) -> dict[str, Tensor]:
        """Its parameters by their names in the file."""
        name = self._name
        norms = {
            f"{name}.input_layernorm": self.token_norm,
            f"{name}.hidden_norm": self.feature_norm,
            f"{name}.post_attention_layernorm": self.ffn_norm,
            "norm": self.norm,
            "fc": self.fc,
            "lm_head": self.head,
            f"{name}.self_attn": self.attention,
            f"{name}.mlp": self.mlp,
        }
        if self.input_norm is not None:
            norms["input_norm"] = self.input_norm
        return {
            f"{outer}.{inner}": parameter
            for outer, module in norms.items()
            for inner, parameter in module.named_parameters()
        }

    def features(self, states: list[Tensor]) -> Tensor:
        """states: each [n, the model's width]. [n, width]."""
        inputs = torch.cat(states, -1)
        found: Tensor = self.fc(inputs if self.input_norm is None else self.input_norm(inputs))
        return found

    def forward(self, tokens: Tensor, features: Tensor) -> Tensor:
        """tokens: [n], each the one behind its place; features: [n, width]. [n, width]. Or of
        several sequences: [rows, n] and [rows, n, width]."""
        if tokens.dim() == 1:
            alone: Tensor = self(tokens[None], features[None])[0]
            return alone
        count = tokens.shape[1]
        normed = self.feature_norm(features)
        stream = normed if self.norms_first else features
        inputs = torch.cat([self.token_norm(self.embeddings[tokens]), normed], -1)
        mask = torch.full((count, count), -torch.inf).triu(1)[None, None]
        angles = self.rotary(inputs, torch.arange(count)[None])
        mixed = self.attention(inputs, position_embeddings=angles, attention_mask=mask)[0]
        stream = stream + mixed
        found: Tensor = stream + self.mlp(self.ffn_norm(stream))
        return found

    def logits(self, hidden: Tensor) -> Tensor:
        """[n, tokens that it can say]."""
        found: Tensor = self.head(self.norm(hidden))
        return found

    def chain(self, context: list[int], features: Tensor, count: int) -> list[int]:
        """What it guesses, greedily, behind a context. features: of all its tokens but the last."""
        assert len(features) == len(context) - 1
        tokens, drafted = list(context), []
        with torch.no_grad():
            for _ in range(count):
                hidden = self(torch.tensor(tokens[1:]), features)[-1:]
                token = int(self.said[self.logits(hidden)[0].argmax()])
                drafted.append(token)
                tokens.append(token)
                features = torch.cat([features, hidden])
        return drafted

    def agrees(
        self, contexts: list[list[int]], features: list[Tensor], drafts: list[list[int]]
    ) -> bool:
        """Whether each draft is what `chain` guesses behind its context; all of them at once, one
        place of each in a pass. Nothing looks at what comes behind it, so that rows may be of
        different lengths."""
        lengths = torch.tensor([len(context) for context in contexts])
        said = [[*context, *draft] for context, draft in zip(contexts, drafts, strict=True)]
        tokens = torch.zeros(len(said), max(map(len, said)), dtype=torch.int64)
        held = torch.zeros(*tokens.shape, features[0].shape[-1])
        for row, (line, known) in enumerate(zip(said, features, strict=True)):
            assert len(known) == lengths[row] - 1
            tokens[row, : len(line)] = torch.tensor(line)
            held[row, : len(known)] = known
        with torch.no_grad():
            for step in range(max(map(len, drafts))):
                rows = torch.tensor([i for i, draft in enumerate(drafts) if len(draft) > step])
                places = lengths[rows] + step
                hidden = self(tokens[rows, 1:], held[rows, :-1])[
                    torch.arange(len(rows)), places - 2
                ]
                guessed = self.said[self.logits(hidden).argmax(-1)]
                if not torch.equal(guessed, tokens[rows, places]):
                    return False
                held[rows, places - 1] = hidden
        return True


def model_states(model: Any, tokens: list[int], layers: tuple[int, ...]) -> list[Tensor]:
    """What goes into some layers of transformers' Qwen3, of every token."""
    with torch.no_grad():
        states = model(
            input_ids=torch.tensor([tokens]), output_hidden_states=True, use_cache=False
        ).hidden_states
    return [states[layer][0] for layer in layers]
