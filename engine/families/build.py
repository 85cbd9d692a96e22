"""From a configuration to a running core: find the checkpoint, load it, put its parts together."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from lookhear.engine.admission.admission import Admission
from lookhear.engine.checkpoints.choice import choose_checkpoint
from lookhear.engine.checkpoints.hub import resolve_checkpoint
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.checkpoints.packages import Progress
from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.config import AUTO_MODEL, EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.scheduler import Scheduler
from lookhear.engine.eagle3.config import is_head
from lookhear.engine.families.family import Family, check_cache, weight_bytes
from lookhear.engine.families.parts.capacity import card_memory, check_room, fitted
from lookhear.engine.families.registry import families as registered
from lookhear.engine.families.registry import family_of
from lookhear.engine.messages import ModelCard
from lookhear.kernels.choice import mode as kernel_mode

log = logging.getLogger(__name__)

# Parameters below which one thread is as fast as several (waiting for each other costs more than
# the work), and leaves the other cores to the gateway.
SMALL_MODEL = 20_000_000
LEAST_CAPABILITY = 8, 0  # Ampere: bfloat16, and what the kernels' tiles are made for


@dataclass(frozen=True, slots=True)
class Built:
    """config: as it was given, what it left to the device filled in. admission: who may begin to
    speak; None: everybody."""

    core: EngineCore
    card: ModelCard
    config: EngineConfig
    device: str
    dtype: str
    admission: Admission | None = None


def build_core(
    config: EngineConfig, progress: Progress, families: Sequence[Family] | None = None
) -> Built:
    """Load config.model, chosen first if it is "auto". families: to choose from; None: all that are
    registered.

    Raises CheckpointError, OSError, ValueError or RuntimeError if it cannot be.
    """
    kernel_mode()  # a wrong one is said here, before a pass fails with it
    device = _device(config.device)
    if ":" in device:
        torch.cuda.set_device(device)  # kernels are launched on the current one
    reason = ""
    if config.model == AUTO_MODEL:
        choice = choose_checkpoint(progress)
        folder, reason = choice.folder, choice.reason
        config = replace(config, model=choice.name)
    else:
        folder = resolve_checkpoint(config.model, progress)
    family, architecture = family_of(folder, families)
    _check_role(config, family, families)
    if config.aligner:
        config = _with_aligner(config, folder, family, progress)
    if config.draft_model:
        config = _with_drafts(config, family, progress)
    memory = card_memory(device)
    check_cache(config, family, device)
    weights = 0 if memory is None else _weights(config, folder, family, device)
    check_room(folder, weights, memory)
    config = fitted(config, memory, family.card_rows, weights)
    parts = family.build(
        config, folder, device, lambda share: progress(f"loading {config.name}", share)
    )
    _set_threads(config, parts.num_parameters, device)
    if config.device == "cpu" and parts.num_parameters >= SMALL_MODEL and torch.cuda.is_available():
        log.warning(
            "device: %s is here and is not used; --device cuda does", torch.cuda.get_device_name()
        )
    together = parts.admission.together if parts.admission is not None else None
    scheduler = Scheduler(
        config.max_rows, parts.encoder_budget, config.token_budget, together=together
    )
    card = ModelCard(
        id=config.name,
        architecture=architecture,
        languages=parts.languages,
        created=int(time.time()),
        parameters=parts.num_parameters,
        has_word_times=parts.has_word_times,
        timed_languages=parts.timed_languages,
        takes_aligner=family.takes_aligner and not config.aligner,
        abilities=family.abilities_of(parts),
        context_tokens=parts.context_tokens,
        max_answers=config.max_answers if parts.context_tokens else 0,
        toy=Traits.from_folder(folder).toy,
        checkpoint=config.model,
        reason=reason,
    )
    if device.startswith("cuda") and config.cuda_graphs != "off":
        parts.runner.capture(lambda share: progress(f"capturing graphs of {config.name}", share))
    if parts.measure is not None:
        progress(f"measuring passes of {config.name}", 1.0)
        parts.measure(time.perf_counter)
    core = EngineCore(parts.desk, parts.runner, scheduler, overlap=config.overlap or 0)
    dtype = str(parts.dtype).removeprefix("torch.").removeprefix("q")  # qint8 is int8
    return Built(core, card, config, device, dtype, parts.admission)


def _weights(config: EngineConfig, folder: Path, family: Family, device: str) -> int:
    """Bytes of all that is loaded; a head's are few."""
    unread = (*family.unread, *family.apart.get(config.role, ()))
    count = weight_bytes(folder, config.dtype, device, unread)
    has_draft = config.draft_model and config.role != "encoder"
    if has_draft and not is_head(small := Path(config.draft_model)):
        count += weight_bytes(small, config.dtype, device)
    if config.aligner and family.takes_aligner:
        count += weight_bytes(Path(config.aligner), config.dtype, device)
    return count


def _with_aligner(
    config: EngineConfig, folder: Path, family: Family, progress: Progress
) -> EngineConfig:
    """The aligner's folder, where the family takes one."""
    if not family.takes_aligner:
        log.warning("aligner: %s is a %s, which takes none", config.name, family.name)
        return config
    aligner = resolve_checkpoint(config.aligner, progress)
    if Traits.from_folder(aligner).toy and not Traits.from_folder(folder).toy:
        log.warning(
            "aligner: %s is a toy, which knows few words, and nobody's voice: its times of "
            "what %s hears mean nothing", config.aligner, config.name,
        )  # fmt: skip
    return replace(config, aligner=str(aligner))


def _set_threads(config: EngineConfig, num_parameters: int, device: str) -> None:
    """Of torch's operations on a processor."""
    if config.threads:
        torch.set_num_threads(config.threads)
    elif num_parameters < SMALL_MODEL or device.startswith("cuda"):
        # What is left to the processor beside a GPU is log-mel of a second at a time: too little to
        # be shared, and the threads would wait for it in a loop.
        torch.set_num_threads(1)
    elif "OMP_NUM_THREADS" not in os.environ:
        # A core is left to the gateway: threads that share one wait for each other in a loop.
        torch.set_num_threads(max(1, (torch.get_num_threads() - 1) // config.replicas))


def _check_role(config: EngineConfig, family: Family, known: Sequence[Family] | None) -> None:
    """Raises `CheckpointError` where a part of the model is asked for that has none. known: see
    `build_core`."""
    if config.role and config.role not in family.apart:
        all_known = registered() if known is None else known
        having = ", ".join(each.name for each in all_known if each.apart) or "none here"
        raise CheckpointError(
            f"encoders: expected a model whose encoder can be apart ({having}), got a {family.name}"
        )


def _with_drafts(config: EngineConfig, family: Family, progress: Progress) -> EngineConfig:
    """The draft model's folder, or a head's, or without it where the family has no use for it."""
    folder = resolve_checkpoint(config.draft_model, progress, reads_torch=True)
    if is_head(folder):
        kind, fits = "an EAGLE3 head", family.takes_heads
    else:
        other, architecture = _drafting(folder)
        kind, fits = f"a {other.name}", architecture in family.drafted_by
    if fits:
        return replace(config, draft=str(folder))
    log.warning("draft: %s is a %s; %s drafts none for it", config.name, family.name, kind)
    return replace(config, draft="auto")


def _drafting(folder: Path) -> tuple[Family, str]:
    try:
        return family_of(folder)
    except CheckpointError as error:
        raise CheckpointError(f"draft: {error}; nor is it an EAGLE3 head") from error


def _device(name: str) -> str:
    if name == "auto":
        if not torch.cuda.is_available():
            return "cpu"
        found = torch.cuda.get_device_capability()
        if found >= LEAST_CAPABILITY:
            return "cuda"
        log.warning(
            "device: %s is here and is not used: expected compute capability %s, it has %s",
            torch.cuda.get_device_name(), *map(_dotted, (LEAST_CAPABILITY, found)),
        )  # fmt: skip
        return "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise RuntimeError(f"device: expected a CUDA device for {name!r}, torch sees none")
    return name


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))
