"""Whisper as others store it, seen as a Hugging Face folder.

The weights stay where they are: a view is a folder in the user's cache with a link to them, beside
the small JSON files that Hugging Face's folders have. It is made once for each state of its source.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lookhear.engine.checkpoints.cache import filling
from lookhear.engine.checkpoints.ctranslate2 import FILE, Ct2Whisper
from lookhear.engine.checkpoints.loader import CheckpointError, has_safetensors, read_json
from lookhear.engine.checkpoints.openai_pt import OpenAiWhisper
from lookhear.engine.checkpoints.packages import Progress, vocabularies
from lookhear.engine.checkpoints.vocabulary import (
    build_tokenizer,
    generation_rules,
    is_multilingual,
    vocabulary_file,
)
from lookhear.engine.config.caches import our_cache

_FORM = 2  # of the files written here; another one makes older views obsolete
# What Hugging Face's files say of every Whisper.
_WHISPER = {
    "model_type": "whisper",
    "architectures": ["WhisperForConditionalGeneration"],
    "activation_function": "gelu",
    "scale_embedding": False,
    "tie_word_embeddings": True,
}
# For transformers' processor alone: the log-mel of every Whisper, and its special tokens.
_PREPROCESSOR = {
    "feature_extractor_type": "WhisperFeatureExtractor",
    "processor_class": "WhisperProcessor",
    "sampling_rate": 16_000,
    "chunk_length": 30,
    "hop_length": 160,
    "n_fft": 400,
    "n_samples": 480_000,
    "nb_max_frames": 3000,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": False,
}
_TOKENS = {
    "tokenizer_class": "WhisperTokenizer",
    "processor_class": "WhisperProcessor",
    "errors": "replace",
} | {f"{role}_token": "<|endoftext|>" for role in ("bos", "eos", "unk", "pad")}
_TOKENIZER = "tokenizer.json"


def as_huggingface(source: Path, progress: Progress) -> Path:
    """The folder itself, or a view of a folder of CTranslate2's, or of OpenAI's `.pt`.

    progress hears of a vocabulary that is downloaded for it. Raises `CheckpointError`.
    """
    if source.is_dir():
        if not (source / FILE).is_file() or has_safetensors(source) or _is_named(source):
            return source
        weights, folder = source / FILE, source
    else:
        weights, folder = source, source.parent
    beside = [folder / name for name in (_TOKENIZER, "config.json", "lookhear.json")]
    target = our_cache() / "views" / f"{source.name}-{_state(weights, *beside)}"
    try:
        with filling(target) as draft:
            if draft is not None:
                _write(draft, weights, progress)
    except ValueError as error:
        raise CheckpointError(str(error)) from error
    except OSError as error:
        if error.filename is not None and Path(error.filename).is_relative_to(folder):
            raise CheckpointError(str(error)) from error  # the checkpoint cannot be read
        raise CheckpointError(
            f"{source}: a few small files of it cannot be kept in {target.parent}: "
            f"{error.strerror or error}; XDG_CACHE_HOME may name another place"
        ) from error
    return target


def _is_named(folder: Path) -> bool:
    """Whether its config.json is Hugging Face's, as that of a view is."""
    return "architectures" in read_json(folder / "config.json", required=False)


def _state(*paths: Path) -> str:
    """Changes with any of the files; those that are not there count as well."""
    digest = hashlib.sha256(str(_FORM).encode())
    for path in paths:
        digest.update(f"{path.resolve()}\n".encode())
        if path.is_file():
            stat = path.stat()
            digest.update(f"{stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _write(draft: Path, weights: Path, progress: Progress) -> None:
    """Raises OSError, ValueError, CheckpointError."""
    is_ct2 = weights.name == FILE
    folder = weights.parent
    dims = Ct2Whisper(weights).dims if is_ct2 else OpenAiWhisper(weights).dims
    size = dims["vocab_size"]
    tokens = folder / _TOKENIZER
    rules: dict[str, Any] = {}
    if not (is_ct2 and tokens.is_file()):
        tokenizer = build_tokenizer(_vocabulary(weights, size, progress), size)
        rules = generation_rules(tokenizer, size)
        tokens = draft / _TOKENIZER
        tokenizer.save(str(tokens))
    else:
        (draft / _TOKENIZER).symlink_to(tokens.resolve())
    ids = _special_ids(tokens)
    if is_ct2:
        rules |= _listed(folder / "config.json", ids, size)
    rules.setdefault("alignment_heads", list(_upper_heads(dims)))
    ends, length = _ends(ids, tokens), dims["max_target_positions"]
    rules |= ends | _generation(ids, tokens, size) | {"max_length": length}
    for name, content in (
        ("config.json", _WHISPER | dims | ends),
        ("generation_config.json", rules),
        ("preprocessor_config.json", _PREPROCESSOR | {"feature_size": dims["num_mel_bins"]}),
        ("tokenizer_config.json", _TOKENS | {"model_max_length": length}),
    ):
        (draft / name).write_text(json.dumps(content), encoding="utf-8")
    if (folder / "lookhear.json").is_file():
        (draft / "lookhear.json").symlink_to((folder / "lookhear.json").resolve())
    (draft / (FILE if is_ct2 else "model.pt")).symlink_to(weights.resolve())


def _vocabulary(weights: Path, vocab_size: int, progress: Progress) -> Path:
    """Beside the weights, in an installed openai-whisper, or downloaded."""
    name = vocabulary_file(vocab_size)
    places = [weights.parent]
    spec = importlib.util.find_spec("whisper")
    if spec is not None and spec.origin is not None:
        places.append(Path(spec.origin).parent / "assets")
    for place in places:
        if (place / name).is_file():
            return place / name
    try:
        return vocabularies(progress) / name
    except CheckpointError as error:
        raise CheckpointError(
            f"{weights}: expected {name} beside it, which openai/whisper keeps in whisper/assets; "
            f"openai-whisper is not installed, and {error}"
        ) from error


def _special_ids(path: Path) -> dict[str, int]:
    added = read_json(path).get("added_tokens")
    if not isinstance(added, list):
        raise ValueError(f"{path}: expected added_tokens, got {added!r}")
    try:
        return {str(token["content"]): int(token["id"]) for token in added}
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"{path}: added_tokens: expected content and id of each") from error


def _ends(ids: dict[str, int], path: Path) -> dict[str, int]:
    end = _id_of("endoftext", ids, path)
    return {
        "bos_token_id": end,
        "eos_token_id": end,
        "pad_token_id": end,
        "decoder_start_token_id": _id_of("startoftranscript", ids, path),
    }


def _generation(ids: dict[str, int], path: Path, vocab_size: int) -> dict[str, Any]:
    """What transformers' `generate` wants to be told beyond what we read ourselves."""
    plain = _id_of("notimestamps", ids, path)
    rules: dict[str, Any] = {
        "no_timestamps_token_id": plain,
        "prev_sot_token_id": _id_of("startofprev", ids, path),
        "max_initial_timestamp_index": 50,
        "return_timestamps": False,
    }
    if is_multilingual(vocab_size):
        tasks = ("transcribe", "translate")
        return rules | {"task_to_id": {task: _id_of(task, ids, path) for task in tasks}}
    return rules | {"forced_decoder_ids": [[1, plain]]}


def _id_of(name: str, ids: dict[str, int], path: Path) -> int:
    try:
        return ids[f"<|{name}|>"]
    except KeyError as error:
        raise ValueError(f"{path}: expected a token {error.args[0]}, found none") from None


def _listed(path: Path, ids: dict[str, int], vocab_size: int) -> dict[str, Any]:
    """generation_config.json from CTranslate2's lists of ids, under their other names."""
    listed = read_json(path)
    for name in ("suppress_ids", "suppress_ids_begin", "alignment_heads"):
        if not isinstance(listed.get(name), list):
            raise ValueError(f"{path}: {name}: expected a list, got {listed.get(name)!r}")
    rules = {
        "suppress_tokens": listed["suppress_ids"],
        "begin_suppress_tokens": listed["suppress_ids_begin"],
        "alignment_heads": listed["alignment_heads"],
        "is_multilingual": is_multilingual(vocab_size),
    }
    languages = set(listed.get("lang_ids") or ())  # those of English models are made up
    if languages and is_multilingual(vocab_size):
        rules["lang_to_id"] = {text: id for text, id in ids.items() if id in languages}
    return rules


def _upper_heads(dims: dict[str, int]) -> Iterator[tuple[int, int]]:
    """What openai/whisper takes for alignment heads where nobody says: all of the upper layers."""
    layers = dims["decoder_layers"]
    for layer in range(layers // 2, layers):
        for head in range(dims["decoder_attention_heads"]):
            yield layer, head
