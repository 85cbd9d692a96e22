"""One checkpoint in the formats that the peers read."""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib
import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.environments import ENVIRONMENTS
from lookhear.errors import NotInstalled, SourceError

DEMO_WHISPER = Path(__file__).parents[2] / "engine" / "demo" / "whisper"
_COPIED = ["tokenizer.json", "preprocessor_config.json"]


def ctranslate2_folder(checkpoint: Path, cache: Path = ENVIRONMENTS) -> Path:
    """`checkpoint` (Hugging Face's format) converted to CTranslate2's; kept until it changes.

    The weights keep their precision; each peer chooses what it computes in. SourceError if it is
    no checkpoint; NotInstalled without the converter.
    """
    weights = checkpoint / "model.safetensors"
    if not weights.is_file():
        raise SourceError(f"{checkpoint}: expected a checkpoint with model.safetensors")
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()[:16]
    folder = cache / "checkpoints" / f"{checkpoint.name}-{digest}"
    if not (folder / "model.bin").is_file():
        for package in ("ctranslate2", "transformers", "torch"):
            if importlib.util.find_spec(package) is None:
                raise NotInstalled(f"to convert a checkpoint, pip install {package}")
        converters: Any = importlib.import_module("ctranslate2.converters")
        unfinished = folder.with_name(folder.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        converter = converters.TransformersConverter(str(checkpoint), copy_files=_COPIED)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        converter.convert(str(unfinished))
        unfinished.rename(folder)
    return folder


def alignment_heads(checkpoint: Path) -> str | None:
    """The attention heads that follow the audio, as openai-whisper and its descendants write them.

    That is the [layers, heads] mask as bytes, gzipped, in base 85. None if generation_config.json
    does not name them: then those descendants take all heads of the last half of the layers.
    """
    generation = json.loads((checkpoint / "generation_config.json").read_text("utf-8"))
    pairs = generation.get("alignment_heads")
    if not pairs:
        return None
    config = json.loads((checkpoint / "config.json").read_text("utf-8"))
    mask = np.zeros((config["decoder_layers"], config["decoder_attention_heads"]), dtype=bool)
    for layer, head in pairs:
        mask[layer, head] = True
    return base64.b85encode(gzip.compress(mask.tobytes(), mtime=0)).decode("ascii")
