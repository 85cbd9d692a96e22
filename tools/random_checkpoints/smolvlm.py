"""SmolVLM and Idefics3 checkpoint folders with random weights, as transformers writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.random_checkpoints.qwen3 import END_TOKENS, TEXT, save_model, write_qwen_tokenizer

IMAGE_TOKEN = 155
LLAMA: dict[str, Any] = {**TEXT, "model_type": "llama", "rms_norm_eps": 1e-5}
CROPS: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 4,
}
PIXELS: dict[str, Any] = {
    "size": {"longest_edge": 96},
    "max_image_size": {"longest_edge": 32},
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "do_image_splitting": True,
}
TEMPLATE = (
    "<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}"
    "{% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %}"
    "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
    "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}"
    "<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
SPECIAL = (
    "<end_of_utterance>", "<fake_token_around_image>", "<image>", "<global-img>",
    *(f"<row_{row}_col_{column}>" for row in range(1, 4) for column in range(1, 4)),
)  # fmt: skip


def build_random_smolvlm(
    folder: Path,
    *,
    seed: int = 0,
    text: dict[str, Any] | None = None,
    vision: dict[str, Any] | None = None,
    scale: int = 4,
    tied_head: bool = False,
    kind: str = "SmolVLM",
) -> Any:
    """Writes a model with random weights; returns transformers' model of it, in float32.

    text, vision: differences from LLAMA and CROPS. kind: SmolVLM or Idefics3.
    """
    model = _model(
        kind,
        {"eos_token_id": list(END_TOKENS), **(text or {})},
        vision or {},
        scale,
        image_token_id=IMAGE_TOKEN,
        tie_word_embeddings=tied_head,
    )
    return save_model(model, folder, seed)


def build_served_smolvlm(folder: Path, *, seed: int = 0, kind: str = "SmolVLM") -> Any:
    """A random one with a tokenizer that its ids fit, rules for pixels and its chat template, as an
    engine can serve it: crops of 32 x 32 pixels and 4 tokens, 3 x 3 of them at most."""
    ids = write_qwen_tokenizer(folder, *SPECIAL)
    model = _model(
        kind,
        {"vocab_size": max(ids.values()) + 1, "eos_token_id": ids["<end_of_utterance>"]},
        {},
        4,
        image_token_id=ids["<image>"],
    )
    save_model(model, folder, seed)
    (folder / "preprocessor_config.json").write_text(json.dumps(PIXELS), encoding="utf-8")
    template = json.dumps({"chat_template": TEMPLATE})
    (folder / "chat_template.json").write_text(template, encoding="utf-8")
    return model


def _model(
    kind: str, text: dict[str, Any], vision: dict[str, Any], scale: int, **outer: Any
) -> Any:
    """transformers' model, not yet drawn."""
    import transformers

    make_config: Any = getattr(transformers, f"{kind}Config")
    config = make_config(
        text_config={**LLAMA, **text},
        vision_config={**CROPS, **vision},
        scale_factor=scale,
        **outer,
    )
    return getattr(transformers, f"{kind}ForConditionalGeneration")(config)
