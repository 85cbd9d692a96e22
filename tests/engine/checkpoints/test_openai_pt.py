"""OpenAI's file is the same Whisper; what is none of its kind is not loaded."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from lookhear.engine.checkpoints.hub import resolve_checkpoint
from lookhear.engine.checkpoints.loader import CheckpointError, CheckpointReader
from lookhear.engine.families.registry import family_of
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.model import WhisperModel
from tools.random_checkpoints.whisper import LANGUAGES

# Hugging Face's names of weights, and openai/whisper's (its `model.py`).
THEIRS = {
    "model.encoder.layer_norm": "encoder.ln_post",
    "model.decoder.layer_norm": "decoder.ln",
    "model.decoder.embed_tokens": "decoder.token_embedding",
    "model.encoder.": "encoder.",
    "model.decoder.": "decoder.",
    ".layers.": ".blocks.",
    ".embed_positions.weight": ".positional_embedding",
    "self_attn_layer_norm": "attn_ln",
    "encoder_attn_layer_norm": "cross_attn_ln",
    "final_layer_norm": "mlp_ln",
    "self_attn": "attn",
    "encoder_attn": "cross_attn",
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "out_proj": "out",
    "fc1": "mlp.0",
    "fc2": "mlp.2",
}


def in_their_words(name: str) -> str:
    for ours, openai in THEIRS.items():
        name = name.replace(ours, openai)
    return name


def write(path: Path, theirs: Path, **changes: Any) -> Path:
    """As `torch.save` of openai/whisper writes it, with a vocabulary of every byte and many pairs
    beside it."""
    config = json.loads((theirs / "config.json").read_text())
    dims = {
        "n_mels": config["num_mel_bins"],
        "n_vocab": config["vocab_size"],
        "n_audio_ctx": config["max_source_positions"],
        "n_audio_state": config["d_model"],
        "n_audio_head": config["encoder_attention_heads"],
        "n_audio_layer": config["encoder_layers"],
        "n_text_ctx": config["max_target_positions"],
        "n_text_state": config["d_model"],
        "n_text_head": config["decoder_attention_heads"],
        "n_text_layer": config["decoder_layers"],
    }
    tensors = load_file(theirs / "model.safetensors")
    held = {
        "dims": dims,
        "model_state_dict": {in_their_words(name): tensor for name, tensor in tensors.items()},
    }
    path.parent.mkdir(exist_ok=True)
    torch.save(held | changes, path)
    pairs = itertools.islice(itertools.product(range(256), repeat=2), 50_000)
    tokens = [*(bytes([i]) for i in range(256)), *map(bytes, pairs)]
    lines = [f"{base64.b64encode(token).decode()} {i}" for i, token in enumerate(tokens)]
    (path.parent / "multilingual.tiktoken").write_text("\n".join([*lines, "= 50256\n"]))
    return path


def test_every_weight_is_theirs(theirs: Path, tmp_path: Path) -> None:
    view = resolve_checkpoint(write(tmp_path / "their" / "tiny.pt", theirs))
    reader = CheckpointReader(view)
    for name, tensor in load_file(theirs / "model.safetensors").items():
        assert torch.equal(reader.take(name, *tensor.shape), tensor), name
    reader.finish()
    assert (view / "model.pt").resolve() == tmp_path / "their" / "tiny.pt"
    assert resolve_checkpoint(view) == view


def test_the_model_says_the_same(theirs: Path, tmp_path: Path) -> None:
    view = resolve_checkpoint(write(tmp_path / "their" / "tiny.pt", theirs))
    assert family_of(view)[0].name == "Whisper"
    mel = torch.randn(1, 80, 400, generator=torch.Generator().manual_seed(1))
    heard = [WhisperModel.from_folder(folder).encode(mel) for folder in (theirs, view)]
    assert torch.equal(*heard)


def test_tokens_are_numbered_as_openai_does(theirs: Path, tmp_path: Path) -> None:
    view = resolve_checkpoint(write(tmp_path / "their" / "tiny.pt", theirs))
    ours, known = (WhisperTokenizer.from_folder(folder) for folder in (view, theirs))
    assert list(ours.languages) == LANGUAGES and ours.is_multilingual
    for name in ("eot", "sot", "prev", "translate", "transcribe", "no_speech", "timestamp_begin"):
        assert getattr(ours, name) == getattr(known, name), name
    assert {ours.sot, ours.prev, ours.no_speech} < set(ours.suppress_tokens)
    assert ours.begin_suppress_tokens == [ours.encode(" ")[0], ours.eot]
    # Where nobody says which heads align: those of the upper layers.
    assert ours.alignment_heads == [(1, 0), (1, 1), (2, 0), (2, 1)]
    text = " Grüße, «ohne» 日本語!"
    assert ours.decode(ours.encode(text)) == text


class Runs:
    """Code that a pickle would run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_nothing_in_a_pickle_is_executed(theirs: Path, tmp_path: Path) -> None:
    trace = tmp_path / "it was run"
    path = write(tmp_path / "their" / "tiny.pt", theirs, extra=Runs(trace))
    with pytest.raises(CheckpointError, match="other objects, which are not loaded"):
        resolve_checkpoint(path)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected"),
        (b"<html>not found</html>", "expected"),
        ({"state": 1}, "expected dims and model_state_dict"),
        ([1, 2], "expected a dictionary, got list"),
        ({"dims": {"n_mels": 80}, "model_state_dict": {}}, "dims: n_vocab: expected 1 or more"),
        ({"dims": {}, "model_state_dict": {"a": 1}}, "expected tensors alone"),
    ],
)
def test_what_is_no_whisper(tmp_path: Path, cache: Path, content: object, message: str) -> None:
    path = tmp_path / "tiny.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(CheckpointError, match=f"^{re.escape(str(path))}: .*{message}"):
        resolve_checkpoint(path)
    assert [found for found in cache.glob("views/*") if found.suffix != ".lock"] == []


def test_half_a_file(theirs: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "their" / "tiny.pt", theirs)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CheckpointError, match=r"tiny\.pt: expected"):
        resolve_checkpoint(path)


def test_without_a_vocabulary(theirs: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "their" / "tiny.pt", theirs)
    (path.parent / "multilingual.tiktoken").unlink()
    with pytest.raises(CheckpointError, match=r"expected multilingual\.tiktoken beside it"):
        resolve_checkpoint(path)


@pytest.mark.parametrize("text", ["IQ== 0\nIQ== 1\n", "%% 0\n", "no numbers\n", "IQ== 1\n"])
def test_a_broken_vocabulary(theirs: Path, tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "their" / "tiny.pt", theirs)
    (path.parent / "multilingual.tiktoken").write_text(text)
    with pytest.raises(CheckpointError, match=r"multilingual\.tiktoken: expected"):
        resolve_checkpoint(path)
