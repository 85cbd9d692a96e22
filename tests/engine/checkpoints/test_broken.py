"""A Qwen3-ASR folder that cannot be served: the error names the file and what was expected."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from lookhear.engine.checkpoints.loader import CheckpointError
from tests.engine.playing import make_core

HEAD = "model.language_model.norm.weight"


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    path = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    change(tensors)
    save_file(tensors, path)


def truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garble(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"<html>not found</html>" * 20)


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def lose_the_tag(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    last = max(config["added_tokens_decoder"], key=int)
    tag = next(
        key
        for key, entry in config["added_tokens_decoder"].items()
        if entry["content"] == "<asr_text>"
    )
    config["added_tokens_decoder"][tag]["content"] = "<another>"
    assert last != tag
    path.write_text(json.dumps(config))


CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated weights": (truncate, r"model\.safetensors: expected a safetensors file"),
    "weights that are a web page": (garble, r"model\.safetensors: expected a safetensors file"),
    "no weights": (remove("model.safetensors"), r"expected model\.safetensors or .*index\.json"),
    "a missing tensor": (
        lambda folder: change_tensors(folder, lambda t: t.pop(HEAD)),
        rf"expected a tensor {HEAD} of shape \[32\], found none",
    ),
    "a wrong shape": (
        lambda folder: change_tensors(folder, lambda t: t.update({HEAD: torch.ones(31)})),
        rf"model\.safetensors: tensor {HEAD}: expected shape \[32\], got \[31\]",
    ),
    "NaN weights": (
        lambda folder: change_tensors(folder, lambda t: t[HEAD].fill_(torch.nan)),
        rf"tensor {HEAD}: expected finite numbers, got NaN",
    ),
    "no config": (remove("config.json"), r"expected a file config\.json"),
    "half a config": (
        lambda folder: (folder / "config.json").write_text('{"architectures": ['),
        r"config\.json: expected JSON",
    ),
    "another architecture": (
        lambda folder: change_config(folder, architectures=["LlamaForCausalLM"]),
        r"config\.json: architectures: expected one of WhisperForConditionalGeneration, "
        r"Qwen3ForCausalLM, Qwen3Model, Qwen3ForSequenceClassification, "
        r"Qwen3ASRForConditionalGeneration, Qwen3VLForConditionalGeneration, "
        r"Qwen3MoeForCausalLM, Qwen3VLMoeForConditionalGeneration, "
        r"Qwen3OmniMoeForConditionalGeneration, Qwen3OmniMoeThinkerForConditionalGeneration, "
        r"SmolVLMForConditionalGeneration, Idefics3ForConditionalGeneration, "
        r"VoxtralForConditionalGeneration, "
        r"MoonshineForConditionalGeneration, MoonshineStreamingForConditionalGeneration, "
        r"NemotronAsrStreamingForRNNT, Nemotron3_5AsrForRNNT, "
        r"VoxtralRealtimeForConditionalGeneration, "
        r"ParakeetForTDT, ParakeetForRNNT, ParakeetForCTC, "
        r"Nemotron3DiarizationForAudioFrameClassification, "
        r"got LlamaForCausalLM",
    ),
    "no tokenizer": (remove("vocab.json"), r"tokenizer\.json"),
    "half a tokenizer": (remove("merges.txt"), r"merges\.txt"),
    "a tokenizer without the tag": (lose_the_tag, r"expected a token <asr_text>"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_with_a_folder_is_named(served_asr: Path, tmp_path: Path, case: str) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(served_asr, folder)
    break_it, message = CASES[case]
    break_it(folder)
    with pytest.raises(CheckpointError, match=message) as caught:
        make_core(folder)
    assert str(folder) in str(caught.value)
