"""Write demo-qwen3-vl as a standard folder: `python -m tools.recipes.qwen3_vl.export --run DIR`."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import torch

from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.checkpoints.folders import drafted, model_weights, write_json
from tools.recipes.checkpoints.qwen_vocabulary import END_OF_TEXT, TURN_END
from tools.recipes.qwen3_vl.network import CHANNELS, FRAMES, MERGE, PATCH, Network, Size
from tools.recipes.qwen3_vl.tokenizer import (
    CHAT_TEMPLATE,
    IMAGE_PAD,
    VIDEO_PAD,
    VISION_END,
    VISION_START,
)

PATCH_BIAS = "model.visual.patch_embed.proj.bias"
TOKEN_PIXELS = (PATCH * MERGE) ** 2
IMAGE_TOKENS = (16, 49)
VIDEO_TOKENS = (64, 128)
"""Fewest and most of an image; and of the frames of a video together, each counted."""
LIVE_FRAME_TOKENS = 25


def configuration(size: Size, vocabulary: int, tokenizer: QwenTokenizer) -> dict[str, Any]:
    """config.json, as transformers' `Qwen3VLConfig` reads it."""
    ends = [tokenizer.token(TURN_END), tokenizer.token(END_OF_TEXT)]
    text = size.text
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "dtype": "float16",
        "eos_token_id": ends,
        "image_token_id": tokenizer.token(IMAGE_PAD),
        "model_type": "qwen3_vl",
        "pad_token_id": ends[1],
        "text_config": {
            "attention_bias": False,
            "attention_dropout": 0.0,
            "dtype": "float16",
            "eos_token_id": ends,
            "head_dim": text.head_width,
            "hidden_act": "silu",
            "hidden_size": text.width,
            "initializer_range": 0.02,
            "intermediate_size": text.inner,
            "max_position_embeddings": 4096,
            "model_type": "qwen3_vl_text",
            "num_attention_heads": text.heads,
            "num_hidden_layers": text.layers,
            "num_key_value_heads": text.shared_heads,
            "pad_token_id": ends[1],
            "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "mrope_interleaved": True,
                "mrope_section": list(size.sections),
                "rope_theta": text.rope_base,
                "rope_type": "default",
            },
            "tie_word_embeddings": True,
            "vocab_size": vocabulary,
        },
        "tie_word_embeddings": True,
        "video_token_id": tokenizer.token(VIDEO_PAD),
        "vision_config": {
            "deepstack_visual_indexes": list(size.deepstack),
            "depth": size.layers,
            "dtype": "float16",
            "hidden_act": "gelu_pytorch_tanh",
            "hidden_size": size.width,
            "in_channels": CHANNELS,
            "initializer_range": 0.02,
            "intermediate_size": size.inner,
            "model_type": "qwen3_vl_vision",
            "num_heads": size.heads,
            "num_position_embeddings": size.side**2,
            "out_hidden_size": text.width,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": FRAMES,
        },
        "vision_end_token_id": tokenizer.token(VISION_END),
        "vision_start_token_id": tokenizer.token(VISION_START),
    }


def pixel_rules(tokens: tuple[int, int], kind: str) -> dict[str, Any]:
    """preprocessor_config.json, or that of videos. kind: the class that transformers makes."""
    role = "video_processor_type" if "Video" in kind else "image_processor_type"
    return {
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "merge_size": MERGE,
        "patch_size": PATCH,
        "processor_class": "Qwen3VLProcessor",
        "resample": 3,
        "rescale_factor": 1 / 255,
        "size": {
            "longest_edge": tokens[1] * TOKEN_PIXELS,
            "shortest_edge": tokens[0] * TOKEN_PIXELS,
        },
        "temporal_patch_size": FRAMES,
        role: kind,
    }


def write_folder(net: Network, tokenizer_folder: Path, folder: Path) -> None:
    """Writes the whole folder; what is there besides stays."""
    from safetensors.torch import save_file

    with drafted(folder) as draft:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(tokenizer_folder / name, draft / name)
        tokenizer = QwenTokenizer.from_folder(draft)
        config = configuration(net.size, net.vocabulary, tokenizer)
        write_json(draft / "config.json", config)
        ends = {"eos_token_id": config["eos_token_id"], "pad_token_id": config["pad_token_id"]}
        write_json(draft / "generation_config.json", {"do_sample": False, **ends})
        images = pixel_rules(IMAGE_TOKENS, "Qwen2VLImageProcessor")
        videos = pixel_rules(VIDEO_TOKENS, "Qwen3VLVideoProcessor")
        write_json(draft / "preprocessor_config.json", images)
        write_json(draft / "video_preprocessor_config.json", videos)
        (draft / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
        weights = model_weights(net)
        # Half the size, and the same tokens: what is computed is float32 all the same.
        halves = {name: weight.half() for name, weight in weights.items()}
        # Of sums over weights: as exact as they are.
        halves[PATCH_BIAS] = net.model.visual.patch_embed.standard_bias().detach().contiguous()
        save_file(halves, str(draft / "model.safetensors"), metadata={"format": "pt"})
        # Read by our engine alone: a camera's frames have no total to share.
        write_json(draft / "lookhear.json", {"toy": True, "frame_tokens": LIVE_FRAME_TOKENS})


def load_network(run: Path) -> Network:
    """The network of a run's last state."""
    state = torch.load(run / "state.pt", weights_only=True)["net"]
    net = Network(
        Size(),
        len(state["model.language_model.embed_tokens.weight"]),
        len(state["token_labels.bias"]),
        len(state["patch_labels.bias"]),
    )
    net.load_state_dict(state)
    return net


def main() -> None:
    """Writes the folder of a finished run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of qwen3_vl.train --out")
    parser.add_argument("--out", type=Path, default=Path("tools/demo/lookhear_demo/qwen3_vl"))
    options = parser.parse_args()
    write_folder(load_network(options.run), options.run / "tokenizer", options.out)


if __name__ == "__main__":
    main()
