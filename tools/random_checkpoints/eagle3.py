"""EAGLE3 heads with random weights, as they are published, and one that is always right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

FORMS = ("eagle", "speculators")
LAYERS = "eagle_aux_hidden_state_layer_ids"


def text_config(large: Path) -> dict[str, Any]:
    """Of a Qwen3's folder, or of the decoder in a Qwen3-VL's."""
    config: dict[str, Any] = json.loads((large / "config.json").read_text())
    inner: dict[str, Any] = config.get("text_config", config)
    return inner


def build_random_eagle3(
    folder: Path,
    large: Path,
    *,
    form: str = "eagle",
    seed: int = 0,
    says: int | None = None,
    layers: tuple[int, ...] | None = None,
    qk_norm: bool = False,
    is_pickled: bool = False,
    top: dict[str, Any] | None = None,
    **layer: Any,
) -> dict[str, Tensor]:
    """Writes a head for a Qwen3 or Qwen3-VL; returns its tensors, by their names in the file.

    form: see FORMS. says: tokens that it can say; None: all, and no d2t. layers: of the model, by
    what goes into them. is_pickled: whether the file is pytorch_model.bin. top, layer: differences
    of its config, and of what that says of the layer.
    """
    text = text_config(large)
    shape: dict[str, Any] = {
        "model_type": "llama",
        "vocab_size": text["vocab_size"],
        "hidden_size": text["hidden_size"],
        "intermediate_size": 40,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 12,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 2048,
        "rope_theta": 7000.0,
        **layer,
    }
    generator = torch.Generator().manual_seed(seed)
    taps = 3 if layers is None else len(layers)
    name = "midlayer" if form == "eagle" else "layers.0"
    tensors = _draw(shape, name, text, taps, says, qk_norm=qk_norm, generator=generator)
    if top and top.get("norm_before_fc"):
        size = taps * text["hidden_size"]
        tensors["input_norm.weight"] = 1.0 + 0.1 * torch.randn(size, generator=generator)
    config = _config(shape, form, says, layers, large)
    write_head(folder, {**config, **(top or {})}, tensors, is_pickled=is_pickled)
    return tensors


def write_head(
    folder: Path, config: dict[str, Any], tensors: dict[str, Tensor], *, is_pickled: bool = False
) -> None:
    """config.json and the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    if is_pickled:
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file(tensors, folder / "model.safetensors")


def _config(
    shape: dict[str, Any],
    form: str,
    says: int | None,
    layers: tuple[int, ...] | None,
    large: Path,
) -> dict[str, Any]:
    if form == "eagle":
        config = {**shape, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": says}
        if layers is not None:  # by what comes out
            config["eagle_config"] = {LAYERS: [layer - 1 for layer in layers]}
        return config
    named = json.loads((large / "config.json").read_text())["architectures"]
    config = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_config": {
            "algorithm": "eagle3",
            "verifier": {"name_or_path": str(large), "architectures": named},
        },
        "transformer_layer_config": shape,
        "draft_vocab_size": says or shape["vocab_size"],
        "norm_before_residual": True,
    }
    if layers is not None:
        config[LAYERS] = list(layers)
    return config


def _draw(
    shape: dict[str, Any],
    name: str,
    text: dict[str, Any],
    taps: int,
    says: int | None,
    *,
    qk_norm: bool,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    width, ffn, vocab = shape["hidden_size"], shape["intermediate_size"], shape["vocab_size"]
    dim = shape["head_dim"]
    queries, keys = shape["num_attention_heads"] * dim, shape["num_key_value_heads"] * dim

    def matrix(out: int, inside: int) -> Tensor:
        return torch.randn(out, inside, generator=generator).mul_(1.5 * inside**-0.5)

    def norm(size: int) -> Tensor:
        return 1.0 + 0.1 * torch.randn(size, generator=generator)

    attention = f"{name}.self_attn"
    tensors = {
        "fc.weight": matrix(width, taps * text["hidden_size"]),
        f"{name}.input_layernorm.weight": norm(width),
        f"{name}.hidden_norm.weight": norm(width),
        f"{attention}.q_proj.weight": matrix(queries, 2 * width),
        f"{attention}.k_proj.weight": matrix(keys, 2 * width),
        f"{attention}.v_proj.weight": matrix(keys, 2 * width),
        f"{attention}.o_proj.weight": matrix(width, queries),
        f"{name}.post_attention_layernorm.weight": norm(width),
        f"{name}.mlp.gate_proj.weight": matrix(ffn, width),
        f"{name}.mlp.up_proj.weight": matrix(ffn, width),
        f"{name}.mlp.down_proj.weight": matrix(width, ffn),
        "norm.weight": norm(width),
        "lm_head.weight": matrix(says or vocab, width),
    }
    if shape.get("attention_bias"):
        for part, size in (("q", queries), ("k", keys), ("v", keys), ("o", width)):
            tensors[f"{attention}.{part}_proj.bias"] = 0.1 * norm(size)
    if qk_norm:
        tensors |= {f"{attention}.{part}_norm.weight": norm(dim) for part in ("q", "k")}
    if says is not None:
        said = torch.randperm(vocab, generator=generator)[:says].sort().values
        tensors["d2t"] = said - torch.arange(says)
        tensors["t2d"] = torch.zeros(vocab, dtype=torch.bool)
        tensors["t2d"][said] = True
    return tensors


def silence(model: Any, first: int = 0) -> None:
    """Makes layers of transformers' decoder, from the first on, add nothing; if all do, what comes
    next depends on one token alone."""
    with torch.no_grad():
        for layer in model.layers[first:]:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()


def build_right_eagle3(
    folder: Path, large: Path, decoder: Any, *, head_dim: int = 8, **layer: Any
) -> None:
    """A head for a model whose layers are silent (`silence`): it guesses what that will say.

    Queries and keys are the same everywhere, so that with RoPE a place attends to itself alone, and
    what it attends to is its token's embedding. The feature is multiplied with nothing. decoder:
    transformers', of which it has the last norm; embeddings and output rows are the model's own.
    """
    text = text_config(large)
    width = text["hidden_size"]
    assert width % head_dim == 0
    shape = {
        "num_attention_heads": width // head_dim,
        "num_key_value_heads": width // head_dim,
        "head_dim": head_dim,
        "attention_bias": True,
        "rms_norm_eps": text["rms_norm_eps"],
        "rope_theta": 100.0,
    }
    layers = tuple(range(min(3, text["num_hidden_layers"])))
    tensors = build_random_eagle3(
        folder, large, form="speculators", layers=layers, **{**shape, **layer}
    )
    del tensors["lm_head.weight"]
    name = "layers.0"
    for part, tensor in tensors.items():
        if part.endswith(("layernorm.weight",)):
            tensor.fill_(1.0)
        elif part.startswith(name) or part == "fc.weight":
            tensor.zero_()
    for part in ("q", "k"):
        tensors[f"{name}.self_attn.{part}_proj.bias"].fill_(30.0)
    tensors[f"{name}.self_attn.v_proj.weight"][:, :width] = torch.eye(width)
    tensors[f"{name}.self_attn.o_proj.weight"].copy_(torch.eye(width))
    tensors["norm.weight"] = decoder.norm.weight.detach().float().clone()
    config = json.loads((folder / "config.json").read_text())
    write_head(folder, config, tensors)
