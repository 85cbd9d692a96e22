"""Checkpoint folders that make vectors or score, with random weights, in the forms in which Qwen
and sentence-transformers publish them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tools.random_checkpoints.qwen3 import TEXT, qwen3_model, save_model, write_qwen_tokenizer

WORDS = ("y e", "ye s", "n o")  # merges that make "yes" and "no" tokens
QUERY = "Instruct: Given a web search query, retrieve relevant passages\nQuery:"


def build_embedder(
    folder: Path, *, seed: int = 0, late: int | None = None, ending: bool = True, **text: Any
) -> Any:
    """A Qwen3-Embedding; returns transformers' `Qwen3Model` of it. late: of one that has vectors of
    so many dimensions for each token. ending: whether its tokenizer puts one behind a text."""
    from transformers import Qwen3Config, Qwen3Model

    ids = write_qwen_tokenizer(folder)
    if ending:
        write_ending(folder)
    config: Any = Qwen3Config(**{**TEXT, "vocab_size": max(ids.values()) + 1, **text})
    model = save_model(Qwen3Model(config), folder, seed)
    path = folder / "config.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "architectures": ["Qwen3ForCausalLM"]}))  # as Qwen has it
    kind = "sentence_transformers.models"
    modules = [{"idx": 0, "name": "0", "path": "", "type": f"{kind}.Transformer"}]
    if late is None:
        modules.append({"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{kind}.Pooling"})
        _write(folder / "1_Pooling" / "config.json", {"pooling_mode_lasttoken": True})
    else:
        modules.append({"idx": 1, "name": "1", "path": "1_Dense", "type": f"{kind}.Dense"})
        _write_dense(folder / "1_Dense", late, config.hidden_size, seed)
    modules.append({"idx": 2, "name": "2", "path": "2_Normalize", "type": f"{kind}.Normalize"})
    _write(folder / "modules.json", modules)
    prompts = {"prompts": {"query": QUERY, "document": ""}}
    _write(folder / "config_sentence_transformers.json", prompts)
    return model


def build_reranker(folder: Path, *, seed: int = 0, labels: int | None = None, **text: Any) -> Any:
    """A Qwen3-Reranker, which says yes or no, of experts where text names them; labels: one with a
    head of its own instead. Returns transformers' model of it."""
    from transformers import Qwen3Config, Qwen3ForSequenceClassification

    ids = write_qwen_tokenizer(folder, "<think>", "</think>", merges=WORDS)
    values: dict[str, Any] = {
        "vocab_size": max(ids.values()) + 1,
        "pad_token_id": ids["<|endoftext|>"],
    }
    values = {**values, "eos_token_id": [ids["<|im_end|>"]], **text}
    if labels is None:
        return save_model(qwen3_model(values), folder, seed)
    config: Any = Qwen3Config(**{**TEXT, **values}, num_labels=labels)
    return save_model(Qwen3ForSequenceClassification(config), folder, seed)


def write_ending(folder: Path) -> None:
    """A tokenizer.json that puts <|endoftext|> behind what it is given, made of the other files."""
    from tokenizers import processors
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    end = "<|endoftext|>"
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, tokenizer.convert_tokens_to_ids(end))]
    )
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def _write_dense(folder: Path, width: int, inside: int, seed: int) -> None:
    config = {"in_features": inside, "out_features": width, "bias": False}
    activation = "torch.nn.modules.linear.Identity"
    _write(folder / "config.json", {**config, "activation_function": activation})
    weight = torch.randn(width, inside, generator=torch.Generator().manual_seed(seed))
    save_file({"linear.weight": weight}, folder / "model.safetensors")
