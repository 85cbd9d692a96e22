"""Geometry of a streaming transducer, as config.json has it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookhear.engine.checkpoints.loader import CheckpointError, section, whole_number


@dataclass(frozen=True, slots=True)
class EncoderDims:
    """The numbers of encoder_config that fix every shape. stages: of the convolutions that make
    places of log-mel frames, each of a kernel and a stride. left: places behind its chunk that one
    sees. kernel: of the convolution in each layer."""

    num_mels: int
    width: int
    layers: int
    heads: int
    ffn: int
    kernel: int
    stages: int
    stage_kernel: int
    stride: int
    channels: int
    left: int
    has_bias: bool
    conv_bias: bool
    scale: float  # of what goes into the first layer

    @property
    def head_dim(self) -> int:
        """Of queries, keys and values."""
        return self.width // self.heads

    @property
    def stack(self) -> int:
        """Log-mel frames of a place."""
        return int(self.stride**self.stages)

    @property
    def bands(self) -> int:
        """Of pitch, that are left behind the last stage."""
        count = self.num_mels
        for _ in range(self.stages):
            count = (count - 1 + self.stride - 1) // self.stride + 1
        return count

    @classmethod
    def from_config(cls, config: Mapping[str, Any], source: Path) -> EncoderDims:
        """config: its part of config.json; `source` is named in errors."""

        def number(key: str, *default: int) -> int:
            given = {key: default[0], **config} if default else config
            return whole_number(given, source, key)

        stack, stride = number("subsampling_factor"), number("subsampling_conv_stride", 2)
        stages = round(math.log2(stack))
        kernel = number("subsampling_conv_kernel_size", 3)
        if stride != 2 or 2**stages != stack or kernel < stride:
            got = (stack, stride, kernel)
            raise CheckpointError.of(
                source, "subsampling_factor", "a power of the stride 2, and a kernel of 2 or more",
                got,
            )  # fmt: skip
        width, heads = number("hidden_size"), number("num_attention_heads")
        if width % heads or width % 2:
            raise CheckpointError.of(source, "hidden_size", f"a multiple of {heads} and 2", width)
        if (act := config.get("hidden_act", "silu")) != "silu":
            raise CheckpointError.of(source, "hidden_act", "'silu'", act)
        return cls(
            num_mels=number("num_mel_bins", 80),
            width=width,
            layers=number("num_hidden_layers"),
            heads=heads,
            ffn=number("intermediate_size"),
            kernel=number("conv_kernel_size", 9),
            stages=stages,
            stage_kernel=kernel,
            stride=stride,
            channels=number("subsampling_conv_channels", 256),
            left=number("sliding_window", 71) - 1,
            has_bias=bool(config.get("attention_bias", True)),
            conv_bias=bool(config.get("convolution_bias", True)),
            scale=math.sqrt(width) if config.get("scale_input", True) else 1.0,
        )


@dataclass(frozen=True, slots=True)
class TransducerDims:
    """blank: the token that says nothing, and that texts begin behind. most_symbols: tokens of one
    place at most. width, layers: of the predictor. lookahead: places ahead, that the model hears
    where nobody says. prompts: in how many ways it can be told the language; 0: it has one."""

    encoder: EncoderDims
    vocab: int
    blank: int
    width: int
    layers: int
    most_symbols: int
    lookahead: int
    prompts: int = 0
    prompt_width: int = 0
    prompt: int = 0  # where nobody says

    @classmethod
    def from_config(cls, config: Mapping[str, Any], source: Path) -> TransducerDims:
        """Reads a parsed config.json; `source` is named in errors."""
        inner = section(config, "encoder_config", source)
        ahead = inner.get("default_num_lookahead_tokens", 13)
        if type(ahead) is not int or ahead < 0:
            raise CheckpointError.of(
                source, "default_num_lookahead_tokens", "a whole number >= 0", ahead
            )
        vocab = whole_number(config, source, "vocab_size")
        blank = config.get("blank_token_id", vocab - 1)
        if type(blank) is not int or not 0 <= blank < vocab:
            raise CheckpointError.of(source, "blank_token_id", f"an id below {vocab}", blank)
        if (act := config.get("hidden_act", "relu")) != "relu":
            raise CheckpointError.of(source, "hidden_act", "'relu'", act)
        prompts = prompt_width = prompt = 0
        if "num_prompts" in config:
            prompts = whole_number(config, source, "num_prompts")
            prompt_width = whole_number(config, source, "prompt_intermediate_size")
            prompt = config.get("default_prompt_id", 0)
            if type(prompt) is not int or not 0 <= prompt < prompts:
                wanted = f"a number below {prompts}"
                raise CheckpointError.of(source, "default_prompt_id", wanted, prompt)
        return cls(
            encoder=EncoderDims.from_config(inner, source),
            vocab=vocab,
            blank=blank,
            width=whole_number(config, source, "decoder_hidden_size"),
            layers=whole_number(config, source, "num_decoder_layers"),
            most_symbols=whole_number(config, source, "max_symbols_per_step"),
            lookahead=ahead,
            prompts=prompts,
            prompt_width=prompt_width,
            prompt=prompt,
        )
