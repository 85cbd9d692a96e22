"""A Whisper in CTranslate2's folder is Hugging Face's; a broken one says what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from lookhear.engine.checkpoints.hub import resolve_checkpoint
from lookhear.engine.checkpoints.loader import CheckpointError, CheckpointReader
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.model import WhisperModel
from tests.engine.checkpoints.ctranslate2_folders import write


def test_every_weight_is_theirs(theirs: Path, tmp_path: Path) -> None:
    ours = resolve_checkpoint(write(tmp_path / "ct2", theirs))
    expected = load_file(theirs / "model.safetensors")
    reader = CheckpointReader(ours, dtype=torch.float32)
    for name, tensor in expected.items():
        assert torch.equal(reader.take(name, *tensor.shape), tensor), name
    reader.finish()


def test_the_model_says_the_same(theirs: Path, tmp_path: Path) -> None:
    ours = resolve_checkpoint(write(tmp_path / "ct2", theirs))
    mel = torch.randn(1, 80, 400, generator=torch.Generator().manual_seed(1))
    heard = [WhisperModel.from_folder(folder).encode(mel) for folder in (theirs, ours)]
    assert torch.equal(*heard)


@pytest.mark.parametrize(("kind", "worst"), [("float16", 1e-3), ("int16", 2e-3), ("int8", 1e-2)])
def test_fewer_bits_are_read_back(theirs: Path, tmp_path: Path, kind: str, worst: float) -> None:
    ours = resolve_checkpoint(write(tmp_path / "ct2", theirs, kind))
    reader = CheckpointReader(ours, dtype=torch.float32)
    for name, tensor in load_file(theirs / "model.safetensors").items():
        gap = (reader.take(name, *tensor.shape) - tensor).abs().max()
        assert gap <= worst * tensor.abs().max(), name


def test_the_tokenizer_knows_the_same(theirs: Path, tmp_path: Path) -> None:
    folders = (theirs, resolve_checkpoint(write(tmp_path / "ct2", theirs)))
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


def test_the_weights_are_not_copied(theirs: Path, tmp_path: Path, cache: Path) -> None:
    folder = write(tmp_path / "ct2", theirs)
    ours = resolve_checkpoint(folder)
    assert ours.is_relative_to(cache) and ours != folder
    assert (ours / "model.bin").resolve() == folder / "model.bin"
    assert resolve_checkpoint(folder) == ours == resolve_checkpoint(ours)
    own = sum(path.stat().st_size for path in ours.iterdir() if not path.is_symlink())
    assert own < 100_000


def test_other_weights_are_another_view(theirs: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "ct2", theirs)
    before = resolve_checkpoint(folder)
    data = bytearray((folder / "model.bin").read_bytes())
    (folder / "model.bin").write_bytes(bytes(data) + bytes(1))
    assert resolve_checkpoint(folder) != before


def test_a_folder_with_both_is_hugging_face_s(theirs: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "ct2", theirs)
    (folder / "model.safetensors").symlink_to(theirs / "model.safetensors")
    assert resolve_checkpoint(folder) == folder


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut_off, "cut off or damaged"),
        (lambda folder: (folder / "model.bin").write_bytes(b"<html>" * 9), "version 6"),
        (lambda folder: (folder / "model.bin").write_bytes(b""), "got 0 bytes"),
        (lambda folder: (folder / "config.json").write_text("{}"), "suppress_ids: expected a list"),
        (lambda folder: (folder / "config.json").unlink(), "expected a file config.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "expected added_tokens"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "expected multilingual.tiktoken"),
    ],
)
def test_a_broken_folder(
    theirs: Path, tmp_path: Path, cache: Path, spoil: Any, message: str
) -> None:
    folder = write(tmp_path / "ct2", theirs)
    spoil(folder)
    with pytest.raises(CheckpointError, match=message):
        resolve_checkpoint(folder)
    assert [path for path in cache.glob("views/*") if path.suffix != ".lock"] == []


def test_another_model(theirs: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "ct2", theirs, name="TransformerSpec")
    with pytest.raises(CheckpointError, match="expected a Whisper .*got 'TransformerSpec'"):
        resolve_checkpoint(folder)
