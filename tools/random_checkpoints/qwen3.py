"""Qwen3 and Qwen3-ASR checkpoint folders with random weights, as transformers writes them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tools.random_checkpoints.whisper import MERGES

TEXT: dict[str, Any] = {
    "vocab_size": 160,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
}
# Beside TEXT, of one whose layers have experts.
EXPERTS: dict[str, Any] = {
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 24,
    "norm_topk_prob": True,
}
AUDIO: dict[str, Any] = {
    "num_mel_bins": 20,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 40,
    "d_model": 24,
    "output_dim": 32,
    "n_window": 50,
    "n_window_infer": 200,
    "downsample_hidden_size": 6,
}
AUDIO_TOKEN = 155
END_TOKENS = (150, 151)


def build_random_qwen3(folder: Path, *, seed: int = 0, **text: Any) -> Any:
    """Writes a Qwen3 with random weights, of experts where text names them (EXPERTS); returns
    transformers' model of it, in float32."""
    return save_model(qwen3_model({"eos_token_id": list(END_TOKENS), **text}), folder, seed)


def qwen3_model(text: dict[str, Any]) -> Any:
    """transformers' model, not yet drawn. text: differences from TEXT."""
    from transformers import (
        Qwen3Config,
        Qwen3ForCausalLM,
        Qwen3MoeConfig,
        Qwen3MoeForCausalLM,
    )

    if "num_experts" in text:
        return Qwen3MoeForCausalLM(Qwen3MoeConfig(**{**TEXT, **text}))
    return Qwen3ForCausalLM(Qwen3Config(**{**TEXT, **text}))


def build_random_qwen3_asr(
    folder: Path,
    *,
    seed: int = 0,
    text: dict[str, Any] | None = None,
    audio: dict[str, Any] | None = None,
    tied_head: bool = True,
) -> Any:
    """Writes a Qwen3-ASR with random weights; returns transformers' model of it, in float32.

    text, audio: differences from TEXT and AUDIO.
    """
    from transformers import Qwen3ASRConfig, Qwen3ASRForConditionalGeneration

    config = Qwen3ASRConfig(
        text_config={"model_type": "qwen3", **TEXT, **(text or {})},
        audio_config={"model_type": "qwen3_asr_encoder", **AUDIO, **(audio or {})},
        audio_token_id=AUDIO_TOKEN,
        eos_token_id=list(END_TOKENS),
        pad_token_id=END_TOKENS[0],
        tie_word_embeddings=tied_head,
    )
    return save_model(Qwen3ASRForConditionalGeneration(config), folder, seed)


SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|audio_start|>", "<|audio_end|>")
ADDED = (*SPECIAL, "<|audio_pad|>", "<tool_call>", "<asr_text>", "<timestamp>")


def write_qwen_tokenizer(folder: Path, *tags: str, merges: Sequence[str] = ()) -> dict[str, int]:
    """vocab.json, merges.txt and tokenizer_config.json, as the original checkpoints have them.

    tags, merges: besides the usual ones. Returns the ids of all added tokens.
    """
    merges = (*MERGES, *merges)
    from tokenizers import pre_tokenizers

    folder.mkdir(parents=True, exist_ok=True)
    vocab = {symbol: i for i, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for merge in merges:
        vocab[merge.replace(" ", "")] = len(vocab)
    added = {
        str(len(vocab) + i): {"content": text, "special": text in (*SPECIAL, "<|audio_pad|>")}
        for i, text in enumerate((*ADDED, *tags))
    }
    (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges), encoding="utf-8")
    config = {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": added}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return {str(entry["content"]): int(index) for index, entry in added.items()}


def build_served_qwen3_asr(folder: Path, *, seed: int = 0, **audio: Any) -> Any:
    """A random Qwen3-ASR with a tokenizer that its ids fit, as an engine can serve it."""
    ids = write_qwen_tokenizer(folder)
    from transformers import Qwen3ASRConfig, Qwen3ASRForConditionalGeneration

    config = Qwen3ASRConfig(
        text_config={"model_type": "qwen3", **TEXT, "vocab_size": max(ids.values()) + 1},
        audio_config={"model_type": "qwen3_asr_encoder", **AUDIO, **audio},
        audio_token_id=ids["<|audio_pad|>"],
        eos_token_id=[ids["<|endoftext|>"], ids["<|im_end|>"]],
        pad_token_id=ids["<|endoftext|>"],
        tie_word_embeddings=True,
    )
    return save_model(Qwen3ASRForConditionalGeneration(config), folder, seed)


def build_random_qwen3_aligner(
    folder: Path, *, seed: int = 0, labels: int = 30, bias: bool = False
) -> Any:
    """A random Qwen3-ForcedAligner with a tokenizer that its ids fit; transformers' model of it."""
    ids = write_qwen_tokenizer(folder)
    from transformers import Qwen3ASRConfig, Qwen3ASRForTokenClassification

    settings: dict[str, Any] = {"token_classification_bias": bias, "num_labels": labels}
    config = Qwen3ASRConfig(
        text_config={"model_type": "qwen3", **TEXT, "vocab_size": max(ids.values()) + 1},
        audio_config={"model_type": "qwen3_asr_encoder", **AUDIO},
        audio_token_id=ids["<|audio_pad|>"],
        timestamp_token_id=ids["<timestamp>"],
        eos_token_id=[ids["<|endoftext|>"], ids["<|im_end|>"]],
        pad_token_id=ids["<|endoftext|>"],
        **settings,
    )
    make: Any = Qwen3ASRForTokenClassification
    return save_model(make(config), folder, seed)


def save_model(model: Any, folder: Path, seed: int) -> Any:
    """Weights large enough for attention to choose and for logits to differ, then written."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            if weight.dim() == 0:
                continue
            if name.endswith("bias"):
                weight.copy_(values * 0.1)
            elif weight.dim() == 1:  # norms
                weight.copy_(1.0 + values * 0.1)
            elif "embed_tokens" in name:
                weight.copy_(values * 0.3)
            else:
                weight.copy_(values * 1.5 * weight[0].numel() ** -0.5)
    model.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' own deprecations are not our bugs
        model.save_pretrained(folder)
    return model
