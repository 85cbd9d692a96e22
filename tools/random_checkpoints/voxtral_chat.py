"""Checkpoint folders of Voxtral with random weights, as transformers writes them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from tools.random_checkpoints.qwen3 import save_model

HEARING: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "num_mel_bins": 20,
    "max_source_positions": 100,  # of 20 ms: 25 tokens, 2 s
    "head_dim": 8,
}
WRITING: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "intermediate_size": 56,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    "bos_token_id": 1,
    "eos_token_id": 2,
}
RESERVED = 40  # ids in front of those of text
SPECIAL = {
    "<unk>": 0, "<s>": 1, "</s>": 2, "[INST]": 3, "[/INST]": 4, "[SYSTEM_PROMPT]": 17,
    "[/SYSTEM_PROMPT]": 18, "[AUDIO]": 24, "[BEGIN_AUDIO]": 25, "[TRANSCRIBE]": 34,
}  # fmt: skip
WORDS = ("th", "he", "the", " t", " the", "an", " a", "in", " w", "wh", " wh", "at", " what", "is")
# Words, numbers by digits, signs, and what separates them.
PATTERN = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
VOCAB = RESERVED + 256 + len(WORDS)


def build_random_voxtral_chat(
    folder: Path,
    *,
    seed: int = 0,
    audio: dict[str, Any] | None = None,
    text: dict[str, Any] | None = None,
    **config: Any,
) -> Any:
    """One that an engine can serve; returns transformers' model of it, in float32. audio, text,
    config: differences from HEARING, WRITING and the rest."""
    from transformers import VoxtralConfig, VoxtralForConditionalGeneration

    values: Any = {
        "audio_config": {"model_type": "voxtral_encoder", **HEARING, **(audio or {})},
        "text_config": {**WRITING, "vocab_size": VOCAB, **(text or {})},
        "audio_token_id": SPECIAL["[AUDIO]"],
        **config,
    }
    model: Any = VoxtralForConditionalGeneration(VoxtralConfig(**values))
    save_model(model, folder, seed)
    write_tekken(folder)
    return model


def write_tekken(folder: Path) -> None:
    """A tekken.json of bytes and some words."""
    pieces = [*(bytes([byte]) for byte in range(256)), *(word.encode() for word in WORDS)]
    told = {
        "config": {
            "pattern": PATTERN,
            "num_vocab_tokens": len(pieces),
            "default_vocab_size": VOCAB,
            "default_num_special_tokens": RESERVED,
            "version": "v7",
        },
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(piece).decode(), "token_str": None}
            for rank, piece in enumerate(pieces)
        ],
        "special_tokens": [
            {"rank": rank, "token_str": name, "is_control": True} for name, rank in SPECIAL.items()
        ],
        "audio": {
            "sampling_rate": 16_000,
            "frame_rate": 12.5,
            "audio_encoding_config": {"num_mel_bins": 20, "hop_length": 160, "window_size": 400},
            "chunk_length_s": 2.0,
        },
    }
    (folder / "tekken.json").write_text(json.dumps(told), encoding="utf-8")
