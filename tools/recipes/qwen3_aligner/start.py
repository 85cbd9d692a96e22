"""Where the training of demo-qwen3-aligner begins: at demo-qwen3-asr, which hears these words."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.qwen3_aligner.network import AlignerNetwork
from tools.recipes.qwen3_asr.network import Size

DEMO = Path("tools/demo/lookhear_demo/qwen3_asr")
_EMBEDDINGS = "model.language_model.embed_tokens.weight"


def started(tokenizer: QwenTokenizer, vocabulary: int, folder: Path = DEMO) -> AlignerNetwork:
    """The network with the weights of a demo-qwen3-asr. A word's embedding is that of the word in a
    transcript, with a space in front of it."""
    weights = {
        name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()
    }
    old = weights[_EMBEDDINGS]
    weights[_EMBEDDINGS] = _embeddings(
        tokenizer, vocabulary, QwenTokenizer.from_folder(folder), old
    )
    net = AlignerNetwork(Size(), vocabulary)
    found = net.load_state_dict(weights, strict=False)
    assert found.missing_keys == ["score.weight"] and not found.unexpected_keys, found
    return net


def _embeddings(
    tokenizer: QwenTokenizer, vocabulary: int, before: QwenTokenizer, old: Tensor
) -> Tensor:
    """`[vocabulary, width]`. old: those of the tokenizer `before`."""
    added = {index: name for name, index in tokenizer.added.items()}
    rows = []
    for token in range(vocabulary):
        if token in added:
            rows.append(old[before.token(added[token])])
            continue
        text = tokenizer.decode_bytes([token]).decode("utf-8", "ignore")
        known = before.encode(" " + text) if text else []
        rows.append(old[known].mean(0) if known else old.mean(0))
    return torch.stack(rows)
