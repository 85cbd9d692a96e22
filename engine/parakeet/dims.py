"""Geometry of a Parakeet, as config.json has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookhear.engine.checkpoints.loader import CheckpointError, section, whole_number
from lookhear.engine.transducer.dims import EncoderDims


@dataclass(frozen=True, slots=True)
class ParakeetDims:
    """blank: the token that says nothing. width, layers: of the predictor; layers is 0 where there
    is none, and places are told apart by a product alone (CTC). durations: places that a token may
    take, by their number among the logits; empty: one follows a blank, none a token. prompt: of
    none, see `TransducerDims`."""

    encoder: EncoderDims
    vocab: int
    blank: int
    width: int = 0
    layers: int = 0
    most_symbols: int = 0
    durations: tuple[int, ...] = ()
    prompt: int = 0

    @property
    def bands(self) -> int:
        """Of pitch, that are left behind the last stage."""
        return self.encoder.num_mels // self.encoder.stack

    @classmethod
    def from_config(cls, config: Mapping[str, Any], source: Path) -> ParakeetDims:
        """Reads a parsed config.json; `source` is named in errors."""
        encoder = EncoderDims.from_config(section(config, "encoder_config", source), source)
        for key, size in (
            ("conv_kernel_size", encoder.kernel),
            ("subsampling_conv_kernel_size", encoder.stage_kernel),
        ):
            if size % 2 == 0:
                raise CheckpointError.of(source, key, "an odd number", size)
        vocab = whole_number(config, source, "vocab_size")
        has_predictor = "decoder_hidden_size" in config
        key = "blank_token_id" if has_predictor else "pad_token_id"
        blank = config.get(key, vocab - 1)
        if type(blank) is not int or not 0 <= blank < vocab:
            raise CheckpointError.of(source, key, f"an id below {vocab}", blank)
        if not has_predictor:
            return cls(encoder, vocab, blank)
        if (act := config.get("hidden_act", "relu")) != "relu":
            raise CheckpointError.of(source, "hidden_act", "'relu'", act)
        durations = config.get("durations") or ()
        if not all(type(number) is int and number >= 0 for number in durations):
            raise CheckpointError.of(source, "durations", "whole numbers", durations)
        return cls(
            encoder,
            vocab,
            blank,
            width=whole_number(config, source, "decoder_hidden_size"),
            layers=whole_number(config, source, "num_decoder_layers"),
            most_symbols=whole_number({"max_symbols_per_step": 10, **config}, source,
                                      "max_symbols_per_step"),
            durations=tuple(durations),
        )  # fmt: skip
