"""Geometry of a Voxtral Realtime, as config.json has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookhear.engine.checkpoints.loader import (
    CheckpointError,
    rope_section,
    section,
    whole_number,
)

DELAY_WIDTH = 32  # between the two products that a delay goes through, of all that are published


@dataclass(frozen=True, slots=True)
class StackDims:
    """Of layers that attend to what is behind them. window: tokens that one sees, itself among
    them."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    eps: float
    theta: float
    window: int

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], source: Path, *, eps: float, theta: float, window: int
    ) -> StackDims:
        """config: its part of config.json. eps, theta, window: where it says nothing."""

        def number(key: str, *default: int) -> int:
            given = {key: default[0], **config} if default else config
            return whole_number(given, source, key)

        width, heads = number("hidden_size"), number("num_attention_heads")
        kv_heads = number("num_key_value_heads") if config.get("num_key_value_heads") else heads
        if heads % kv_heads:
            wanted = f"a divisor of num_attention_heads ({heads})"
            raise CheckpointError.of(source, "num_key_value_heads", wanted, kv_heads)
        head_dim = number("head_dim") if config.get("head_dim") else width // heads
        if head_dim % 2:
            raise CheckpointError.of(source, "head_dim", "an even number", head_dim)
        if (act := config.get("hidden_act", "silu")) != "silu":
            raise CheckpointError.of(source, "hidden_act", "'silu'", act)
        rope = rope_section(config, source)
        return cls(
            width=width,
            layers=number("num_hidden_layers"),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            ffn=number("intermediate_size"),
            eps=float(config.get("rms_norm_eps", eps)),
            theta=float(rope.get("rope_theta", config.get("rope_theta", theta))),
            window=number("sliding_window", window),
        )


@dataclass(frozen=True, slots=True)
class VoxtralDims:
    """frames: of log-mel, that one step hears. places: of the encoder, that make one step."""

    audio: StackDims
    text: StackDims
    num_mels: int
    frames: int
    places: int
    vocab: int
    tied_head: bool

    @classmethod
    def from_config(cls, config: Mapping[str, Any], source: Path) -> VoxtralDims:
        """Reads a parsed config.json; `source` is named in errors."""

        def number(key: str, default: int) -> int:
            return whole_number({key: default, **config}, source, key)

        audio, text = (section(config, f"{part}_config", source) for part in ("audio", "text"))
        frames, places = number("audio_length_per_tok", 8), number("downsample_factor", 4)
        if frames != 2 * places:  # the second convolution halves them
            wanted = f"twice downsample_factor ({places})"
            raise CheckpointError.of(source, "audio_length_per_tok", wanted, frames)
        if (act := config.get("projector_hidden_act", "gelu")) != "gelu":
            raise CheckpointError.of(source, "projector_hidden_act", "'gelu'", act)
        tied = config.get("tie_word_embeddings", text.get("tie_word_embeddings", True))
        return cls(
            audio=StackDims.from_config(audio, source, eps=1e-5, theta=1e4, window=750),
            text=StackDims.from_config(text, source, eps=1e-5, theta=1e6, window=8192),
            num_mels=whole_number({"num_mel_bins": 128, **audio}, source, "num_mel_bins"),
            frames=frames,
            places=places,
            vocab=whole_number(text, source, "vocab_size"),
            tied_head=bool(tied),
        )
