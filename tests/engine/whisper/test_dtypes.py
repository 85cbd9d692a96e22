from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lookhear.engine.whisper.model import WhisperModel
from lookhear.kernels import supports_half_weights
from tools.random_checkpoints.whisper import build_random_whisper

# As torch itself says, so that a fault of ours is none of these.
needs_int8 = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="this torch has no FBGEMM"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dtypes") / "model"
    return build_random_whisper(path, width=32, vocab=300, context=20, tokenizer=False)


def run(model: WhisperModel, cache: torch.dtype | None = None) -> Tensor:
    """Logits of a prompt of 5 and then one token, over 1 s of noise."""
    mel = torch.randn(1, 80, 100, generator=torch.Generator().manual_seed(0))
    own, audio = model.new_self_cache(1, cache), model.new_cross_cache(1, 50, cache)
    row, slot = own.allocate(), audio.allocate()
    assert row is not None and slot is not None
    audio.write([slot], model.project_cross(model.encode(mel)), [50])
    tokens = torch.tensor([[7, 1, 200, 3, 4, 5]])
    parts = []
    for first, last in ((0, 5), (5, 6)):
        hidden = model.decode(
            tokens[:, first:last],
            torch.arange(first, last)[None],
            torch.tensor([row]),
            torch.tensor([first]),
            torch.tensor([last - first]),
            torch.tensor([slot]),
            own,
            audio,
        )
        parts.append(model.logits(hidden[0]))
    return torch.cat(parts)


@pytest.mark.parametrize("cache", [None, torch.float32])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_close(
    folder: Path, dtype: torch.dtype, cache: torch.dtype | None
) -> None:
    exact = run(WhisperModel.from_folder(folder))
    logits = run(WhisperModel.from_folder(folder, dtype=dtype), cache)
    assert logits.dtype == torch.float32
    error = (logits - exact).abs().max() / exact.std()
    assert error < (0.25 if dtype == torch.bfloat16 else 0.05)


@pytest.mark.skipif(not supports_half_weights(), reason="this torch has no FBGEMM")
def test_bfloat16_on_a_cpu_is_the_encoder_alone(folder: Path) -> None:
    model = WhisperModel.from_folder(folder, dtype=torch.bfloat16)
    assert model.dtype == torch.bfloat16
    assert model.weights.decoder_positions.dtype == torch.float32
    assert model.encode(torch.zeros(1, 80, 100)).dtype == torch.bfloat16
    assert model.new_cross_cache(1, 50).data.dtype == torch.float16
    assert model.new_self_cache(1).data.dtype == torch.float16
    assert model.weights.tokens.dtype == torch.float16


def test_packed_weights_change_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = run(WhisperModel.from_folder(folder))
    module = importlib.import_module("lookhear.kernels.linear")
    monkeypatch.setattr(module, "_packed", lambda weight: None)
    plain = WhisperModel.from_folder(folder)
    assert not plain.weights.encoder.layers[0].ffn.up.packed
    torch.testing.assert_close(run(plain), packed, atol=1e-4, rtol=1e-4)


@pytest.mark.skipif(not supports_half_weights(), reason="this torch has no FBGEMM")
def test_weights_published_in_float16_lose_nothing_in_a_half_decoder(tmp_path: Path) -> None:
    folder = build_random_whisper(
        tmp_path / "model", width=64, vocab=2000, context=20, tokenizer=False
    )
    path = folder / "model.safetensors"
    save_file({name: x.half().float() for name, x in load_file(path).items()}, path)
    halved = WhisperModel.from_folder(folder, half_decoder=True)
    assert halved.weights.head.half is not None
    assert halved.weights.tokens.dtype == torch.float16
    assert halved.dtype == halved.weights.decoder_positions.dtype == torch.float32
    exact = WhisperModel.from_folder(folder)
    assert exact.weights.head.half is None
    torch.testing.assert_close(run(halved, torch.float32), run(exact), atol=1e-5, rtol=1e-5)
    in_half_caches = run(halved) - run(exact)
    assert in_half_caches.abs().max() / run(exact).std() < 0.02


@needs_int8
def test_int8_is_close(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("lookhear.kernels.linear")
    monkeypatch.setattr(module, "INT8_FROM", 1)
    monkeypatch.setattr(module, "INT8_FEW_FROM", 1)
    exact = run(WhisperModel.from_folder(folder))
    model = WhisperModel.from_folder(folder, int8=True)
    weights = model.weights
    assert weights.encoder.layers[0].ffn.up.int8 is not None
    assert weights.decoder_layers[0].cross.kv.int8 is not None
    assert weights.head.int8 is not None
    assert weights.tokens.dtype == torch.uint8  # as many bits as the same numbers have there
    assert model.cache_dtype == torch.float32
    assert model.dtype == weights.decoder_positions.dtype == torch.float32
    logits = run(model)
    assert (logits - exact).abs().max() / exact.std() < 0.25
    assert torch.equal(run(model), logits)


@needs_int8
def test_in_int8_the_decoder_keeps_what_is_not_very_large(tmp_path: Path) -> None:
    folder = build_random_whisper(
        tmp_path / "model", width=320, vocab=7000, context=20, tokenizer=False
    )
    weights = WhisperModel.from_folder(folder, half_decoder=True, int8=True).weights
    encoder, decoder = weights.encoder.layers[0], weights.decoder_layers[0]
    assert encoder.ffn.up.int8 is not None and encoder.attention.out.int8 is not None
    assert decoder.cross.kv.int8 is not None  # over a whole window
    assert decoder.ffn.up.int8 is None and decoder.ffn.up.half is not None
    assert weights.head.int8 is not None  # 2.2 million
    assert weights.cache_dtype == torch.float16


@needs_int8
def test_windows_in_int8_do_not_depend_on_their_neighbours(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("lookhear.kernels.linear")
    monkeypatch.setattr(module, "INT8_FROM", 1)
    model = WhisperModel.from_folder(folder, int8=True)
    generator = torch.Generator().manual_seed(1)
    mel = torch.randn(3, 80, 200, generator=generator)
    mel[1] *= 30  # with a scale for all it would leave nothing of the others
    together = model.encode(mel)
    for i in range(3):
        assert torch.equal(model.encode(mel[i : i + 1])[0], together[i])
    silence = model.encode_silence()
    together = model.encode(mel, silence)
    for i in range(3):
        assert torch.equal(model.encode(mel[i : i + 1], silence)[0], together[i])
