"""Checkpoint folders of streaming transducers with random weights, as transformers writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tools.random_checkpoints.moonshine import write_moonshine_tokenizer
from tools.random_checkpoints.qwen3 import save_model

HEARING: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "num_mel_bins": 20,
    "conv_kernel_size": 5,
    "subsampling_conv_channels": 8,
    "sliding_window": 13,
    "default_num_lookahead_tokens": 3,
}
WRITING: dict[str, Any] = {
    "vocab_size": 290,
    "decoder_hidden_size": 24,
    "num_decoder_layers": 2,
    "blank_token_id": 289,
    "max_symbols_per_step": 3,
}
PROMPTS = {"num_prompts": 8, "prompt_intermediate_size": 48, "default_prompt_id": 7}
LOCALES = {"en-GB": 1, "en-US": 0, "en": 0, "de-DE": 2, "th-TH": 5, "zh-TW": 6, "auto": 7}
TAGS = {"<en-US>": 283, "<de-DE>": 284}
LOOKAHEADS = (3, 1, 0)
SILENCE = 0.97  # the share of places, about, that say nothing: random weights write at every one
BEGINNINGS = (259, 274, 276, 278, 280, 282)  # ids of words' first pieces
FIRST_TEXT = 259  # ids of the tokenizer before it stand for bytes, or for nothing


def build_random_transducer(
    folder: Path,
    *,
    seed: int = 0,
    encoder: dict[str, Any] | None = None,
    silence: float = SILENCE,
    **config: Any,
) -> Any:
    """A Nemotron ASR; returns transformers' model of it, in float32. encoder, config: differences
    from HEARING, WRITING."""
    from transformers import NemotronAsrStreamingConfig, NemotronAsrStreamingForRNNT

    values: Any = {**WRITING, "encoder_config": {**HEARING, **(encoder or {})}, **config}
    model = NemotronAsrStreamingForRNNT(NemotronAsrStreamingConfig(**values))
    return _written(model, folder, seed, silence, BEGINNINGS)


def build_random_multilingual(folder: Path, *, seed: int = 0, **config: Any) -> Any:
    """The same of a Nemotron 3.5 ASR, which can be told the language, and has tags for two."""
    from transformers import Nemotron3_5AsrConfig, Nemotron3_5AsrForRNNT

    values: Any = {**WRITING, **PROMPTS, "encoder_config": HEARING, **config}
    model = Nemotron3_5AsrForRNNT(Nemotron3_5AsrConfig(**values))
    _written(model, folder, seed, 0.6, [*BEGINNINGS, *TAGS.values()])
    path = folder / "tokenizer.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    told["model"]["vocab"].update(TAGS)
    path.write_text(json.dumps(told), encoding="utf-8")
    path = folder / "processor_config.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**told, "prompt_dictionary": LOCALES}), encoding="utf-8")
    return model


def _written(model: Any, folder: Path, seed: int, silence: float, likely: Sequence[int]) -> Any:
    """likely: tokens that are written more often than others."""
    write_moonshine_tokenizer(folder)
    generator = torch.Generator().manual_seed(seed)
    save_model(model, folder, seed)
    with torch.no_grad():
        # What `save_model` takes for norms and biases is neither.
        for name, weight in model.named_parameters():
            if "bias_u" in name or "bias_v" in name or ".lstm.bias" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
        _hear_differences(model, generator, silence, likely)
    model.generation_config.decoder_start_token_id = model.config.blank_token_id
    model.generation_config.bos_token_id = model.config.blank_token_id
    model.save_pretrained(folder)
    _write_processor(folder, model.config.encoder_config.num_mel_bins)
    return model


def _hear_differences(
    model: Any, generator: torch.Generator, silence: float, likely: Sequence[int]
) -> None:
    """Places of noise are much alike, and random heads have favourites. What they have in common is
    taken away, so that what is left decides; and places say nothing as often as is wanted."""
    config = model.config
    noise = torch.randn(1, 1600, config.encoder_config.num_mel_bins, generator=generator)
    noise = noise * 0.45 - 4.3  # as the log-mel of noise is
    first = model.encoder.subsampling
    first.linear.bias.sub_(first(noise)[0, 4:].mean(0))
    first.linear.weight.mul_(3.0)
    first.linear.bias.mul_(3.0)
    places = model.get_audio_features(noise, num_lookahead_tokens=0).pooler_output[0]
    model.encoder_projector.bias.sub_(places.mean(0))
    model.encoder_projector.weight.mul_(2.0)
    model.encoder_projector.bias.mul_(2.0)
    places = (places - places.mean(0)) * 2.0
    tokens = torch.randint(FIRST_TEXT, config.vocab_size, (1, len(places)), generator=generator)
    logits = model.joint.head((places + model.decoder(tokens)[0]).relu())
    model.joint.head.bias.sub_(logits.mean(0))
    held = model.joint.head.bias[config.blank_token_id].clone()
    model.joint.head.bias[:FIRST_TEXT] -= 20.0  # bytes are no text
    model.joint.head.bias[config.blank_token_id] = held
    model.joint.head.bias[list(likely)] += 4.0
    others = logits - logits.mean(0)
    others[:, [*range(FIRST_TEXT), config.blank_token_id]] = -torch.inf
    best = others.max(1).values
    model.joint.head.bias[config.blank_token_id] += best.quantile(silence)


def _write_processor(folder: Path, num_mels: int) -> None:
    """As transformers' processor writes it; there is none of such a tokenizer."""
    sound = {
        "feature_extractor_type": "NemotronAsrStreamingFeatureExtractor",
        "feature_size": num_mels,
        "sampling_rate": 16_000,
        "hop_length": 160,
        "n_fft": 512,
        "win_length": 400,
        "preemphasis": 0.97,
        "mel_filters_dtype": "float32",
    }
    told = {
        "processor_class": "NemotronAsrStreamingProcessor",
        "feature_extractor": sound,
        "supported_num_lookahead_tokens": list(LOOKAHEADS),
        "default_num_lookahead_tokens": LOOKAHEADS[0],
    }
    (folder / "processor_config.json").write_text(json.dumps(told), encoding="utf-8")
