"""Checkpoint folders of Parakeets with random weights, as transformers writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from tools.random_checkpoints.moonshine import write_moonshine_tokenizer
from tools.random_checkpoints.qwen3 import save_model
from tools.random_checkpoints.transducer import BEGINNINGS, FIRST_TEXT

HEARING: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "num_mel_bins": 24,
    "conv_kernel_size": 5,
    "subsampling_conv_channels": 8,
}
WRITING: dict[str, Any] = {
    "vocab_size": 290,
    "decoder_hidden_size": 24,
    "num_decoder_layers": 2,
    "blank_token_id": 289,
    "max_symbols_per_step": 3,
    "pad_token_id": 2,
}
KINDS = ("TDT", "RNNT", "CTC")
SILENCE = 0.8  # the share of places, about, that say nothing


def build_random_parakeet(folder: Path, *, kind: str = "TDT", seed: int = 0, **config: Any) -> Any:
    """kind: one of KINDS. Returns transformers' model of it, in float32. config: differences."""
    import transformers

    values: Any = {**WRITING, "encoder_config": HEARING, **config}
    if kind == "CTC":
        values = {"vocab_size": 290, "pad_token_id": 289, "encoder_config": HEARING, **config}
    made: Any = getattr(transformers, f"Parakeet{kind}Config")(**values)
    model: Any = getattr(transformers, f"ParakeetFor{kind}")(made)
    write_moonshine_tokenizer(folder)
    save_model(model, folder, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "bias_u" in name or "bias_v" in name or ".lstm.bias" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
        for name, buffer in model.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                drawn = torch.rand(buffer.shape, generator=generator)
                buffer.copy_(drawn + 0.5 if name.endswith("var") else drawn - 0.5)
        noise = torch.randn(1, 800, HEARING["num_mel_bins"], generator=generator)
        _hear_differences(model, noise, generator)
    if kind != "CTC":
        model.generation_config.decoder_start_token_id = model.config.blank_token_id
        model.generation_config.bos_token_id = model.config.blank_token_id
    model.save_pretrained(folder)
    sound = {
        "feature_extractor_type": "ParakeetFeatureExtractor",
        "feature_size": HEARING["num_mel_bins"],
        "sampling_rate": 16_000,
        "hop_length": 160,
        "n_fft": 512,
        "win_length": 400,
        "preemphasis": 0.97,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(sound), encoding="utf-8")
    return model


def _hear_differences(model: Any, noise: torch.Tensor, generator: torch.Generator) -> None:
    """What places have in common is taken away, and blanks come as often as is wanted."""
    if hasattr(model, "ctc_head"):
        head, blank = model.ctc_head, model.config.pad_token_id
        logits = model(noise).logits[0]
    else:
        head, blank = model.joint.head, model.config.blank_token_id
        places = model.get_audio_features(noise).pooler_output[0]
        model.encoder_projector.bias.sub_(places.mean(0))
        model.encoder_projector.weight.mul_(2.0)
        model.encoder_projector.bias.mul_(2.0)
        tokens = torch.randint(FIRST_TEXT, 290, (1, len(places)), generator=generator)
        joined = (places - places.mean(0)) * 2.0 + model.decoder(tokens)[0]
        logits = head(joined.relu())
    head.bias.sub_(logits.mean(0))
    others = logits - logits.mean(0)
    head.bias[blank + 1 : blank + 2] -= 4.0  # tokens that take no place: seldom, or it never ends
    head.bias[:FIRST_TEXT] -= 20.0  # bytes are no text
    head.bias[list(BEGINNINGS)] += 2.0
    others[:, list(BEGINNINGS)] += 2.0
    best = others[:, FIRST_TEXT:blank].max(1).values - others[:, blank]
    head.bias[blank] += best.quantile(SILENCE)
