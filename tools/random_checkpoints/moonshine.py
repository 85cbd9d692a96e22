"""Moonshine checkpoint folders with random weights, as transformers writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.random_checkpoints.qwen3 import save_model

MOONSHINE: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 48,
    "encoder_num_hidden_layers": 2,
    "decoder_num_hidden_layers": 2,
    "encoder_num_attention_heads": 4,
    "decoder_num_attention_heads": 4,
    "max_position_embeddings": 64,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.8},
}


def build_random_moonshine(folder: Path, *, seed: int = 0, **config: Any) -> Any:
    """Writes a Moonshine with random weights and a tokenizer; returns transformers' model of it, in
    float32. config: differences from MOONSHINE."""
    from transformers import MoonshineConfig, MoonshineForConditionalGeneration

    write_moonshine_tokenizer(folder)
    values: Any = {**MOONSHINE, **config}
    model = save_model(MoonshineForConditionalGeneration(MoonshineConfig(**values)), folder, seed)
    sound = {
        "feature_extractor_type": "Wav2Vec2FeatureExtractor",
        "sampling_rate": 16_000,
        "feature_size": 1,
        "do_normalize": False,
        "padding_value": 0.0,
        "return_attention_mask": True,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(sound), encoding="utf-8")
    return model


STREAMING: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 700,
    "decoder_start_token_id": 1,
}
LISTENING: dict[str, Any] = {
    "hidden_size": 40,
    "intermediate_size": 56,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "sliding_windows": [[5, 3], [6, 0], [4, 2]],
}


def build_random_streaming_moonshine(
    folder: Path, *, seed: int = 0, encoder: dict[str, Any] | None = None, **config: Any
) -> Any:
    """The same of a streaming Moonshine. encoder, config: differences from LISTENING, STREAMING."""
    from transformers import MoonshineStreamingConfig, MoonshineStreamingForConditionalGeneration

    write_moonshine_tokenizer(folder)
    values: Any = {**STREAMING, "encoder_config": {**LISTENING, **(encoder or {})}, **config}
    model = MoonshineStreamingForConditionalGeneration(MoonshineStreamingConfig(**values))
    return save_model(model, folder, seed)


def write_moonshine_tokenizer(folder: Path) -> None:
    """tokenizer.json as Moonshine has it: pieces with a mark for the space in front of words, bytes
    for all else; ids 0 to 2 are special, 3 to 258 bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁"]
    pieces += list("etaoinshrdlu.,") + ["▁t", "he", "▁the", "in", "▁a", "ou", "▁s", "re", "▁o"]
    merges = [["▁", "t"], ["h", "e"], ["▁t", "he"], ["i", "n"], ["▁", "a"], ["o", "u"]]
    merges += [["▁", "s"], ["r", "e"], ["▁", "o"]]
    special = [
        {"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for i, text in enumerate(pieces[:3])
    ]  # fmt: skip
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    back = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    tokenizer = {
        "version": "1.0",
        "added_tokens": special,
        "normalizer": {
            "type": "Sequence",
            "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace],
        },
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}, strip],
        },
        "model": {
            "type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
            "vocab": {piece: i for i, piece in enumerate(pieces)}, "merges": merges,
        },
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")
