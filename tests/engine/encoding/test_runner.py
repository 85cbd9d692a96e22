"""A tower alone: its passes by captured graphs are its eager ones, and nothing is lent out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lookhear.engine.core.request import Phase
from lookhear.engine.encoding.qwen3_vl import Qwen3VLLanguage, Qwen3VLTower
from lookhear.engine.encoding.request import EncodingRequest
from lookhear.engine.encoding.runner import EncodingRunner
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.models.vision_graphs import VisionGraphs
from tests.engine.device.test_graphs import recorded
from tests.engine.recording import make_opaque
from tests.engine.runners import MODELS, quiet
from tests.engine.traces import picture
from tools.random_checkpoints.qwen3_vl import build_random_qwen3_vl

SIZES = [(3, 4), (5, 2), (2, 6), (1, 7), (40, 40)]  # the last one is in no graph


def rows_of(runner: EncodingRunner, requests: list[EncodingRequest]) -> list[np.ndarray]:
    work = [(runner.place(request), 1) for request in requests]
    assert runner.launch(work)() == []
    assert all(sequence.phase is Phase.DONE for sequence, _ in work)
    runner.check(0)
    return [sequence.result().rows for sequence, _ in work]


def test_graphs_batches_and_the_cache_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_random_qwen3_vl(tmp_path, seed=5)
    whole, tower = Qwen3VLModel.from_folder(tmp_path), Qwen3VLTower.from_folder(tmp_path)
    media = [picture(whole, i, *size)[1] for i, size in enumerate(SIZES)]
    expected = [rows.float().numpy() for rows in whole.encode(media)]
    make_opaque(monkeypatch, *MODELS)
    runner = EncodingRunner(tower, VisionGraphs(tower, recorded()), 1 << 20)
    runner.capture(quiet)
    requests = [EncodingRequest(str(i), medium) for i, medium in enumerate(media)]
    alone = [rows_of(runner, [request])[0] for request in requests[:2]]
    together = rows_of(runner, [*requests, requests[3]])
    again = rows_of(runner, requests)
    for found in (alone, together[:-1], again):
        for one, other in zip(found, expected, strict=False):
            assert np.abs(one - other).max() <= 1e-5
    assert np.array_equal(together[3], together[5])
    assert runner.stats()["media_tokens_encoded"] == sum(m.num_tokens for m in media)


def test_no_part_loads_what_is_not_its_own(tmp_path: Path) -> None:
    build_random_qwen3_vl(tmp_path, seed=5)
    whole = Qwen3VLModel.from_folder(tmp_path)
    tower, language = Qwen3VLTower.from_folder(tmp_path), Qwen3VLLanguage.from_folder(tmp_path)
    assert tower.num_parameters + language.num_parameters == whole.num_parameters
    assert not hasattr(language, "encoder") and not hasattr(tower, "decoder")
    assert tower.tower.keys() == whole.tower.keys()
