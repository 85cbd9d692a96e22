"""Whole models on the kernels, under the interpreter: the numbers that torch gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.whisper.model import WhisperModel
from lookhear.kernels.choice import mode
from tests.engine.models.driving import Decoder
from tools.random_checkpoints.qwen3 import TEXT, build_random_qwen3
from tools.random_checkpoints.whisper import build_random_whisper


@pytest.fixture
def on_both(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[Callable[[], list[Tensor]]], None]]:
    """Compares what a function gives on torch and on Triton."""

    def compare(outcome: Callable[[], list[Tensor]]) -> None:
        results = []
        for wanted in ("off", "always"):
            monkeypatch.setenv("LOOKHEAR_TRITON", wanted)
            mode.cache_clear()
            results.append(outcome())
        for theirs, ours in zip(*results, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
            assert torch.equal(ours.argmax(-1), theirs.argmax(-1))

    yield compare
    mode.cache_clear()


def test_qwen3_prefill_and_decoding(
    tmp_path: Path, on_both: Callable[[Callable[[], list[Tensor]]], None]
) -> None:
    build_random_qwen3(tmp_path / "model", num_hidden_layers=2)
    model = Qwen3Model.from_folder(tmp_path / "model")
    generator = torch.Generator().manual_seed(0)
    texts = [torch.randint(TEXT["vocab_size"], (n,), generator=generator) for n in (21, 3, 1)]

    def outcome() -> list[Tensor]:
        decoder = Decoder(model, shuffle=1)
        steps = [
            decoder.step({"a": texts[0]}),
            decoder.step({"a": texts[1], "b": texts[1]}, padding=3),
            decoder.step({"a": texts[2], "b": texts[2]}),
        ]
        return [logits for step in steps for logits in step.values()]

    on_both(outcome)


def test_whisper(tmp_path: Path, on_both: Callable[[Callable[[], list[Tensor]]], None]) -> None:
    folder = build_random_whisper(
        tmp_path / "model", vocab=120, audio_positions=40, context=16, tokenizer=False
    )
    model = WhisperModel.from_folder(folder)
    generator = torch.Generator().manual_seed(0)
    mel = torch.randn(2, model.dims.num_mels, 80, generator=generator)
    tokens = torch.randint(120, (2, 3), generator=generator)

    def outcome() -> list[Tensor]:
        encoded = model.encode(mel)
        own, audio = model.new_self_cache(2), model.new_cross_cache(2)
        own.data.fill_(torch.nan)
        slots = [audio.allocate() or 0 for _ in range(2)]
        audio.write(slots, model.project_cross(encoded), [40, 40])
        rows, counts = torch.tensor([1, 0]), torch.tensor([3, 2])
        places = torch.arange(3).expand(2, 3)
        prompt = model.decode(
            tokens, places, rows, counts * 0, counts, torch.tensor(slots), own, audio
        )
        step = model.decode(
            tokens[:, :1], counts[:, None], rows, counts, counts * 0 + 1, torch.tensor(slots), own,
            audio,
        )  # fmt: skip
        real = [prompt[0], prompt[1, :2], step[0], step[1]]
        return [encoded.flatten(0, 1), *(model.logits(hidden) for hidden in real)]

    on_both(outcome)
