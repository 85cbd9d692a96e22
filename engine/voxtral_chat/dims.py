"""Voxtral's geometry: config.json's numbers of a Whisper encoder before a Llama."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookhear.engine.checkpoints.loader import CheckpointError, section, whole_number
from lookhear.engine.models.qwen3_weights import Qwen3Dims
from lookhear.engine.whisper.encoder import EncoderDims

# What transformers' configuration of the decoder says, where a file says nothing.
TEXT: dict[str, Any] = {
    "vocab_size": 131_072,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 30,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131_072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e8,
    "head_dim": 128,
}


@dataclass(frozen=True, slots=True)
class VoxtralChatDims:
    """joined: positions of the encoder that make one token. A Llama is a Qwen3 without norms of
    queries and keys."""

    audio: EncoderDims
    joined: int
    text: Qwen3Dims

    @property
    def window_tokens(self) -> int:
        """Of a window, which is always a whole one: 375 of the published ones, for 30 s."""
        return self.audio.positions // self.joined

    @classmethod
    def from_config(cls, config: Mapping[str, Any], source: Path) -> VoxtralChatDims:
        """Reads a parsed config.json; `source` is named in errors. Raises `CheckpointError`."""
        audio, text = (section(config, f"{part}_config", source) for part in ("audio", "text"))
        usual: list[tuple[Mapping[str, Any], str, str]] = [
            (audio, "activation_function", "gelu"),
            (config, "projector_hidden_act", "gelu"),
            (text, "model_type", "llama"),
        ]
        for values, key, wanted in usual:
            if (got := values.get(key, wanted)) != wanted:
                raise CheckpointError.of(source, key, repr(wanted), got)
        for key in ("attention_bias", "mlp_bias"):
            if text.get(key):
                raise CheckpointError.of(source, f"text_config.{key}", "false", text[key])

        def number(key: str, alias: str) -> int:
            return whole_number(audio, source, key, alias)

        dims = EncoderDims(
            num_mels=number("num_mel_bins", "num_mels"),
            width=number("hidden_size", "d_model"),
            layers=number("num_hidden_layers", "encoder_layers"),
            heads=number("num_attention_heads", "encoder_attention_heads"),
            ffn=number("intermediate_size", "encoder_ffn_dim"),
            positions=number("max_source_positions", "max_positions"),
        )
        if dims.width % dims.heads:
            divisor = f"a divisor of hidden_size ({dims.width})"
            raise CheckpointError.of(
                source, "audio_config.num_attention_heads", divisor, dims.heads
            )
        joined = dims.ffn // dims.width
        if dims.ffn % dims.width or dims.positions % joined:
            # Its projector reads so many positions side by side.
            multiple = f"hidden_size ({dims.width}) times a divisor of {dims.positions}"
            raise CheckpointError.of(source, "audio_config.intermediate_size", multiple, dims.ffn)
        told = {**TEXT, **text}
        tied = bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False)))
        return cls(dims, joined, Qwen3Dims.from_config(told, source, tied_head=tied, qk_norm=False))
