"""What a family of checkpoints declares and builds, and the choices that all families share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from lookhear.engine.admission.admission import Admission
from lookhear.engine.checkpoints.loader import CheckpointError, num_elements
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import Desk
from lookhear.engine.core.runner import Runner
from lookhear.engine.device.acceleration import Acceleration
from lookhear.kernels import (
    INT4,
    default_cpu_dtype,
    fp8_refusal,
    int8_refusal,
    supports_half_weights,
    supports_int8_weights,
)
from lookhear.kernels.fp8 import FP8

# Weights of which less than this stay in the processor's cache: halving them saves nothing.
SMALL_CHECKPOINT_BYTES = 64 * 2**20
# docs/benchmarks/engine.md has the numbers.
SLOW_INT4 = ", for which torch's products of 4 bits pay for single rows of large matrices alone"
# A second copy of the weights may take so much of the machine's memory.
COPY_SHARE = 0.25


class ServingRunner(Runner[Any, Any], Protocol):
    """A runner whose passes may be captured as graphs."""

    def capture(self, progress: Callable[[float], None]) -> None:
        """Before the first step. progress: the share that is done."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a family builds of one checkpoint. encoder_budget: of a step, in the unit of the desk's
    costs. admission: of one that transcribes and bounds the lag. lacks: abilities of its family
    that this checkpoint has not. measure: with a clock, what passes take, when all is ready. The
    last four are for the model's card, see `ModelCard`."""

    desk: Desk
    runner: ServingRunner
    num_parameters: int
    dtype: torch.dtype
    encoder_budget: int
    admission: Admission | None = None
    lacks: tuple[str, ...] = ()
    measure: Callable[[Callable[[], float]], None] | None = None
    languages: list[str] = field(default_factory=list)
    has_word_times: bool = False
    timed_languages: list[str] = field(default_factory=list)
    context_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Family:
    """The declaration of one family: all that the engine has to be told of it."""

    name: str  # for people
    architectures: tuple[str, ...]  # as config.json names them
    # (configuration, checkpoint folder, torch device, progress) -> parts. progress hears the share
    # that is loaded, 0 to 1. Raises `CheckpointError`.
    build: Callable[[EngineConfig, Path, str, Callable[[float], None]], Parts]
    abilities: tuple[str, ...]  # of its checkpoints, see `ModelCard`
    card_rows: int = 192  # requests decoded together on a large card, where nobody says
    takes_aligner: bool = False  # whether config.aligner tells it when words were said
    rounds_cache: bool = False  # whether its keys and values may be in float8
    drafted_by: tuple[str, ...] = ()  # architectures of models that may draft for it, config.draft
    takes_heads: bool = False  # whether an EAGLE3 head may, see `engine.eagle3`
    unread: tuple[str, ...] = ()  # what the names of weights begin with that are not loaded
    # Of one whose encoder may be apart (config.encoders): by role, what that does not load either.
    apart: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def abilities_of(self, parts: Parts) -> list[str]:
        """What one of its checkpoints can do."""
        return [ability for ability in self.abilities if ability not in parts.lacks]


def acceleration_of(config: EngineConfig, device: str) -> Acceleration:
    """How steps are carried out on a device, as far as a configuration allows."""
    return Acceleration.on(
        device,
        graphs=config.cuda_graphs == "auto",
        overlaps=bool(config.overlap),
        graph_bytes=int(config.graph_gigabytes * 2**30),
    )


def chosen_dtype(name: str, device: str, folder: Path | None = None) -> torch.dtype:
    """The fastest one that keeps the words, for "auto". folder: of a checkpoint that stays in
    float32 on a CPU if it is small. Raises `CheckpointError` for int8, fp8 and int4: see
    `int8_weights`, `linear_dtype`."""
    models = "Qwen3, Qwen3-ASR, Qwen3-VL and Voxtral"
    if name == "int8":
        raise CheckpointError(
            f"dtype: int8 is for Whisper on a CPU, and for {models}; expected another, or auto"
        )
    if name in ("fp8", "int4"):
        raise CheckpointError(f"dtype: {name} is for {models} on a GPU; expected another, or auto")
    if name != "auto":
        dtype: torch.dtype = getattr(torch, name)
        return dtype
    if device != "cpu":
        return torch.bfloat16
    if folder is not None and _bytes(folder) < SMALL_CHECKPOINT_BYTES:
        return torch.float32
    return default_cpu_dtype()


def int8_weights(name: str, device: str, folder: Path) -> bool:
    """Whether a family that can keeps its weights in int8: where it is asked to, and by default
    where a CPU has no bfloat16 and the checkpoint is not small. Raises `CheckpointError` where it
    is asked to and cannot."""
    if name == "int8":
        if device != "cpu":
            raise CheckpointError(f"dtype: int8 is for a CPU, the device is {device!r}")
        _check_int8()
        return True
    return (
        name == "auto"
        and chosen_dtype(name, device, folder) == torch.float32
        and device == "cpu"
        and _bytes(folder) >= SMALL_CHECKPOINT_BYTES
        and supports_int8_weights()
    )


def _check_int8() -> None:
    if not supports_int8_weights():
        raise CheckpointError("dtype: int8 is not in this torch or not for this CPU")


def linear_dtype(name: str, device: str) -> torch.dtype | None:
    """What a family that can keeps its decoder's matrices in, float8, int8, on a CPU qint8, or
    int4, where it is asked to; all else: see `beside_linears`. Raises `CheckpointError` where it is
    and cannot. None: as `chosen_dtype` says."""
    if name not in ("fp8", "int8", "int4"):
        return None
    if name == "int8" and device == "cpu":
        _check_int8()
        return torch.qint8
    refused = (fp8_refusal if name == "fp8" else int8_refusal)(device)
    if refused is not None:
        why = SLOW_INT4 if name == "int4" and device == "cpu" else ""
        raise CheckpointError(f"dtype: {name}: {refused}{why}")
    return FP8 if name == "fp8" else torch.int8 if name == "int8" else INT4


def beside_linears(linears: torch.dtype | None) -> torch.dtype | None:
    """What all else is in where matrices are in `linears`: bfloat16; beside qint8 float32, in which
    its products begin and end. None: they are not."""
    if linears is None:
        return None
    return torch.float32 if linears == torch.qint8 else torch.bfloat16


def check_cache(config: EngineConfig, family: Family, device: str) -> None:
    """Raises `CheckpointError` where keys and values are asked for in float8 and cannot be."""
    if config.kv_cache_dtype != "fp8":
        return
    if not family.rounds_cache:
        models = "Qwen3, Qwen3-ASR, Qwen3-VL, Qwen3-Omni and Voxtral on a GPU"
        raise CheckpointError(
            f"kv_cache_dtype: fp8 is for {models}, got a {family.name}; expected auto"
        )
    if (why := fp8_refusal(device)) is not None:
        raise CheckpointError(f"kv_cache_dtype: fp8: {why}")


def cache_dtype(config: EngineConfig, dtype: torch.dtype) -> torch.dtype:
    """Of keys and values of a decoder in dtype."""
    return FP8 if config.kv_cache_dtype == "fp8" else dtype


def half_decoder(name: str, device: str, folder: Path) -> bool:
    """Whether decoding may be sped up with float16 weights (`engine.models.qwen3_weights`): by
    default, and where the machine has memory to spare, as beside bfloat16 they are a copy."""
    if name != "auto" or device != "cpu" or not supports_half_weights():
        return False
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _bytes(folder) <= COPY_SHARE * memory


def weight_bytes(folder: Path, dtype: str, device: str, unread: tuple[str, ...] = ()) -> int:
    """Of a checkpoint as a card holds it, whatever it is stored in; dtype: as it is configured.
    unread: see `Family`."""

    def is_read(name: str) -> bool:
        return not name.startswith(unread)

    if dtype in ("fp8", "int8", "int4"):
        rounded = num_elements(folder, lambda name: is_read(name) and _is_linear(name))
        # Scales of 4 bits are of 32 inputs at least.
        saved = rounded * 3 // 2 - rounded // 16 if dtype == "int4" else rounded
        return 2 * num_elements(folder, is_read) - saved
    element = torch.empty(0, dtype=chosen_dtype(dtype, device, folder)).element_size()
    return num_elements(folder, is_read) * element


def _is_linear(name: str) -> bool:
    """Whether a tensor is a matrix of a decoder's layers."""
    is_tower = any(part in name for part in ("audio_tower", "visual", "projector"))
    return name.endswith("_proj.weight") and not is_tower


def _bytes(folder: Path) -> int:
    weights = (path for path in folder.iterdir() if path.suffix in (".safetensors", ".bin", ".pt"))
    return sum(path.stat().st_size for path in weights)
