"""What an engine takes on where nobody says: by the device, and what was said stays."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.config import EngineConfig
from lookhear.engine.families import build, qwen3, qwen3_asr, qwen3_vl, whisper
from lookhear.engine.families.family import weight_bytes
from lookhear.engine.families.parts.capacity import GIB, CardMemory, card_memory, check_room, fitted
from tools.random_checkpoints.qwen3 import EXPERTS, build_random_qwen3
from tools.random_checkpoints.qwen3_vl import build_random_qwen3_vl

WHISPER, QWEN3 = whisper.FAMILY.card_rows, qwen3.FAMILY.card_rows
QWEN3_ASR, QWEN3_VL = qwen3_asr.FAMILY.card_rows, qwen3_vl.FAMILY.card_rows
GIVEN = EngineConfig(
    max_rows=3, max_live_turns=5, token_budget=40, kv_cache_gigabytes=0.5, overlap=0
)


def test_a_cpu_gets_what_a_few_cores_can_do() -> None:
    config = fitted(EngineConfig(), card_memory("cpu"), WHISPER)
    assert (config.max_rows, config.max_live_turns, config.token_budget) == (16, 64, 512)
    assert (config.kv_cache_gigabytes, config.overlap) == (1.0, 0)


@pytest.mark.parametrize(
    ("total", "card_rows", "rows"),
    [(80, WHISPER, 64), (40, WHISPER, 64), (24, WHISPER, 32), (80, QWEN3_ASR, 192)],
)
def test_a_card_gets_more_the_larger_it_is(total: int, card_rows: int, rows: int) -> None:
    config = fitted(EngineConfig(), CardMemory(free=20 * GIB, total=total * GIB), card_rows)
    assert (config.max_rows, config.max_live_turns, config.overlap) == (rows, 1024, 1)
    assert config.kv_cache_gigabytes == pytest.approx(8.0)


def test_a_card_that_is_nearly_full_keeps_a_cache_that_the_configuration_allows() -> None:
    config = fitted(EngineConfig(), CardMemory(free=0, total=80 * GIB), QWEN3)
    EngineConfig(kv_cache_gigabytes=config.kv_cache_gigabytes)


def test_weights_of_many_experts_leave_less_for_a_cache(tmp_path: Path) -> None:
    card = CardMemory(free=78 * GIB, total=80 * GIB)
    few, many, most = (
        fitted(EngineConfig(), card, QWEN3, gigabytes * GIB).kv_cache_gigabytes
        for gigabytes in (7, 57, 78)
    )
    assert few == pytest.approx(0.4 * 78) and 10 < many < 78 - 57 and most == 0.25
    check_room(tmp_path, 57 * GIB, card)
    check_room(tmp_path, 57 * GIB, None)
    with pytest.raises(CheckpointError, match=r"take 79.0 GiB, 78.0 GiB are free on the card"):
        check_room(tmp_path, 79 * GIB, card)


def test_a_draft_models_weights_are_counted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_random_qwen3(tmp_path)
    alone = weight_bytes(tmp_path, "float32", "cuda")
    card = CardMemory(free=2 * alone - 1, total=80 * GIB)
    monkeypatch.setattr(build, "card_memory", lambda device: card)
    config = EngineConfig(model=str(tmp_path), draft=str(tmp_path), dtype="float32", device="cpu")
    with pytest.raises(CheckpointError, match="its weights take"):
        build.build_core(config, lambda stage, share: None)


def test_an_encoder_apart_counts_no_draft_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loads none."""
    build_random_qwen3_vl(folder := tmp_path / "seeing")
    build_random_qwen3(small := tmp_path / "small")
    alone = weight_bytes(folder, "float32", "cuda", qwen3_vl.FAMILY.apart["encoder"])
    card = CardMemory(free=alone, total=80 * GIB)
    monkeypatch.setattr(build, "card_memory", lambda device: card)
    config = EngineConfig(
        model=str(folder), draft=str(small), role="encoder", dtype="float32", device="cpu"
    )
    assert build.build_core(config, lambda stage, share: None)


def test_an_aligners_weights_are_counted_too(
    served_asr: Path, served_aligner: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = sum(weight_bytes(folder, "float32", "cuda") for folder in (served_asr, served_aligner))
    card = CardMemory(free=both - 1, total=80 * GIB)
    monkeypatch.setattr(build, "card_memory", lambda device: card)
    config = EngineConfig(
        model=str(served_asr), aligner=str(served_aligner), dtype="float32", device="cpu"
    )
    with pytest.raises(CheckpointError, match="its weights take"):
        build.build_core(config, lambda stage, share: None)


def test_weights_are_counted_as_they_are_served(tmp_path: Path) -> None:
    """Not as they are stored, and whatever lies beside them."""
    theirs = build_random_qwen3(tmp_path, **EXPERTS)
    (tmp_path / "consolidated.safetensors").write_bytes(b"another form of the same")
    numbers = sum(parameter.numel() for parameter in theirs.parameters())
    assert weight_bytes(tmp_path, "auto", "cuda") == 2 * numbers
    assert weight_bytes(tmp_path, "float32", "cuda") == 4 * numbers


@pytest.mark.parametrize("card", [None, CardMemory(70 * GIB, 80 * GIB)])
def test_what_was_given_stays(card: CardMemory | None) -> None:
    assert fitted(GIVEN, card, QWEN3_VL) == GIVEN


@pytest.mark.parametrize("card", [None, CardMemory(70 * GIB, 80 * GIB)])
def test_every_row_gets_a_token_in_every_step(card: CardMemory | None) -> None:
    assert fitted(EngineConfig(max_rows=4000), card, QWEN3).token_budget == 4001
    assert fitted(EngineConfig(max_rows=50, token_budget=16), card, QWEN3).token_budget == 51


def test_the_memory_asked_for_is_the_devices_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def found(device: str) -> tuple[int, int]:
        asked.append(device)
        return 1, 2

    monkeypatch.setattr(torch.cuda, "mem_get_info", found)
    assert card_memory("cuda:1") == CardMemory(1, 2) and asked == ["cuda:1"]


@settings(max_examples=100)
@given(
    replicas=st.integers(2, 8), total=st.sampled_from([40, 80, 141]), others=st.floats(0.0, 0.5),
    needs=st.floats(0.5, 12.0), together=st.booleans(), data=st.data(),
)  # fmt: skip
def test_engines_on_one_card_share_it(
    replicas: int, total: int, others: float, needs: float, together: bool, data: st.DataObject
) -> None:
    """The first loads alone, the others then at once or one after another, and one that died loads
    again beside all others. needs: GiB of weights, graphs and room to compute, of each. others:
    what another program has of the card."""
    size = total * (1.0 - others)
    needs = min(needs, 0.55 * size / replicas)  # more could not run, whatever the caches are
    config = EngineConfig(replicas=replicas)

    def cache(taken: float) -> float:
        free = CardMemory(free=int((size - taken) * GIB), total=total * GIB)
        return fitted(config, free, QWEN3_ASR).kv_cache_gigabytes

    held = [cache(0.0)]
    for _ in range(1, replicas):
        held.append(cache(needs + held[0] if together else sum(held) + needs * len(held)))
    died = data.draw(st.integers(0, replicas - 1))
    held[died] = cache(sum(held) - held[died] + needs * (replicas - 1))
    assert sum(held) + needs * replicas <= size
    assert min(held) >= 0.25


def test_engines_on_one_card_have_about_as_much_each() -> None:
    """Four of 1.7 billion parameters in bfloat16 on 80 GB, the others at once behind the first."""

    def cache(taken: float) -> float:
        card = CardMemory(free=int((78.0 - taken) * GIB), total=80 * GIB)
        return fitted(EngineConfig(replicas=4), card, QWEN3_ASR).kv_cache_gigabytes

    first = cache(0.0)
    other = cache(first + 7.5)
    assert first == pytest.approx(7.8) and other > 0.75 * first


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("replicas", [2, 3, 4])
def test_engines_that_fit_on_a_card_by_their_weights_are_all_taken(
    replicas: int, together: bool, tmp_path: Path
) -> None:
    """The first loads alone, the others then at once or one after another."""
    size = 139.0
    weights = 0.85 * size / replicas
    taken, held = 0.0, []
    for _ in range(replicas):
        card = CardMemory(free=int((size - taken) * GIB), total=140 * GIB)
        check_room(tmp_path, int(weights * GIB), card)
        config = fitted(EngineConfig(replicas=replicas), card, QWEN3, int(weights * GIB))
        held.append(config.kv_cache_gigabytes)
        taken = weights + held[0] if together else taken + weights + held[-1]
    assert replicas * weights + sum(held) <= size
    assert min(held) > 1.0
