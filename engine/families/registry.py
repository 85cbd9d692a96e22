"""Families of checkpoints that can be served. A new one is a file here, or in `streaming` if it
writes as it hears, and a line in `MODULES`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.families.family import Family

# Each holds its declaration, FAMILY. Imported when a checkpoint is looked at, not before.
MODULES = (
    "whisper",
    "qwen3",
    "qwen3_pooling",
    "qwen3_asr",
    "qwen3_vl",
    "qwen3_moe",
    "qwen3_vl_moe",
    "qwen3_omni",
    "smolvlm",
    "voxtral",
    "qwen3_aligner",
    "moonshine",
    "streaming.moonshine_streaming",
    "streaming.transducer",
    "streaming.voxtral_realtime",
    "parakeet",
    "nemotron3_diarisation",
)


def families() -> list[Family]:
    """The declarations of all families, in order."""
    return [_declared(name) for name in MODULES]


def _declared(name: str) -> Family:
    family: Family = import_module(f"{__package__}.{name}").FAMILY
    return family


def _likely(kind: object) -> Family | None:
    """Of the file that is called as config.json calls the type of a model."""
    named = [name for name in MODULES if name.rpartition(".")[2] == kind]
    return _declared(named[0]) if named else None


def family_of(folder: Path, known: Sequence[Family] | None = None) -> tuple[Family, str]:
    """The family of a checkpoint folder, and the architecture that config.json names.

    known: families to choose from; None: all of `families`. Raises `CheckpointError`, which names
    the architectures that can be served.
    """
    path = folder / "config.json"
    config = read_json(path)
    named = config.get("architectures")
    names = [str(name) for name in named] if isinstance(named, list) else []
    # To import all the others takes a fifth of a second.
    likely = _likely(config.get("model_type")) if known is None else None
    if likely is not None and names and names[0] in likely.architectures:
        return likely, names[0]
    of = {
        architecture: family
        for family in (families() if known is None else known)
        for architecture in family.architectures
    }
    for name in names:
        if name in of:
            return of[name], name
    # Those that only help others answer nobody.
    served = [architecture for architecture, family in of.items() if family.abilities] or of
    raise CheckpointError(
        f"{path}: architectures: expected one of {', '.join(served)}, "
        f"got {', '.join(names) or repr(named)}"
    )
