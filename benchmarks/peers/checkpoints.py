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

DEMO_WHISPER = Path(__file__).resolve().parents[2] / "tools" / "demo" / "lookhear_demo" / "whisper"
FIRST_SPECIAL = 50_257  # of a multilingual Whisper: the end of text, and what follows it
_COPIED = ["tokenizer.json", "preprocessor_config.json"]


def is_toy(checkpoint: Path) -> bool:
    """Whether it is one of ours: a vocabulary of its own, trained on short windows."""
    return (checkpoint / "lookhear.json").is_file()


def ctranslate2_folder(checkpoint: Path, cache: Path = ENVIRONMENTS) -> Path:
    """`checkpoint` (Hugging Face's format) converted to CTranslate2's; kept until it changes.

    The weights keep their precision; each peer chooses what it computes in. SourceError if it is
    no checkpoint; NotInstalled without the converter.
    """
    folder = _folder(checkpoint, "model.safetensors", cache)
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


def tiktoken_folder(checkpoint: Path, cache: Path = ENVIRONMENTS) -> Path:
    """Folder with assets/multilingual.tiktoken: the vocabulary as openai-whisper reads it.

    A line is a token's bytes in base 64 and its id; the special tokens are not among them, they
    follow in an order that all Whispers share. SourceError.
    """
    folder = _folder(checkpoint, "vocab.json", cache)
    path = folder / "assets" / "multilingual.tiktoken"
    if not path.is_file():
        symbols = {symbol: byte for byte, symbol in byte_symbols().items()}
        vocabulary: dict[str, int] = json.loads((checkpoint / "vocab.json").read_text("utf-8"))
        ordinary = sorted((i, text) for text, i in vocabulary.items() if i < FIRST_SPECIAL)
        lines = [
            f"{base64.b64encode(bytes(symbols[symbol] for symbol in text)).decode()} {i}\n"
            for i, text in ordinary
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines), "ascii")
    return folder


def byte_symbols() -> dict[int, str]:
    """The printable character that stands for each byte in a byte-level vocabulary (GPT-2)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    symbols = {byte: chr(byte) for byte in plain}
    return symbols | {byte: chr(256 + place) for place, byte in enumerate(others)}


def _folder(checkpoint: Path, file: str, cache: Path) -> Path:
    """Where a form of this file of the checkpoint is kept."""
    path = checkpoint / file
    if not path.is_file():
        raise SourceError(f"{checkpoint}: expected a checkpoint with {file}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return cache / "checkpoints" / f"{checkpoint.name}-{digest}"


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
