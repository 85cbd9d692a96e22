"""Which precision a checkpoint is kept in, where the user or the machine decides."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.config import EngineConfig
from lookhear.engine.families import family
from lookhear.engine.families.build import build_core
from lookhear.engine.families.family import (
    SMALL_CHECKPOINT_BYTES,
    chosen_dtype,
    int8_weights,
    weight_bytes,
)
from lookhear.engine.models.gated_ffn import DenseFeedForward
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.kernels import INT4
from lookhear.kernels.fp8 import FP8
from tools.random_checkpoints.qwen3 import build_random_qwen3_asr
from tools.random_checkpoints.whisper import build_random_whisper

needs_int8 = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="this torch has no FBGEMM"
)


def weigh(folder: Path, name: str, num_bytes: int) -> Path:
    """A folder whose weights seem to be so large."""
    with (folder / name).open("wb") as file:
        file.truncate(num_bytes)
    return folder


@pytest.mark.parametrize("name", ["model.safetensors", "model.bin", "model.pt"])
@pytest.mark.parametrize("native", [torch.float32, torch.bfloat16])
@needs_int8
def test_auto_is_int8_where_there_is_no_bfloat16(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: torch.dtype, name: str
) -> None:
    monkeypatch.setattr(family, "default_cpu_dtype", lambda: native)
    folder = weigh(tmp_path, name, SMALL_CHECKPOINT_BYTES)
    assert int8_weights("auto", "cpu", folder) == (native == torch.float32)
    assert not int8_weights("auto", "cuda", folder)
    assert not int8_weights("float32", "cpu", folder)
    weigh(tmp_path, name, SMALL_CHECKPOINT_BYTES - 1)
    assert not int8_weights("auto", "cpu", folder)
    assert int8_weights("int8", "cpu", folder)


def test_auto_without_the_operators_is_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(family, "supports_int8_weights", lambda: False)
    folder = weigh(tmp_path, "model.safetensors", SMALL_CHECKPOINT_BYTES)
    assert not int8_weights("auto", "cpu", folder)
    with pytest.raises(CheckpointError, match="int8 is not in this torch"):
        int8_weights("int8", "cpu", folder)


def test_int8_is_refused_where_it_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="int8 is for a CPU, the device is 'cuda:1'"):
        int8_weights("int8", "cuda:1", tmp_path)
    with pytest.raises(CheckpointError, match="int8 is for Whisper on a CPU"):
        chosen_dtype("int8", "cpu", tmp_path)


@needs_int8
def test_whisper_says_that_it_is_in_int8(tmp_path: Path) -> None:
    folder = build_random_whisper(tmp_path / "model")
    built = build_core(EngineConfig(model=str(folder), dtype="int8"), lambda stage, share: None)
    assert (built.device, built.dtype) == ("cpu", "int8")


@needs_int8
@pytest.mark.parametrize("name", ["demo-qwen3-asr", "demo-qwen3-vl"])
def test_others_say_so_too(name: str) -> None:
    built = build_core(EngineConfig(model=name, dtype="int8"), lambda stage, share: None)
    assert (built.device, built.dtype) == ("cpu", "int8")


def test_who_has_no_int8_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "supports_int8_weights", lambda: False)
    with pytest.raises(CheckpointError, match="dtype: int8 is not in this torch or not for this"):
        build_core(EngineConfig(model="demo-qwen3-vl", dtype="int8"), lambda stage, share: None)


@pytest.mark.parametrize("name", ["demo-qwen3-asr", "demo-qwen3-vl"])
def test_fp8_is_refused_without_a_card_that_has_it(name: str) -> None:
    expected = "fp8: expected a GPU of compute capability 8.9 or more .*the device is 'cpu'"
    with pytest.raises(CheckpointError, match=expected):
        build_core(EngineConfig(model=name, dtype="fp8"), lambda stage, share: None)


def test_others_refuse_fp8_in_one_line() -> None:
    expected = (
        "fp8 is for Qwen3, Qwen3-ASR, Qwen3-VL and Voxtral on a GPU; expected another, or auto"
    )
    with pytest.raises(CheckpointError, match=expected):
        build_core(EngineConfig(model="demo-whisper", dtype="fp8"), lambda stage, share: None)


@pytest.mark.parametrize("name", ["demo-qwen3-asr", "demo-qwen3-vl"])
def test_int4_is_refused_without_a_card_that_has_it(name: str) -> None:
    expected = (
        r"int4: expected a GPU of compute capability 8\.0 or more .*is 'cpu', for which .* alone"
    )
    with pytest.raises(CheckpointError, match=expected):
        build_core(EngineConfig(model=name, dtype="int4"), lambda stage, share: None)
    with pytest.raises(CheckpointError, match="int4 is for Qwen3, Qwen3-ASR, Qwen3-VL and Voxtral"):
        build_core(EngineConfig(model="demo-whisper", dtype="int4"), lambda stage, share: None)


def test_int4_counts_no_less_than_there_is(tmp_path: Path) -> None:
    build_random_qwen3_asr(tmp_path, text={"head_dim": 16, "intermediate_size": 96})
    model = Qwen3AsrModel.from_folder(tmp_path, dtype=torch.bfloat16, linears=INT4)
    rounded = whole = 0
    for layer in model.decoder.weights.layers:
        assert isinstance(layer.ffn, DenseFeedForward)
        for weights in (layer.qkv, layer.out, layer.ffn.gate_up, layer.ffn.down):
            assert weights.int4 is not None and weights.int4.zeros is None
            rounded += weights.int4.numbers.nbytes + weights.int4.scales.nbytes
            whole += weights.in_features * weights.out_features
    tensors = load_file(tmp_path / "model.safetensors")
    others = sum(tensor.numel() for tensor in tensors.values()) - whole
    held = 2 * others + rounded
    assert held <= weight_bytes(tmp_path, "int4", "cuda") <= held + whole // 32  # larger groups


def test_fp8_counts_half_the_bytes_of_a_decoders_layers(tmp_path: Path) -> None:
    build_random_qwen3_asr(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    model = Qwen3AsrModel.from_folder(tmp_path, dtype=torch.bfloat16, linears=FP8)
    layers = model.decoder.weights.layers
    kept = [w for layer in layers for w in (layer.qkv, layer.out)]
    for layer in layers:
        assert isinstance(layer.ffn, DenseFeedForward)
        kept += [layer.ffn.gate_up, layer.ffn.down]
    assert {w.weight.dtype for w in kept} == {torch.float8_e4m3fn}
    rounded = sum(w.weight.numel() for w in kept)
    whole = sum(tensor.numel() for tensor in tensors.values())
    assert weight_bytes(tmp_path, "fp8", "cuda") == 2 * whole - rounded


def test_a_cache_in_float8_is_refused_where_it_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(name: str) -> None:
        config = EngineConfig(model=name, kv_cache_dtype="fp8")
        build_core(config, lambda stage, share: None)

    with pytest.raises(CheckpointError, match="fp8 is for Qwen3, .* got a Whisper; expected auto"):
        build("demo-whisper")
    with pytest.raises(CheckpointError, match="kv_cache_dtype: fp8: expected a GPU .* 'cpu'"):
        build("demo-qwen3-asr")


@pytest.mark.parametrize("name", ["demo-qwen3-asr", "demo-qwen3-vl"])
def test_a_cache_in_float8_has_twice_the_room(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family, "fp8_refusal", lambda device: None)

    def tokens(kind: str) -> int:
        config = EngineConfig(
            model=name, dtype="bfloat16", kv_cache_dtype=kind, kv_cache_gigabytes=0.002,
            max_context_tokens=512,
        )  # fmt: skip
        core = build_core(config, lambda stage, share: None).core
        return core._runner.free_tokens

    whole = tokens("auto")
    assert 2 * whole <= tokens("fp8") <= 2 * whole + 32
