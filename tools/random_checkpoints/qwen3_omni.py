"""Qwen3-Omni checkpoint folders with random weights, as transformers writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from tools.random_checkpoints.qwen3 import AUDIO, END_TOKENS, EXPERTS, save_model
from tools.random_checkpoints.qwen3_vl import PIXELS, VISION, VL_TEXT, write_vl_tokenizer

AUDIO_START, AUDIO_END, AUDIO_TOKEN = 152, 153, 154
IMAGE_TOKEN, VIDEO_TOKEN, VISION_START, VISION_END = 155, 156, 157, 158
RATE = 13  # positions of a second
HEARING = ("<|audio_start|>", "<|audio_pad|>", "<|audio_end|>")


def build_random_qwen3_omni(
    folder: Path,
    *,
    seed: int = 0,
    text: dict[str, Any] | None = None,
    vision: dict[str, Any] | None = None,
    audio: dict[str, Any] | None = None,
    tied_head: bool = False,
) -> Any:
    """Writes a thinker with random weights; returns transformers' model of it, in float32.

    text, vision, audio: differences from VL_TEXT with EXPERTS, VISION and AUDIO.
    """
    config = _config(
        text or {},
        vision or {},
        audio or {},
        audio_start_token_id=AUDIO_START,
        audio_token_id=AUDIO_TOKEN,
        image_token_id=IMAGE_TOKEN,
        video_token_id=VIDEO_TOKEN,
        vision_start_token_id=VISION_START,
        eos_token_id=list(END_TOKENS),
        tie_word_embeddings=tied_head,
    )
    return save_model(_thinker(config), folder, seed)


def build_served_qwen3_omni(folder: Path, *, seed: int = 0) -> Any:
    """A random thinker with a tokenizer that its ids fit, and rules for pixels, as an engine can
    serve it: 8 x 8 pixels a token, images of 4 to 64 tokens, 13 tokens a second of sound."""
    write_vl_tokenizer(folder, added=HEARING)
    added = json.loads((folder / "tokenizer_config.json").read_text())["added_tokens_decoder"]
    ids = {entry["content"]: int(index) for index, entry in added.items()}
    config = _config(
        {"vocab_size": max(ids.values()) + 1},
        {},
        {},
        audio_start_token_id=ids["<|audio_start|>"],
        audio_token_id=ids["<|audio_pad|>"],
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        eos_token_id=[ids["<|im_end|>"], ids["<|endoftext|>"]],
    )
    model = save_model(_thinker(config), folder, seed)
    for name in ("preprocessor_config.json", "video_preprocessor_config.json"):
        (folder / name).write_text(json.dumps(PIXELS), encoding="utf-8")
    return model


def make_whole(folder: Path) -> None:
    """Of a folder with a thinker, one of the whole model: names below `thinker`, and a little of
    the parts that speak."""
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    weights = {f"thinker.{name}": weight for name, weight in load_file(path).items()}
    weights["talker.model.norm.weight"] = torch.ones(8)
    weights["code2wav.decoder.0.weight"] = torch.ones(8, 8)
    save_file(weights, path, metadata={"format": "pt"})
    thinker = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = {
        "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
        "model_type": "qwen3_omni_moe",
        "thinker_config": thinker,
        "talker_config": {},
        "code2wav_config": {},
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def _config(
    text: dict[str, Any], vision: dict[str, Any], audio: dict[str, Any], **outer: Any
) -> Any:
    from transformers import Qwen3OmniMoeThinkerConfig

    return Qwen3OmniMoeThinkerConfig(
        text_config={**VL_TEXT, **EXPERTS, **text},
        vision_config={**VISION, **vision},
        audio_config={**AUDIO, **audio},
        position_id_per_seconds=RATE,
        **outer,
    )


def _thinker(config: Any) -> Any:
    """transformers' model, not yet drawn."""
    from transformers import Qwen3OmniMoeThinkerForConditionalGeneration

    return Qwen3OmniMoeThinkerForConditionalGeneration(config)
