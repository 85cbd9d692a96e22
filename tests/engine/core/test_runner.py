"""What fails in a step: one request, or the device."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from lookhear.engine.core.runner import Failure, isolated


@pytest.mark.parametrize("kind", [RuntimeError, MemoryError])
def test_only_those_that_fail_alone_have_failed(kind: type[Exception]) -> None:
    done: list[int] = []

    def work(group: Sequence[int]) -> None:
        if 2 in group:
            raise kind("out of memory")
        done.extend(group)

    assert isolated([], work) == []
    ((item, error),) = isolated([1, 2, 3], work)
    assert (item, str(error), done) == (2, "out of memory", [1, 3])


def test_a_failure_always_says_what_it_is() -> None:
    assert Failure.of("a", MemoryError(), "encoding").message == "encoding: MemoryError"


@pytest.mark.parametrize("is_lost", [False, True])
def test_an_error_of_the_device_is_raised_if_it_stays(
    is_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = torch.AcceleratorError("an illegal memory access was encountered")

    def synchronize() -> None:
        if is_lost:
            raise lost

    def work(group: Sequence[int]) -> None:
        raise torch.AcceleratorError("too many resources requested for launch")

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    if is_lost:
        with pytest.raises(torch.AcceleratorError, match="illegal"):
            isolated([1, 2], work)
    else:
        assert [item for item, _ in isolated([1, 2], work)] == [1, 2]


def test_kernels_that_cannot_be_compiled_are_one_requests_failure() -> None:
    errors = pytest.importorskip("triton.errors")

    def compiles(group: Sequence[int]) -> None:
        if 2 in group:
            raise errors.TritonError("out of resources: shared memory")

    assert [item for item, _ in isolated([1, 2, 3], compiles)] == [2]


@pytest.mark.parametrize("group", [[2], [1, 2, 3]], ids=["alone", "among others"])
def test_a_bug_that_shows_with_one_is_its_failure_and_logged(
    group: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    def is_wrong(part: Sequence[int]) -> None:
        if 2 in part:
            raise TypeError("expected a tensor, got None")

    assert [item for item, _ in isolated(group, is_wrong)] == [2]
    (record,) = caplog.records
    assert record.levelname == "ERROR" and record.exc_info and record.exc_info[0] is TypeError


def test_a_bug_that_shows_with_everybody_is_raised() -> None:
    def is_wrong(group: Sequence[int]) -> None:
        raise TypeError("expected a tensor, got None")

    with pytest.raises(TypeError):
        isolated([1, 2], is_wrong)
