"""How a checkpoint makes vectors of texts: the modules that sentence-transformers lists.

modules.json                        Transformer, Pooling, Dense, Normalize, in order
1_Pooling/config.json               which tokens: the last one; without Pooling, all of them
2_Dense/{config.json, safetensors}  a matrix behind that
config_sentence_transformers.json   what stands in front of a query or a document
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import (
    CheckpointError,
    CheckpointReader,
    read_any_json,
    read_json,
    whole_number,
)

KNOWN = ("Transformer", "Pooling", "Dense", "Normalize")


@dataclass(frozen=True, slots=True)
class SentenceModules:
    """is_late: a vector is made of each token, and texts are compared token by token (late
    interaction). projections: ([out, in], [out] or None) float32 on the CPU, one behind another.
    prompts: by role, "query" or "document", what stands in front of a text."""

    is_late: bool = False
    normalises: bool = True
    projections: tuple[tuple[Tensor, Tensor | None], ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_folder(cls, folder: Path) -> SentenceModules | None:
        """None if the folder lists none. Raises `CheckpointError` for what is not known here."""
        path = folder / "modules.json"
        if not path.is_file():
            return None
        found: list[tuple[str, Path]] = []
        for entry in _entries(path):
            kind = str(entry.get("type", "")).rpartition(".")[2]
            if kind not in KNOWN:
                raise CheckpointError.of(path, "type", f"one of {', '.join(KNOWN)}", kind)
            found.append((kind, folder / str(entry.get("path", ""))))
        kinds = [kind for kind, _ in found]
        if kinds[:1] != ["Transformer"] or kinds.count("Pooling") > 1:
            raise CheckpointError.of(path, "type", "a Transformer, then one Pooling at most", kinds)
        for kind, place in found:
            if kind == "Pooling":
                _check_pooling(place / "config.json")
        return cls(
            is_late="Pooling" not in kinds,
            normalises="Normalize" in kinds,
            projections=tuple(_dense(place) for kind, place in found if kind == "Dense"),
            prompts=_prompts(folder / "config_sentence_transformers.json"),
        )


def _entries(path: Path) -> list[dict[str, Any]]:
    entries = read_any_json(path)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise CheckpointError(f"{path}: expected a list of objects")
    return entries


def _check_pooling(path: Path) -> None:
    config = read_json(path)
    prefix = "pooling_mode_"
    modes = [str(config["pooling_mode"])] if "pooling_mode" in config else []
    modes += [name for name, on in config.items() if name.startswith(prefix) and on is True]
    if [mode.removeprefix(prefix) for mode in modes] != ["lasttoken"]:
        raise CheckpointError.of(path, "pooling_mode", "lasttoken", modes)


def _dense(folder: Path) -> tuple[Tensor, Tensor | None]:
    path = folder / "config.json"
    config = read_json(path)
    activation = str(config.get("activation_function", "Identity")).rpartition(".")[2]
    if activation not in ("Identity", "Linear"):
        raise CheckpointError.of(path, "activation_function", "Identity", activation)
    shape = [whole_number(config, path, f"{side}_features") for side in ("out", "in")]
    reader = CheckpointReader(folder, dtype=torch.float32)
    weight = reader.take("linear.weight", *shape)
    bias = reader.take("linear.bias", shape[0]) if "linear.bias" in reader else None
    reader.finish()
    return weight, bias


def _prompts(path: Path) -> dict[str, str]:
    config = read_json(path, required=False)
    if config.get("do_query_expansion"):
        expected = "false, for queries are not expanded"
        raise CheckpointError.of(path, "do_query_expansion", expected, True)
    prompts = config.get("prompts") or {}
    if not isinstance(prompts, dict):
        raise CheckpointError.of(path, "prompts", "an object", prompts)
    roles = {"query": ("query",), "document": ("document", "passage", "corpus")}
    return {
        role: next((str(prompts[name]) for name in names if prompts.get(name)), "")
        for role, names in roles.items()
    }
