"""Random adapters in folders as peft writes them, and models that they are merged into."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
ALL = (*ATTENTION, "gate_proj", "up_proj", "down_proj")


def build_random_adapter(
    folder: Path,
    model: Any,
    *,
    seed: int = 0,
    rank: int = 4,
    alpha: float = 8.0,
    targets: Sequence[str] = ALL,
    size: float = 0.3,
    only: str = "",
    **config: Any,
) -> Path:
    """Changes of all linears of a transformers model whose names end with the targets. size: of the
    changes, beside weights of about 1. only: how the names begin. config: more fields of the
    file."""
    generator = torch.Generator().manual_seed(seed)
    tensors: dict[str, torch.Tensor] = {}
    ranks = config.get("rank_pattern", {})
    for name, module in model.named_modules():
        is_target = name.startswith(only) and name.rpartition(".")[2] in targets
        if not isinstance(module, torch.nn.Linear) or not is_target:
            continue
        own = next((r for p, r in ranks.items() if re.match(rf"(.*\.)?({p})$", name)), rank)
        down = torch.randn(own, module.in_features, generator=generator)
        up = torch.randn(module.out_features, own, generator=generator)
        tensors[f"base_model.model.{name}.lora_A.weight"] = down * module.in_features**-0.5
        tensors[f"base_model.model.{name}.lora_B.weight"] = up * (size * own**-0.5)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    told = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": alpha,
        "target_modules": list(targets),
        "bias": "none",
        "use_dora": False,
        **config,
    }
    (folder / "adapter_config.json").write_text(json.dumps(told))
    return folder


def merged(model: Any, folder: Path) -> Any:
    """A copy of a transformers model with an adapter added to its weights: W + alpha / r * B A."""
    config = json.loads((folder / "adapter_config.json").read_text())
    tensors = load_file(folder / "adapter_model.safetensors")
    changed = copy.deepcopy(model)
    with torch.no_grad():
        for name, module in changed.named_modules():
            down = tensors.get(f"base_model.model.{name}.lora_A.weight")
            if down is None:
                continue
            up = tensors[f"base_model.model.{name}.lora_B.weight"]
            alphas = config.get("alpha_pattern", {})
            alpha = next(
                (a for p, a in alphas.items() if re.match(rf"(.*\.)?({p})$", name)),
                config["lora_alpha"],
            )
            by = len(down) ** 0.5 if config.get("use_rslora") else len(down)
            module.weight += alpha / by * (up @ down)
    return changed
