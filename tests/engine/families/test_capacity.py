"""What an engine takes on where nobody says: by the device, and what was said stays."""

from __future__ import annotations

import pytest
import torch

from lookhear.engine.config import EngineConfig
from lookhear.engine.families import qwen3, qwen3_asr, qwen3_vl, whisper
from lookhear.engine.families.capacity import GIB, CardMemory, card_memory, fitted

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
