"""Reading an adapter as peft writes it: adapter_config.json and adapter_model.safetensors.

Refused, by name: pickles, other kinds than LoRA, and what would change something that is not done
here (DoRA, biases, embeddings, whole modules that were trained along).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from lookhear.engine.checkpoints.loader import (
    CheckpointError,
    all_finite,
    read_json,
    whole_number,
)

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PICKLE = "adapter_model.bin"
_PREFIX = "base_model.model."
_NAME = re.compile(r"(.+)\.lora_([AB])(?:\.default)?\.weight")
# Fields that say that there is more to it than two matrices, and the values that say there is not.
_PLAIN: Mapping[str, tuple[Any, ...]] = {
    "use_dora": (False, None),
    "bias": ("none", None),
    "lora_bias": (False, None),
    "fan_in_fan_out": (False, None),
    "modules_to_save": (None, []),
    "layer_replication": (None, []),
    "trainable_token_indices": (None, [], {}),
    "target_parameters": (None, []),
    "use_qalora": (False, None),
    "alora_invocation_tokens": (None, []),
    "kasa_config": (None,),
    "arrow_config": (None,),
    "use_bdlora": (None, False),
}
# Beginnings (`init_lora_weights`) that take something away from the model's own weights, which the
# adapter gives back: beside the published ones it would be there twice.
_TAKING = ("pissa", "olora", "corda", "loftq", "lora_ga")
_LEAVING = (
    "a beginning that leaves the model's weights as they are (peft's save_pretrained converts "
    "others: path_initial_model_for_weight_conversion)"
)


@dataclass(frozen=True, slots=True)
class LowRank:
    """down: [rank, in]. up: [out, rank], scaled. Both float32."""

    down: Tensor
    up: Tensor


@dataclass(frozen=True, slots=True)
class PeftAdapter:
    """rank: the largest. modules: by the names of the checkpoint's linears. version: of its
    content."""

    rank: int
    modules: Mapping[str, LowRank]
    version: str


def read_adapter(folder: Path, shapes: Mapping[str, tuple[int, int]], max_rank: int) -> PeftAdapter:
    """shapes: (out, in) of the linears that can be changed, by name. Raises `CheckpointError`,
    which names the file, field or tensor."""
    path = folder / CONFIG
    config = read_json(path)
    if config.get("peft_type") != "LORA":
        raise CheckpointError.of(path, "peft_type", "LORA", config.get("peft_type"))
    for field, plain in _PLAIN.items():
        if config.get(field) not in plain:
            raise CheckpointError.of(path, field, repr(plain[0]), config[field])
    begun = config.get("init_lora_weights")
    if isinstance(begun, str) and begun.lower().startswith(_TAKING):
        raise CheckpointError.of(path, "init_lora_weights", _LEAVING, begun)
    rank_of, scale_of = _ranks(config, path)
    tensors, version = _tensors(folder)
    modules: dict[str, LowRank] = {}
    for name in sorted({found[0] for found in tensors}):
        pair = [tensors.get((name, side)) for side in "AB"]
        if name not in shapes:
            known = ", ".join(sorted({module.rpartition(".")[2] for module in shapes}))
            raise CheckpointError(
                f"{folder / WEIGHTS}: expected changes of linears of this model ({known}), got one "
                f"of {name}"
            )
        down, up = pair
        if down is None or up is None:
            raise CheckpointError(
                f"{folder / WEIGHTS}: {name}: expected lora_A and lora_B, got one"
            )
        out, inside = shapes[name]
        rank = rank_of(name)
        if rank > max_rank:
            raise CheckpointError.of(path, "r", f"at most {max_rank} (--max-adapter-rank)", rank)
        for tensor, expected, side in ((down, (rank, inside), "A"), (up, (out, rank), "B")):
            if tuple(tensor.shape) != expected:
                raise CheckpointError(
                    f"{folder / WEIGHTS}: {name}.lora_{side}: expected shape {list(expected)}, "
                    f"got {list(tensor.shape)}"
                )
            if not all_finite(tensor):
                raise CheckpointError(
                    f"{folder / WEIGHTS}: {name}.lora_{side}: expected finite numbers"
                )
        modules[name] = LowRank(down, up * scale_of(name))
    if not modules:
        raise CheckpointError(
            f"{folder / WEIGHTS}: expected tensors of lora_A and lora_B, got none"
        )
    rank = max(len(module.down) for module in modules.values())
    return PeftAdapter(rank, modules, version)


def _ranks(
    config: Mapping[str, Any], path: Path
) -> tuple[Callable[[str], int], Callable[[str], float]]:
    """Rank and scale of a module, by its name."""
    rank = whole_number(config, path, "r")
    alpha = config.get("lora_alpha", 8)
    ranks, alphas = (_pattern(config, path, name) for name in ("rank_pattern", "alpha_pattern"))
    if isinstance(alpha, bool) or not isinstance(alpha, int | float):
        raise CheckpointError.of(path, "lora_alpha", "a number", alpha)

    def rank_of(name: str) -> int:
        return int(_matched(ranks, name, rank))

    def scale_of(name: str) -> float:
        own = rank_of(name)
        by = own**0.5 if config.get("use_rslora") else own
        return float(_matched(alphas, name, alpha)) / by

    return rank_of, scale_of


def _pattern(config: Mapping[str, Any], path: Path, name: str) -> dict[str, float]:
    value = config.get(name) or {}
    is_plain = isinstance(value, dict) and all(
        isinstance(number, int | float) and number > 0 for number in value.values()
    )
    if not is_plain:
        raise CheckpointError.of(path, name, "numbers by module", value)
    return dict(value)


def _matched(patterns: Mapping[str, float], name: str, default: float) -> float:
    for pattern, value in patterns.items():
        try:
            if re.match(rf"(.*\.)?({pattern})$", name):
                return value
        except re.error:
            continue
    return default


def _tensors(folder: Path) -> tuple[dict[tuple[str, str], Tensor], str]:
    """(module, side) -> tensor, and what names the content."""
    path = folder / WEIGHTS
    if not path.is_file():
        there = PICKLE if (folder / PICKLE).is_file() else "none"
        why = ", which could execute anything" if there == PICKLE else ""
        raise CheckpointError(f"{folder}: expected a file {WEIGHTS}, got {there}{why}")
    found: dict[tuple[str, str], Tensor] = {}
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            for key in file.keys():  # noqa: SIM118
                match = _NAME.fullmatch(key.removeprefix(_PREFIX))
                if match is None:
                    raise CheckpointError(f"{path}: expected lora_A and lora_B, got {key}")
                found[match[1], match[2]] = file.get_tensor(key).float()
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: expected a safetensors file, got {error}") from error
    digest = hashlib.blake2b(digest_size=16)
    for (name, side), tensor in sorted(found.items(), key=lambda item: item[0]):
        digest.update(f"{name} {side} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().data)
    digest.update((folder / CONFIG).read_bytes())
    return found, digest.hexdigest()
