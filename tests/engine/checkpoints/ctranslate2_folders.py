"""Folders as CTranslate2's converter writes them of Hugging Face's."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from tools.random_checkpoints.whisper import FIRST_LANGUAGE, LANGUAGES

KINDS = {"float32": 0, "int8": 1, "int16": 2, "float16": 4}


def variables(tensors: dict[str, torch.Tensor]) -> dict[str, np.ndarray[Any, Any]]:
    """Hugging Face's tensors under CTranslate2's names, fused as its converter fuses them."""
    found: dict[str, Any] = {"encoder/num_heads": np.int16(2), "decoder/num_heads": np.int16(2)}
    found["decoder/activation"] = np.int8(3)
    array = {name: tensor.float().numpy() for name, tensor in tensors.items()}

    def linear(to: str, *names: str) -> None:
        found[f"{to}/weight"] = np.concatenate([array[f"{name}.weight"] for name in names])
        found[f"{to}/bias"] = np.concatenate(
            [array.get(f"{n}.bias", np.zeros(len(array[f"{n}.weight"]), np.float32)) for n in names]
        )

    def norm(to: str, name: str) -> None:
        found[f"{to}/gamma"], found[f"{to}/beta"] = array[f"{name}.weight"], array[f"{name}.bias"]

    for conv in ("conv1", "conv2"):
        linear(f"encoder/{conv}", f"model.encoder.{conv}")
    found["decoder/embeddings/weight"] = array["model.decoder.embed_tokens.weight"]
    for side in ("encoder", "decoder"):
        places = array[f"model.{side}.embed_positions.weight"]
        found[f"{side}/position_encodings/encodings"] = places
        norm(f"{side}/layer_norm", f"model.{side}.layer_norm")
    for name in array:
        match = re.fullmatch(r"model\.(\w+)\.layers\.(\d+)\.fc1\.weight", name)
        if match is None:
            continue
        of, to = f"model.{match[1]}.layers.{match[2]}", f"{match[1]}/layer_{match[2]}"
        own = [f"{of}.self_attn.{part}_proj" for part in ("q", "k", "v")]
        linear(f"{to}/self_attention/linear_0", *own)
        linear(f"{to}/self_attention/linear_1", f"{of}.self_attn.out_proj")
        norm(f"{to}/self_attention/layer_norm", f"{of}.self_attn_layer_norm")
        if match[1] == "decoder":
            linear(f"{to}/attention/linear_0", f"{of}.encoder_attn.q_proj")
            across = [f"{of}.encoder_attn.{part}_proj" for part in ("k", "v")]
            linear(f"{to}/attention/linear_1", *across)
            linear(f"{to}/attention/linear_2", f"{of}.encoder_attn.out_proj")
            norm(f"{to}/attention/layer_norm", f"{of}.encoder_attn_layer_norm")
        linear(f"{to}/ffn/linear_0", f"{of}.fc1")
        linear(f"{to}/ffn/linear_1", f"{of}.fc2")
        norm(f"{to}/ffn/layer_norm", f"{of}.final_layer_norm")
    return found


def container(
    found: dict[str, np.ndarray[Any, Any]], kind: str, name: str = "WhisperSpec"
) -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    stored: dict[str, np.ndarray[Any, Any]] = {}
    for key, value in found.items():
        is_matrix = key.endswith("/weight") and "conv" not in key
        if value.dtype != np.float32 or (kind.startswith("int") and not is_matrix):
            stored[key] = value
        elif kind == "int8":
            scale = 127 / np.abs(value).max(axis=1)
            stored[key] = np.rint(value * scale[:, None]).astype(np.int8)
            stored[f"{key}_scale"] = scale.astype(np.float32)
        elif kind == "int16":
            scale = np.float32(16_000 / np.abs(value).max())
            stored[key] = np.rint(value * scale).astype(np.int16)
            stored[f"{key}_scale"] = np.asarray(scale)
        else:
            stored[key] = value.astype(kind)
    parts = [struct.pack("<I", 6), text(name), struct.pack("<II", 3, len(stored))]
    for key, value in stored.items():
        value = np.ascontiguousarray(value)
        sizes = struct.pack(f"<{value.ndim}I", *value.shape)
        parts += [text(key), struct.pack("<B", value.ndim), sizes]
        parts += [struct.pack("<BI", KINDS[value.dtype.name], value.nbytes), value.tobytes()]
    parts += [struct.pack("<I", 1), text("decoder/projection/weight")]
    return b"".join([*parts, text("decoder/embeddings/weight")])


def write(folder: Path, theirs: Path, kind: str = "float32", name: str = "WhisperSpec") -> Path:
    folder.mkdir()
    found = variables(load_file(theirs / "model.safetensors"))
    (folder / "model.bin").write_bytes(container(found, kind, name))
    generation = json.loads((theirs / "generation_config.json").read_text())
    config = {
        "suppress_ids": generation["suppress_tokens"],
        "suppress_ids_begin": generation.get("begin_suppress_tokens", []),
        "lang_ids": [FIRST_LANGUAGE + i for i in range(len(LANGUAGES))],
        "alignment_heads": generation["alignment_heads"],
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_bytes((theirs / "tokenizer.json").read_bytes())
    return folder
