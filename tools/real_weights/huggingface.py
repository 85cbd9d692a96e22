"""A Whisper in CTranslate2's format, as faster-whisper's users have it, in Hugging Face's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from tools.real_weights.ctranslate2 import FILE, Ct2Whisper
from tools.recipes.checkpoints.folders import drafted

MULTILINGUAL_VOCAB = 51_865
# What Hugging Face's files say of every Whisper.
_WHISPER = {
    "model_type": "whisper",
    "architectures": ["WhisperForConditionalGeneration"],
    "activation_function": "gelu",
    "scale_embedding": False,
    "tie_word_embeddings": True,
}


def convert(source: Path, target: Path) -> None:
    """Write what `--model` takes: config.json, generation_config.json, tokenizer.json and
    model.safetensors, in the precision of the source (float32 if that was quantised).

    Raises `CheckpointError` if the source holds no Whisper or lacks a file; nothing is left then.
    """
    try:
        weights = Ct2Whisper(source / FILE)
        dims = weights.dims
    except (OSError, ValueError) as error:
        raise CheckpointError(str(error)) from error
    listed = read_json(source / "config.json")
    added = read_json(source / "tokenizer.json").get("added_tokens")
    if not isinstance(added, list):
        raise CheckpointError(f"{source / 'tokenizer.json'}: expected added_tokens, got {added!r}")
    ids = {str(token["content"]): int(token["id"]) for token in added}
    files = {
        "config.json": _WHISPER | dims | _ends(ids, source),
        "generation_config.json": _generation(listed, ids, dims["vocab_size"], source),
    }
    with drafted(target) as draft:
        for name, content in files.items():
            (draft / name).write_text(json.dumps(content), encoding="utf-8")
        shutil.copyfile(source / "tokenizer.json", draft / "tokenizer.json")
        tensors = {name: weights.tensor(name).contiguous() for name in weights.names}
        save_file(tensors, draft / "model.safetensors", metadata={"format": "pt"})


def _ends(ids: dict[str, int], folder: Path) -> dict[str, int]:
    try:
        end, start = ids["<|endoftext|>"], ids["<|startoftranscript|>"]
    except KeyError as error:
        raise CheckpointError(
            f"{folder / 'tokenizer.json'}: expected a token {error.args[0]}, found none"
        ) from None
    return {
        "bos_token_id": end,
        "eos_token_id": end,
        "pad_token_id": end,
        "decoder_start_token_id": start,
    }


def _generation(
    listed: dict[str, Any], ids: dict[str, int], vocab_size: int, folder: Path
) -> dict[str, Any]:
    """generation_config.json from CTranslate2's lists of ids, under their other names."""
    for name in ("suppress_ids", "suppress_ids_begin", "alignment_heads"):
        if not isinstance(listed.get(name), list):
            path = folder / "config.json"
            raise CheckpointError(f"{path}: {name}: expected a list, got {listed.get(name)!r}")
    is_multilingual = vocab_size >= MULTILINGUAL_VOCAB
    generation = {
        "suppress_tokens": listed["suppress_ids"],
        "begin_suppress_tokens": listed["suppress_ids_begin"],
        "alignment_heads": listed["alignment_heads"],
        "is_multilingual": is_multilingual,
    }
    if is_multilingual:
        languages = set(listed.get("lang_ids") or ())
        generation["lang_to_id"] = {text: id for text, id in ids.items() if id in languages}
    return generation
