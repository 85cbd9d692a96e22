"""A Whisper in CTranslate2's folder is Hugging Face's; a broken one says what is wrong."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from lookhear.engine.checkpoints.loader import CheckpointError, CheckpointReader
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.model import WhisperModel
from tools.random_checkpoints.whisper import FIRST_LANGUAGE, LANGUAGES, build_random_whisper
from tools.real_weights.huggingface import convert

KINDS = {"float32": 0, "int8": 1, "int16": 2, "float16": 4}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_random_whisper(tmp_path_factory.mktemp("huggingface"), layers=(2, 3))


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


def converted(folder: Path) -> Path:
    target = folder.parent / "huggingface"
    convert(folder, target)
    return target


def test_every_weight_is_theirs(theirs: Path, tmp_path: Path) -> None:
    ours = converted(write(tmp_path / "ct2", theirs))
    expected = load_file(theirs / "model.safetensors")
    reader = CheckpointReader(ours, dtype=torch.float32)
    for name, tensor in expected.items():
        assert torch.equal(reader.take(name, *tensor.shape), tensor), name
    reader.finish()


def test_the_model_says_the_same(theirs: Path, tmp_path: Path) -> None:
    ours = converted(write(tmp_path / "ct2", theirs))
    mel = torch.randn(1, 80, 400, generator=torch.Generator().manual_seed(1))
    heard = [WhisperModel.from_folder(folder).encode(mel) for folder in (theirs, ours)]
    assert torch.equal(*heard)


@pytest.mark.parametrize(("kind", "worst"), [("float16", 1e-3), ("int16", 2e-3), ("int8", 1e-2)])
def test_fewer_bits_are_read_back(theirs: Path, tmp_path: Path, kind: str, worst: float) -> None:
    ours = converted(write(tmp_path / "ct2", theirs, kind))
    reader = CheckpointReader(ours, dtype=torch.float32)
    for name, tensor in load_file(theirs / "model.safetensors").items():
        gap = (reader.take(name, *tensor.shape) - tensor).abs().max()
        assert gap <= worst * tensor.abs().max(), name


def test_the_tokenizer_knows_the_same(theirs: Path, tmp_path: Path) -> None:
    folders = (theirs, converted(write(tmp_path / "ct2", theirs)))
    a, b = (WhisperTokenizer.from_folder(folder) for folder in folders)
    assert (a.languages, a.suppress_tokens, a.begin_suppress_tokens, a.alignment_heads) == (
        b.languages,
        b.suppress_tokens,
        b.begin_suppress_tokens,
        b.alignment_heads,
    )
    assert a.is_multilingual == b.is_multilingual and a.vocab_size == b.vocab_size


def cut_off(folder: Path) -> None:
    path = folder / "model.bin"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut_off, "cut off or damaged"),
        (lambda folder: (folder / "model.bin").write_bytes(b"<html>" * 9), "version 6"),
        (lambda folder: (folder / "model.bin").write_bytes(b""), "got 0 bytes"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "expected a file tokenizer.json"),
        (lambda folder: (folder / "config.json").write_text("{}"), "suppress_ids: expected a list"),
    ],
)
def test_a_broken_folder(theirs: Path, tmp_path: Path, spoil: Any, message: str) -> None:
    folder = write(tmp_path / "ct2", theirs)
    spoil(folder)
    with pytest.raises(CheckpointError, match=message):
        converted(folder)
    assert not (folder.parent / "huggingface").exists()


def test_another_model(theirs: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "ct2", theirs, name="TransformerSpec")
    with pytest.raises(CheckpointError, match="expected a Whisper .*got 'TransformerSpec'"):
        converted(folder)
