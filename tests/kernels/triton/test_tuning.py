"""What `lookhear tune` takes, by clocks that are made up; what it says where there is no card."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import triton
from torch import Tensor

from lookhear.kernels import tune as command
from lookhear.kernels.triton import tuning
from lookhear.kernels.triton.configs import DEFAULTS, Tile, parsed, tile

DEFAULT = DEFAULTS["vocabulary"][0][1]
CPU = torch.device("cpu")


def case(answer: Callable[[], Tensor]) -> tuning.Case:
    tiles = (Tile(1024, 4), Tile(2048, 4), Tile(8192, 16))
    return tuning.Case("vocabulary", math.inf, tiles, lambda device: [answer])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """Milliseconds by the size of the tile that is tried."""
    times = {1024: 0.9, 2048: 0.7, 4096: 1.0, 8192: 0.2}

    def do_bench(call: Callable[[], Tensor], warmup: int, rep: int) -> float:
        return times[tile("vocabulary", 1).size]

    monkeypatch.setattr(triton.testing, "do_bench", do_bench)
    return times


def test_the_fastest_that_gives_the_same_numbers_is_taken(clock: dict[int, float]) -> None:
    def answer() -> Tensor:
        if tile("vocabulary", 1).warps == 16:
            return torch.tensor([2.0])
        return torch.tensor([1.0])

    best, times = tuning.measure(case(answer), CPU, 1e9)
    assert best == Tile(2048, 4)
    assert times["2048/4/1"] == {"0": 0.7} and "8192/16/1" not in times


def test_a_gain_within_the_noise_is_none(clock: dict[int, float]) -> None:
    clock.update({1024: 0.99, 2048: 0.98, 8192: 0.975})
    assert tuning.measure(case(lambda: torch.ones(1)), CPU, 1e9)[0] == DEFAULT


def test_what_a_card_refuses_is_left_out(clock: dict[int, float]) -> None:
    def answer() -> Tensor:
        if tile("vocabulary", 1).size != DEFAULT.size:
            raise triton.runtime.errors.OutOfResources(300_000, 230_000, "shared memory")
        return torch.ones(1)

    assert tuning.measure(case(answer), CPU, 1e9)[0] == DEFAULT


def test_the_default_at_least_is_measured_when_there_is_no_time(clock: dict[int, float]) -> None:
    best, times = tuning.measure(case(lambda: torch.ones(1)), CPU, -1.0)
    assert best == DEFAULT and len(times) == 1


def test_the_table_that_is_written_can_be_read(
    clock: dict[int, float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A card")
    monkeypatch.setattr(torch, "device", lambda name: CPU)
    some = case(lambda: torch.ones(1))
    norm = tuning.Case("norm", 128.0, (), lambda device: [lambda: torch.ones(1)])
    monkeypatch.setattr(tuning, "cases", lambda: iter([some, norm]))
    path = tuning.tune(tmp_path / "tables" / "card.json", seconds=1e9)
    document = json.loads(path.read_text())
    assert document["device"] == "A card" and document["triton"] == triton.__version__
    table = parsed(document)
    assert table["vocabulary"] == ((math.inf, Tile(8192, 16)),)
    assert table["norm"] == ((128.0, Tile(8, 4)), DEFAULTS["norm"][-1])


def test_every_kernel_of_the_table_is_measured_at_its_own_sizes() -> None:
    for found in tuning.cases():
        assert found.limit in [limit for limit, _ in DEFAULTS[found.kernel]]
        assert found.default in [one for _, one in DEFAULTS[found.kernel]]
    assert {found.kernel for found in tuning.cases()} == set(DEFAULTS)


def test_an_unknown_kernel_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="kernel.*'norms'"):
        tuning.tune(None, ["norms"])


def test_without_a_card_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 1
    assert capsys.readouterr().err == ("lookhear tune: expected a CUDA device, torch sees none\n")
