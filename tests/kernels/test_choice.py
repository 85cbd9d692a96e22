"""Who runs an operation, and that both know it by the same name and arguments."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest
import torch

from lookhear import kernels
from lookhear.kernels import choice
from lookhear.kernels.choice import has_triton, mode


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    mode.cache_clear()
    yield
    mode.cache_clear()


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> str:
    return "torch"


layer_norm.__module__ = kernels.norms.__name__
layer_norm = has_triton(layer_norm)


@pytest.mark.parametrize(("wanted", "is_ours"), [(None, False), ("off", False), ("always", True)])
def test_a_cpu_tensor_goes_to_triton_only_if_asked(
    wanted: str | None, is_ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOOKHEAR_TRITON", raising=False)
    if wanted is not None:
        monkeypatch.setenv("LOOKHEAR_TRITON", wanted)
    x = torch.ones(1, 4)
    assert isinstance(layer_norm(x, x[0], x[0]), torch.Tensor) == is_ours


def test_without_the_package_torch_does_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKHEAR_TRITON", "always")
    monkeypatch.setattr(choice, "find_spec", lambda name: None)
    assert mode() == "off"


def test_an_unknown_wish_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKHEAR_TRITON", "yes")
    with pytest.raises(ValueError, match="LOOKHEAR_TRITON.*'yes'"):
        mode()


def test_twins_have_the_same_arguments() -> None:
    checked = set()
    for found in pkgutil.iter_modules(kernels.__path__, "lookhear.kernels."):
        for name, operation in vars(importlib.import_module(found.name)).items():
            if hasattr(operation, "twin"):
                ours = inspect.signature(operation.twin())
                assert ours == inspect.signature(operation.__wrapped__), name
                checked.add(name)
    assert {"rms_norm", "paged_attention", "windowed_attention", "draw", "temper"} <= checked
    assert len(checked) >= 20
