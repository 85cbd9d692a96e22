"""Checkpoint folders of Voxtral Realtime with random weights, as transformers writes them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import torch

from tools.random_checkpoints.qwen3 import save_model

HEARING: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "head_dim": 12,
    "intermediate_size": 48,
    "num_mel_bins": 20,
    "sliding_window": 27,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
}
WRITING: dict[str, Any] = {
    "vocab_size": 160,
    "hidden_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "intermediate_size": 56,
    "sliding_window": 21,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    "eos_token_id": 2,
    "bos_token_id": 1,
}
RESERVED = 40  # ids in front of those of text
SPECIAL = {"<unk>": 0, "<s>": 1, "</s>": 2, "[STREAMING_PAD]": 32, "[STREAMING_WORD]": 33}
LEFT, DELAY = 4, 6  # steps


def build_random_voxtral(
    folder: Path,
    *,
    seed: int = 0,
    audio: dict[str, Any] | None = None,
    text: dict[str, Any] | None = None,
    silence: float = 24.0,
    **config: Any,
) -> Any:
    """Returns transformers' model of it, in float32. audio, text, config: differences from HEARING,
    WRITING and the rest. silence: how large the embeddings are of what says nothing."""
    from transformers import VoxtralRealtimeConfig, VoxtralRealtimeForConditionalGeneration

    values: Any = {
        "audio_config": {**HEARING, **(audio or {})},
        "text_config": {**WRITING, **(text or {})},
        "default_num_delay_tokens": DELAY,
        **config,
    }
    model: Any = VoxtralRealtimeForConditionalGeneration(VoxtralRealtimeConfig(**values))
    save_model(model, folder, seed)
    with torch.no_grad():
        # What is heard counts more than what was written, and most steps say nothing; what the
        # frames of noise have in common is taken away.
        first = model.model.audio_tower.embedder.conv1
        first.weight.sub_(first.weight.mean((1, 2), keepdim=True)).mul_(4.0)
        model.model.multi_modal_projector.linear_2.weight.mul_(8.0)
        tokens = model.model.language_model.embed_tokens.weight
        tokens[:RESERVED] *= 0.1
        tokens[[SPECIAL["[STREAMING_PAD]"], SPECIAL["[STREAMING_WORD]"]]] *= silence
    model.save_pretrained(folder)
    write_tekken(
        folder, model.config.text_config.vocab_size, values["audio_config"]["num_mel_bins"]
    )
    return model


def write_tekken(folder: Path, vocab_size: int, num_mels: int, **audio: Any) -> None:
    """A tekken.json of syllables, half of which begin words. audio: differences from the usual."""
    letters = "abdefgiklmnoprstuvz"
    pieces = [
        (" " if index % 2 else "") + letters[index % 19] + "aeiou"[index // 19 % 5]
        for index in range(vocab_size - RESERVED)
    ]
    pieces[0], pieces[1] = "\N{EURO SIGN}", "."
    told = {
        "config": {
            "pattern": ".",
            "num_vocab_tokens": len(pieces) + 7,  # files hold more than a model has
            "default_vocab_size": vocab_size,
            "default_num_special_tokens": RESERVED,
            "version": "v13",
        },
        "vocab": [
            {
                "rank": rank,
                "token_bytes": base64.b64encode(piece.encode()).decode(),
                "token_str": piece,
            }
            for rank, piece in enumerate([*pieces, *"ABCDEFG"])
        ],
        "special_tokens": [
            {"rank": rank, "token_str": name, "is_control": True} for name, rank in SPECIAL.items()
        ],
        "audio": {
            "sampling_rate": 16_000,
            "frame_rate": 12.5,
            "audio_encoding_config": {
                "num_mel_bins": num_mels,
                "hop_length": 160,
                "window_size": 400,
            },
            "transcription_format": "streaming",
            "transcription_delay_ms": 80.0 * DELAY,
            "streaming_look_ahead_ms": 2.5,
            "streaming_look_back_ms": 52.5,
            "streaming_n_left_pad_tokens": LEFT,
            **audio,
        },
    }
    (folder / "tekken.json").write_text(json.dumps(told), encoding="utf-8")
    sound = {
        "feature_extractor_type": "VoxtralRealtimeFeatureExtractor",
        "feature_size": num_mels,
        "sampling_rate": 16_000,
        "hop_length": 160,
        "n_fft": 400,
        "win_length": 400,
        "global_log_mel_max": 1.5,
    }
    processor = {"processor_class": "VoxtralRealtimeProcessor", "feature_extractor": sound}
    (folder / "processor_config.json").write_text(json.dumps(processor), encoding="utf-8")
