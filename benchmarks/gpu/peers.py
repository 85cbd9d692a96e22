"""transformers' `generate` on the same device, with the same geometry and random weights."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch


def decode_rate(
    config: Mapping[str, Any], family: str, *, device: str, batch: int, prompt: int, new: int
) -> tuple[float, float]:
    """Tokens per second of a greedy `generate` from its first token to its last, and seconds per
    step. Of the text decoder, or of a Whisper over 30 s of audio. new: tokens of a row, 2 at
    least."""
    logs: Any = import_module("transformers.utils.logging")
    logs.set_verbosity_error()
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _model(config, family, device)
        _generate(model, config, family, device, batch, prompt, 4)  # warms up
        synchronize(device)
        times = _generate(model, config, family, device, batch, prompt, new)
        del model
    step = (times[-1] - times[0]) / (len(times) - 1)
    return batch / step, step


def synchronize(device: str) -> None:
    """Waits until the device has done what it was told."""
    if device != "cpu":
        torch.cuda.synchronize()


def _model(config: Mapping[str, Any], family: str, device: str) -> Any:
    import transformers

    dtype = torch.bfloat16 if device != "cpu" else torch.float32
    if family == "whisper":
        geometry = {key: value for key, value in config.items() if "token" not in key}
        made: Any = transformers.WhisperConfig(**geometry)
        kind: Any = transformers.WhisperForConditionalGeneration
    else:
        text = {k: v for k, v in config["text_config"].items() if k != "model_type"}
        rope = text.get("rope_parameters") or {}
        text["rope_parameters"] = {
            "rope_type": "default",
            "rope_theta": rope.get("rope_theta", 1e6),
        }
        text["tie_word_embeddings"] = True
        made, kind = transformers.Qwen3Config(**text), transformers.Qwen3ForCausalLM
    with torch.device(device):
        model = kind._from_config(made, dtype=dtype)
    return model.eval()


def _generate(
    model: Any,
    config: Mapping[str, Any],
    family: str,
    device: str,
    batch: int,
    prompt: int,
    count: int,
) -> list[float]:
    """-> when each token was there. `generate` itself waits for a token before it goes on."""
    from transformers import GenerationMixin, StoppingCriteriaList

    times: list[float] = []
    goes_on = torch.zeros(batch, dtype=torch.bool, device=device)

    def tell(*_: Any, **__: Any) -> torch.Tensor:
        times.append(time.perf_counter())
        return goes_on

    options: dict[str, Any] = {
        "max_new_tokens": count,
        "min_new_tokens": count,
        "do_sample": False,
        "use_cache": True,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "stopping_criteria": StoppingCriteriaList([tell]),
    }
    if family == "whisper":
        frames = 2 * config["max_source_positions"]
        features = torch.zeros(batch, config["num_mel_bins"], frames, device=device)
        start = torch.full((batch, 4), 5, device=device)
        # Whisper's own `generate` is a loop of many rules about this one.
        GenerationMixin.generate(
            model, inputs=features.to(model.dtype), decoder_input_ids=start, **options
        )
        return times
    ids = torch.randint(5, config["text_config"]["vocab_size"], (batch, prompt), device=device)
    model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **options)
    return times
