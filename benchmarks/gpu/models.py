"""Engines of true geometry with random weights, made on the device: no checkpoint is downloaded.

Every other file of a checkpoint (tokenizer, templates) is that of a packaged demo checkpoint of the
same family; the configuration is the public one of the model whose name it has.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from lookhear.engine.checkpoints.hub import resolve_checkpoint
from lookhear.engine.checkpoints.loader import CheckpointReader
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.build import Built, build_core


def _text(width: int, ffn: int, **changes: Any) -> dict[str, Any]:
    return {
        "hidden_size": width,
        "intermediate_size": ffn,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151_936,
        "max_position_embeddings": 65_536,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
        **changes,
    }


def _audio(width: int, layers: int, heads: int, out: int) -> dict[str, Any]:
    return {
        "d_model": width,
        "encoder_layers": layers,
        "encoder_attention_heads": heads,
        "encoder_ffn_dim": 4 * width,
        "downsample_hidden_size": 480,
        "output_dim": out,
    }


@dataclass(frozen=True, slots=True)
class Geometry:
    """demo: the packaged checkpoint of the family. changes: to its configuration, by section ("":
    the outermost)."""

    name: str
    demo: str
    changes: Mapping[str, Mapping[str, Any]]

    @property
    def family(self) -> str:
        """whisper, qwen3-asr or qwen3-vl."""
        return self.demo.removeprefix("demo-")


GEOMETRIES = {
    g.name: g
    for g in (
        Geometry(
            "whisper-large-v3-turbo",
            "demo-whisper",
            {
                "": {
                    "d_model": 1280,
                    "encoder_layers": 32,
                    "encoder_attention_heads": 20,
                    "encoder_ffn_dim": 5120,
                    "decoder_layers": 4,
                    "decoder_attention_heads": 20,
                    "decoder_ffn_dim": 5120,
                    "num_mel_bins": 128,
                }
            },
        ),
        Geometry(
            "qwen3-asr-0.6b",
            "demo-qwen3-asr",
            {"text_config": _text(1024, 3072), "audio_config": _audio(896, 18, 14, 1024)},
        ),
        Geometry(
            "qwen3-asr-1.7b",
            "demo-qwen3-asr",
            {"text_config": _text(2048, 6144), "audio_config": _audio(1024, 24, 16, 2048)},
        ),
        Geometry(
            "qwen3-vl-2b",
            "demo-qwen3-vl",
            {
                "text_config": _text(
                    2048,
                    6144,
                    rope_parameters={
                        "rope_type": "default",
                        "rope_theta": 5_000_000.0,
                        "mrope_section": [24, 20, 20],
                        "mrope_interleaved": True,
                    },
                ),
                "vision_config": {
                    "depth": 24,
                    "hidden_size": 1024,
                    "num_heads": 16,
                    "intermediate_size": 4096,
                    "out_hidden_size": 2048,
                    "num_position_embeddings": 2304,
                    "deepstack_visual_indexes": [5, 11, 17],
                },
            },
        ),
    )
}


class RandomWeights(CheckpointReader):
    """Any tensor that is asked for, drawn on the device."""

    def __init__(
        self,
        folder: Path,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self._dtype, self._device = dtype, device

    def __contains__(self, name: str) -> bool:
        return True

    def take_either(self, name: str, *shapes: tuple[int, ...]) -> Tensor:
        """A random weight of the first of these shapes; biases are 0, norms 1."""
        shape = shapes[0]
        weight = torch.empty(shape, dtype=self._dtype, device=self._device)
        if len(shape) > 1:
            return weight.normal_(0.0, 0.02)
        return weight.fill_(0.0 if name.endswith("bias") else 1.0)

    def are_alike(self, one: str, other: str) -> bool:
        """A tied head is stored once, as in what is published."""
        return True

    def take_scaled(self, name: str, dtype: torch.dtype, *shape: int) -> None:
        """Nothing is stored so: it is rounded as it is loaded."""

    def take_integers(self, name: str, *shape: int) -> None:
        """As `take_scaled`."""

    def finish(self, ignore: object = (), *, parts: object = ()) -> None:
        """Nothing was left in a file."""


def write_folder(geometry: Geometry, folder: Path, *, tiny: bool = False) -> None:
    """A checkpoint folder without weights. tiny: with the demo checkpoint's own geometry."""
    source = resolve_checkpoint(geometry.demo)
    folder.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.is_file() and path.suffix not in (".safetensors", ".md"):
            shutil.copyfile(path, folder / path.name)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    for section, values in {}.items() if tiny else geometry.changes.items():
        (config[section] if section else config).update(values)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    # Nothing that the small checkpoint leaves out may be left out here: its unused ids, say.
    (folder / "lookhear.json").write_text('{"short_windows": true}', encoding="utf-8")


@contextmanager
def random_weights() -> Iterator[None]:
    """Within it, checkpoints are drawn instead of read, and no answer ends because it loops:
    what random weights say does."""
    with ExitStack() as stack:
        for module in ("whisper.model", "models.qwen3", "models.qwen3_asr", "models.qwen3_vl"):
            reader = f"lookhear.engine.{module}.CheckpointReader"
            stack.enter_context(patch(reader, RandomWeights))
        stack.enter_context(patch("lookhear.engine.core.request.is_looping", lambda *_: False))
        yield


def build(folder: Path, device: str, **changes: Any) -> Built:
    """An engine on random weights; within `random_weights` only."""
    settings = {
        "model": str(folder),
        "served_name": "bench",
        "device": device,
        "dtype": "bfloat16" if device != "cpu" else "float32",
        "draft": "off",  # what random weights say comes again, and a step would be many tokens
        **changes,
    }
    return build_core(EngineConfig(**settings), lambda stage, share: None)


def decoder_bytes(
    config: Mapping[str, Any], family: str, element: int, *, in_layers: float | None = None
) -> tuple[int, int, int]:
    """What a decode step reads: bytes of weights; of keys and values per row, for every token of
    its context, and besides (a Whisper's audio). in_layers: bytes of a layer's weight, if it has
    others than element."""
    if family == "whisper":
        width, layers = config["d_model"], config["decoder_layers"]
        layer = 4 * width**2 + 2 * width**2 + 2 * width * config["decoder_ffn_dim"]
        weights = layers * layer + width * config["vocab_size"]
        kept = 2 * layers * width
        return element * weights, element * kept, element * kept * config["max_source_positions"]
    text = config["text_config"]
    width, dim = text["hidden_size"], text["head_dim"]
    queries, keys = (dim * text[f"num_{key}"] for key in ("attention_heads", "key_value_heads"))
    layer = width * (2 * queries + 2 * keys) + 3 * width * text["intermediate_size"]
    weights = int((in_layers or element) * text["num_hidden_layers"] * layer)
    weights += element * width * text["vocab_size"]
    return weights, element * 2 * text["num_hidden_layers"] * keys, 0
