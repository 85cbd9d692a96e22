"""Write demo-qwen3-asr as a usual folder: `python -m tools.recipes.qwen3_asr.export --run DIR`."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import torch

from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.checkpoints.folders import drafted, model_weights, write_json
from tools.recipes.checkpoints.qwen_vocabulary import END_OF_TEXT, TURN_END
from tools.recipes.qwen3_asr.network import Network, Size
from tools.recipes.qwen3_asr.tokenizer import AUDIO_PAD, CHAT_TEMPLATE

LONGEST_SECONDS = 20


def configuration(size: Size, vocabulary: int, tokenizer: QwenTokenizer) -> dict[str, Any]:
    """config.json, as transformers' `Qwen3ASRConfig` reads it."""
    ends = [tokenizer.token(END_OF_TEXT), tokenizer.token(TURN_END)]
    return {
        "architectures": ["Qwen3ASRForConditionalGeneration"],
        "audio_config": {
            "activation_function": "gelu",
            "d_model": size.encoder_width,
            "downsample_hidden_size": size.channels,
            "encoder_attention_heads": size.encoder_heads,
            "encoder_ffn_dim": 4 * size.encoder_width,
            "encoder_layers": size.encoder_layers,
            "max_position_embeddings": 13,
            "model_type": "qwen3_asr_encoder",
            "n_window": 50,
            "n_window_infer": 800,
            "num_mel_bins": size.mels,
            "output_dim": size.width,
        },
        "audio_token_id": tokenizer.token(AUDIO_PAD),
        "dtype": "float16",
        "eos_token_id": ends,
        "initializer_range": 0.02,
        "model_type": "qwen3_asr",
        "pad_token_id": ends[0],
        "text_config": {
            "attention_bias": False,
            "attention_dropout": 0.0,
            "head_dim": size.head_width,
            "hidden_act": "silu",
            "hidden_size": size.width,
            "intermediate_size": size.inner,
            "max_position_embeddings": 4096,
            "model_type": "qwen3",
            "num_attention_heads": size.heads,
            "num_hidden_layers": size.layers,
            "num_key_value_heads": size.shared_heads,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_theta": size.rope_base, "rope_type": "default"},
            "tie_word_embeddings": True,
            "vocab_size": vocabulary,
        },
        "tie_word_embeddings": True,
        "timestamp_token_id": tokenizer.token("<timestamp>"),
    }


def write_processor(tokenizer_folder: Path, template: str, folder: Path) -> None:
    """What transformers reads sound and text with. template: of the prompt."""
    from transformers import Qwen2Tokenizer, Qwen3ASRFeatureExtractor, Qwen3ASRProcessor

    reader: Any = Qwen2Tokenizer
    extractor: Any = Qwen3ASRFeatureExtractor
    processor = Qwen3ASRProcessor(extractor(), reader.from_pretrained(tokenizer_folder), template)
    processor.save_pretrained(folder)
    # As learned; transformers writes some fields of its own into its copy of them.
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer_folder / name, folder / name)


def write_folder(net: Network, tokenizer_folder: Path, folder: Path) -> None:
    """Writes the whole folder; what is there besides stays."""
    from safetensors.torch import save_file

    with drafted(folder) as draft:
        write_processor(tokenizer_folder, CHAT_TEMPLATE, draft)
        tokenizer = QwenTokenizer.from_folder(draft)
        config = configuration(net.size, net.vocabulary, tokenizer)
        write_json(draft / "config.json", config)
        ends = {"eos_token_id": config["eos_token_id"], "pad_token_id": config["pad_token_id"]}
        write_json(draft / "generation_config.json", {"do_sample": False, **ends})
        weights = model_weights(net)
        # Half the size, and the same tokens: what is computed is float32 all the same.
        halves = {name: weight.half() for name, weight in weights.items()}
        save_file(halves, str(draft / "model.safetensors"), metadata={"format": "pt"})
        # Read by our engine alone: how long an audio it hears well. It was trained on up to 24 s.
        ours = {
            "toy": True,
            "evidence_seconds": 0.25,
            "longest_window_seconds": LONGEST_SECONDS,
        }
        write_json(draft / "lookhear.json", ours)


def load_network(run: Path) -> Network:
    """The network of a run's last state."""
    state = torch.load(run / "state.pt", weights_only=True)["net"]
    vocabulary = len(state["model.language_model.embed_tokens.weight"])
    size = Size()
    net = Network(size, vocabulary, len(state["phonemes.bias"]) // 4)
    net.load_state_dict(state)
    return net


def main() -> None:
    """Writes the folder of a finished run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of qwen3_asr.train --out")
    parser.add_argument("--out", type=Path, default=Path("tools/demo/lookhear_demo/qwen3_asr"))
    options = parser.parse_args()
    write_folder(load_network(options.run), options.run / "tokenizer", options.out)


if __name__ == "__main__":
    main()
