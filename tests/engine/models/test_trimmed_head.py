from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.whisper.model import WhisperModel
from tools.random_checkpoints.whisper import build_random_whisper

VOCAB, EOT = 400, 300


def load(tmp_path: Path, suppress: list[int], unused: object = (), **options: Any) -> WhisperModel:
    folder = build_random_whisper(
        tmp_path / "model", layers=1, width=16, vocab=VOCAB, tokenizer=False,
        config={"eos_token_id": EOT},
    )  # fmt: skip
    generation = {"suppress_tokens": suppress}
    (folder / "generation_config.json").write_text(json.dumps(generation))
    (folder / "lookhear.json").write_text(json.dumps({"unused_tokens": unused}))
    return WhisperModel.from_folder(folder, **options)


@pytest.mark.parametrize("rows", [1, 5])
def test_only_suppressed_text_is_left_out(tmp_path: Path, rows: int) -> None:
    suppress = [3, *range(50, 290), 320, 350, -1, 9999]
    hidden = torch.randn(rows, 16, generator=torch.Generator().manual_seed(0))
    trimmed, whole = load(tmp_path, suppress), load(tmp_path, suppress, trim_head=False)
    assert trimmed.weights.head.out_features == VOCAB - 241
    assert trimmed.num_parameters == whole.num_parameters
    logits, expected = trimmed.logits(hidden), whole.logits(hidden)
    dropped = torch.zeros(VOCAB, dtype=torch.bool)
    dropped[[3, *range(50, 290)]] = True
    assert (logits[:, dropped] == -torch.inf).all()
    torch.testing.assert_close(logits[:, ~dropped], expected[:, ~dropped], atol=1e-5, rtol=1e-5)


def test_a_short_list_trims_nothing(tmp_path: Path) -> None:
    model = load(tmp_path, [1, 2, 7, 8, 9])
    assert model.weights.head.out_features == VOCAB
    assert model.logits(torch.zeros(1, 16)).isfinite().all()


def test_scattered_ids_trim_nothing(tmp_path: Path) -> None:
    assert load(tmp_path, list(range(0, 290, 2))).weights.head.out_features == VOCAB


@pytest.mark.parametrize("suppress", [range(100), range(200, 300), range(300)])
def test_one_stretch_of_ids(tmp_path: Path, suppress: range) -> None:
    hidden = torch.randn(2, 16, generator=torch.Generator().manual_seed(0))
    expected = load(tmp_path, [], trim_head=False).logits(hidden).clone()
    expected[:, list(suppress)] = -torch.inf
    logits = load(tmp_path, list(suppress)).logits(hidden)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


def test_an_older_config_says_what_is_left_out(tmp_path: Path) -> None:
    folder = build_random_whisper(
        tmp_path, layers=1, width=16, vocab=VOCAB, tokenizer=False,
        config={"eos_token_id": EOT, "suppress_tokens": list(range(100))},
    )  # fmt: skip
    assert not (folder / "generation_config.json").exists()
    assert WhisperModel.from_folder(folder).weights.head.out_features == VOCAB - 100


def test_ranges_of_unused_ids(tmp_path: Path) -> None:
    model = load(tmp_path, [5], unused=[[100, 250], [260, 380]])
    kept = model.logits(torch.zeros(1, 16)).isfinite()[0].nonzero()[:, 0].tolist()
    assert kept == [*range(5), *range(6, 100), *range(250, 260), *range(EOT, VOCAB)]


@pytest.mark.parametrize("unused", [[3], [[1, 2, 3]], [["a", 4]]])
def test_unused_ids_that_are_no_ranges(tmp_path: Path, unused: object) -> None:
    with pytest.raises(CheckpointError, match=r"unused_tokens: expected \[first, last\), got"):
        load(tmp_path, [], unused=unused)
