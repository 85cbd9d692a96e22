"""The imagined card notices each of the faults it is there for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lookhear import kernels
from lookhear.engine.device.staging import CudaMemory, PinnedStaging, Readback, to_device
from tests.engine.imagined.card import CUDA, Card, Event, Fault, Phase
from tests.engine.imagined.launches import Launches, imagine, present
from tests.engine.imagined.regions import ImaginedBackend


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Card, Launches]]:
    card, launches = imagine(monkeypatch)
    with torch.inference_mode(), present(card):
        yield card, launches


@pytest.fixture
def card(both: tuple[Card, Launches]) -> Card:
    return both[0]


def numbers(*shape: int) -> Tensor:
    return torch.ones(shape, device="cuda")


def places(*values: int) -> Tensor:
    return torch.arange(max(values) + 1, device="cuda")[: len(values)]


WAITS: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: x[0, 0].item(),
    "int": lambda x: int(x.max()),
    "float": lambda x: float(x.sum()),
    "bool": lambda x: bool(x[0, 0]),
    "if": lambda x: 1 if x.any() else 2,
    "tolist": lambda x: x.tolist(),
    "nonzero": lambda x: (x > 0).nonzero(),
    "where": lambda x: torch.where(x > 0),
    "mask": lambda x: x[x > 0],
    "mask of rows": lambda x: x[x[:, 0] > 0],
    "put by a mask": lambda x: x.index_put_((x > 0,), x.flatten() + 1),
    "masked_select": lambda x: x.masked_select(x > 0),
    "unique": lambda x: torch.ops.aten._unique2(x),
    "equal": lambda x: torch.equal(x, x + 1),
    "index by a list": lambda x: x[[1, 2]],
    "index of the host": lambda x: x[torch.tensor([1, 2])],
    "index by a number": lambda x: x[x.argmax() - x.argmax()],
    "slice by a number": lambda x: x[: x.argmax()],
    "cpu": lambda x: x.cpu(),
    "to the host": lambda x: x.to("cpu", non_blocking=True),
    "copy to the host": lambda x: torch.zeros(4, 8).copy_(x, non_blocking=True),
    "tensor": lambda x: torch.tensor([1, 2], device=x.device),
    "as_tensor": lambda x: torch.as_tensor([1, 2], device=x.device),
    "new_tensor": lambda x: x.new_tensor([1.0]),
    "to the device": lambda x: torch.ones(4).to(x.device),
    "to the device, not pinned": lambda x: torch.ones(4).to(x.device, non_blocking=True),
    "to the device, waiting": lambda x: torch.ones(4).pin_memory().to(x.device),
    "to another's device": lambda x: torch.ones(4).to(x),
    "cuda": lambda x: torch.ones(4).cuda(),
    "copied into": lambda x: x.copy_(torch.ones(4, 8)),
    "assigned": lambda x: x.__setitem__(slice(0, 2), torch.ones(2, 8)),
    "assigned a tensor": lambda x: x.__setitem__(0, torch.tensor(1.0)),
}


@pytest.mark.parametrize("name", WAITS)
def test_it_notices_a_wait(card: Card, name: str) -> None:
    x = numbers(4, 8)
    WAITS[name](x)  # while setting up everything is allowed
    with card.during(Phase.SERVING), pytest.raises(Fault, match="waits for the device"):
        WAITS[name](x)


FINE: dict[str, Callable[[Tensor], Any]] = {
    "arithmetic": lambda x: (x + 1) * 2.0 / x.sum(),
    "places": lambda x: x[places(0, 1, 2)],
    "assigned a number": lambda x: x.__setitem__(slice(0, 2), 1.0),
    "assigned": lambda x: x.__setitem__(slice(0, 2), x[2:]),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "masked_fill": lambda x: x.masked_fill_(x > 0, 1.0),
    "made there": lambda x: torch.arange(4, device=x.device) + torch.full((4,), 2, device=CUDA),
    "another dtype": lambda x: x.to(torch.bfloat16).double(),
    "as it is": lambda x: x.to(CUDA).to("cuda"),
}


@pytest.mark.parametrize("name", FINE)
def test_it_lets_pass_what_is_captured_every_day(card: Card, name: str) -> None:
    x = numbers(4, 8)
    with card.during(Phase.CAPTURING):
        out = FINE[name](x)
    assert x.device == CUDA and (out is None or out.is_cuda)


def test_tensors_of_the_host_are_no_operands(card: Card) -> None:
    x = numbers(4)
    mixtures: list[Callable[[], Tensor]] = [
        lambda: x + torch.ones(4),
        lambda: torch.cat([x, torch.ones(4)]),
        lambda: torch.where(x > 0, x, torch.ones(4)),
    ]
    for mixed in mixtures:
        with pytest.raises(Fault, match="of the host"):
            mixed()
    assert (x + torch.tensor(1.0)).is_cuda, "a number may be"
    assert torch.ones(4).device.type == "cpu"


def test_pinned_copies_wait_for_nobody(card: Card) -> None:
    with card.during(Phase.SERVING):
        sent = to_device([3, 4], torch.int64, CUDA)
        back = Readback(sent.double())
        with pytest.raises(Fault, match="before the copy from the device has arrived"):
            back._values.tolist()
        assert back.read() == [3.0, 4.0]
    assert (card.num["sent"], card.num["fetched"], card.num["pinned"]) == (1, 1, 2)


def test_a_buffer_that_is_changed_too_early_is_noticed(card: Card) -> None:
    buffer = torch.zeros(4, pin_memory=True)
    with card.during(Phase.SERVING):
        buffer.to("cuda", non_blocking=True)
        copied = Event(card, 0)
        copied.record()
        buffer.fill_(1.0)
        with pytest.raises(Fault, match="written to while it was copied"):
            copied.synchronize()


def test_staging_changes_no_buffer_too_early_and_waits_for_no_step_on_its_way(card: Card) -> None:
    staging = PinnedStaging(CudaMemory(CUDA), 64)
    with card.during(Phase.SERVING):
        for step in range(40):
            with card.launching():
                for _ in range(7):
                    assert staging.put({"x": np.full(3, step)})["x"].is_cuda
            Readback(numbers(1)).read()
        with card.launching(), pytest.raises(Fault, match="still on its way"):
            for _ in range(40):
                staging.put({"x": np.zeros(3, np.int64)})


# --- launches ------------------------------------------------------------------------------------


def test_a_launch_reads_only_memory_of_the_device(both: tuple[Card, Launches]) -> None:
    x = numbers(4, 32)
    assert kernels.layer_norm(x, numbers(32), numbers(32)).is_cuda
    assert both[1].num == 1
    with pytest.raises(Fault, match="weight_ptr: expected a tensor of the device"):
        kernels.layer_norm(x, torch.ones(32), numbers(32))


def test_a_launch_is_told_all_strides(card: Card) -> None:
    scores, amounts = numbers(4, 32), numbers(8)
    at = torch.arange(8, device="cuda")
    kernels.sampling_stages.add_(scores, at, amounts)
    with pytest.raises(Fault, match="places_ptr: strides"):
        kernels.sampling_stages.add_(scores, torch.arange(16, device="cuda")[::2], amounts)


Constexpr = int  # what it is called matters


class Kernel:
    """As Triton has it."""

    kwargs = {"do_not_specialize": ["free"]}

    @staticmethod
    def fn(x_ptr: Any, count: int, free: int, SIZE: Constexpr) -> None: ...


@pytest.mark.parametrize(
    ("grid", "arguments", "what"),
    [
        ((0,), {}, "grid"),
        ((1, 65_536), {}, "grid"),
        ((1, 1, 70_000), {}, "grid"),
        ((1.0,), {}, "grid"),
        ((1,), {"x_ptr": None}, "x_ptr: expected a tensor"),
        ((1,), {"count": None}, "count: expected a number"),
        ((1,), {"count": 2**64}, "64 bits"),
        ((1,), {"SIZE": None}, "SIZE: expected a constant"),
    ],
)
def test_grids_and_arguments_are_checked(
    both: tuple[Card, Launches], grid: Any, arguments: dict[str, Any], what: str
) -> None:
    good = {"x_ptr": numbers(4), "count": 3, "free": 4, "SIZE": 16, "num_warps": 4}
    both[1].check(Kernel, (2**20, 65_535, 1), (), dict(good))
    with pytest.raises(Fault, match=what):
        both[1].check(Kernel, grid, (), {**good, **arguments})


def test_what_triton_compiles_anew_is_known(both: tuple[Card, Launches]) -> None:
    card, launches = both
    x = numbers(64)

    def launch(tensor: Tensor, count: int, free: int) -> int:
        launches.check(Kernel, (1,), (tensor, count, free, 16), {})
        return len(launches.variants)

    assert [launch(x, 3, n) for n in (1, 3, 16)] == [1, 1, 1], "it was told not to care"
    assert [launch(x, n, 3) for n in (5, 1, 16, 32)] == [1, 2, 3, 3]
    assert launch(x[4:], 3, 3) == 3, "16 bytes on"
    assert launch(x[1:], 3, 3) == 4, "an address of another kind"
    with card.during(Phase.SERVING):
        launch(x[4:], 5, 3)
        launch(x[1:], 1, 3)
    assert len(launches.late) == 1
    with card.during(Phase.CAPTURING), pytest.raises(Fault, match="not in its warm-up"):
        launch(x[1:], 16, 3)


# --- regions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "region",
    [
        lambda x: x * float(x.sum()),
        lambda x: x + torch.tensor([1.0], device=x.device),
        lambda x: x + to_device([1.0], torch.float32, x.device),
        lambda x: Readback(x),
        lambda x: torch.zeros(4, pin_memory=True),
    ],
)
def test_nothing_of_the_host_is_captured(card: Card, region: Callable[[Tensor], Any]) -> None:
    x = numbers(4)
    with pytest.raises(Fault):
        ImaginedBackend(card).capture(lambda: region(x))


def test_a_replay_reads_what_lies_there_and_answers_where_it_did(card: Card) -> None:
    x = numbers(4)
    graph = ImaginedBackend(card).capture(lambda: x * 2)
    held = graph.output
    assert held.isnan().all(), "before a replay there is no answer"
    x.fill_(3.0)
    graph.replay()
    assert graph.output is held and held.tolist() == [6.0] * 4
