"""Qwen3-VL checkpoint folders with random weights, as transformers writes them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.random_checkpoints.qwen3 import END_TOKENS, TEXT, save_model, write_qwen_tokenizer

IMAGE_TOKEN, VIDEO_TOKEN, VISION_START, VISION_END = 155, 156, 157, 158
VL_TEXT: dict[str, Any] = {
    **TEXT,
    "num_hidden_layers": 3,
    "head_dim": 16,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 5000.0,
        "mrope_section": [4, 2, 2],
        "mrope_interleaved": True,
    },
}
VISION: dict[str, Any] = {
    "depth": 3,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_heads": 2,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 32,
    "num_position_embeddings": 36,
    "deepstack_visual_indexes": [0, 1],
}

PIXELS: dict[str, Any] = {
    "patch_size": 4,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "size": {"shortest_edge": 256, "longest_edge": 4096},
}


def build_random_qwen3_vl(
    folder: Path,
    *,
    seed: int = 0,
    text: dict[str, Any] | None = None,
    vision: dict[str, Any] | None = None,
    tied_head: bool = True,
) -> Any:
    """Writes a Qwen3-VL with random weights; returns transformers' model of it, in float32.

    text, vision: differences from VL_TEXT and VISION; text may name experts, as EXPERTS does.
    """
    model = _model(
        text or {},
        vision or {},
        image_token_id=IMAGE_TOKEN,
        video_token_id=VIDEO_TOKEN,
        vision_start_token_id=VISION_START,
        vision_end_token_id=VISION_END,
        eos_token_id=list(END_TOKENS),
        pad_token_id=END_TOKENS[0],
        tie_word_embeddings=tied_head,
    )
    return save_model(model, folder, seed)


def _model(text: dict[str, Any], vision: dict[str, Any], **outer: Any) -> Any:
    """transformers' model, not yet drawn."""
    import transformers

    kind = "Qwen3VLMoe" if "num_experts" in text else "Qwen3VL"
    name = "qwen3_vl_moe" if "num_experts" in text else "qwen3_vl"
    make_config: Any = getattr(transformers, f"{kind}Config")
    config = make_config(
        text_config={"model_type": f"{name}_text", **VL_TEXT, **text},
        vision_config={"model_type": f"{name}_vision", **VISION, **vision},
        **outer,
    )
    return getattr(transformers, f"{kind}ForConditionalGeneration")(config)


VL_SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
    "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip


def write_vl_tokenizer(folder: Path, merges: Sequence[str] = (), added: Sequence[str] = ()) -> None:
    """vocab.json, merges.txt and tokenizer_config.json with the tokens of Qwen3-VL. merges, added:
    besides the usual ones."""
    write_qwen_tokenizer(folder, merges=merges)
    size = len(json.loads((folder / "vocab.json").read_text(encoding="utf-8")))
    special = {
        str(size + i): {"content": text, "special": True}
        for i, text in enumerate((*VL_SPECIAL, *added))
    }
    config = {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": special}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def build_served_qwen3_vl(
    folder: Path,
    *,
    seed: int = 0,
    merges: Sequence[str] = (),
    text: dict[str, Any] | None = None,
    **vision: Any,
) -> Any:
    """A random Qwen3-VL with a tokenizer that its ids fit, and rules for pixels, as an engine can
    serve it: 8 x 8 pixels a token, images of 4 to 64 tokens. merges: see `write_vl_tokenizer`.
    text: as `build_random_qwen3_vl`."""
    write_vl_tokenizer(folder, merges)
    added = json.loads((folder / "tokenizer_config.json").read_text())["added_tokens_decoder"]
    ids = {entry["content"]: int(index) for index, entry in added.items()}
    model = _model(
        {"vocab_size": max(ids.values()) + 1, **(text or {})},
        vision,
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        eos_token_id=[ids["<|im_end|>"], ids["<|endoftext|>"]],
        pad_token_id=ids["<|endoftext|>"],
        tie_word_embeddings=True,
    )
    save_model(model, folder, seed)
    for name in ("preprocessor_config.json", "video_preprocessor_config.json"):
        (folder / name).write_text(json.dumps(PIXELS), encoding="utf-8")
    return model


def build_grown_qwen3_vl(folder: Path, small: Path, *, seed: int = 0, **text: Any) -> None:
    """As `small`, a folder that can be served, but with random weights and another size of its text
    model: so long a real one would take, with short prompts. text: differences."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    config: Any = Qwen3VLConfig.from_pretrained(small)
    for name, value in text.items():
        setattr(config.text_config, name, value)
    config.vision_config.out_hidden_size = config.text_config.hidden_size
    shutil.copytree(small, folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json"))
    model: Any = Qwen3VLForConditionalGeneration(config)
    save_model(model.half(), folder, seed)
