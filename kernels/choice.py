"""Which implementation of an operation runs: torch, or its Triton twin.

Triton runs what lies on a GPU. LOOKHEAR_TRITON says otherwise: `off` leaves everything to torch;
`always` gives it CPU tensors too, which works under Triton's interpreter alone (TRITON_INTERPRET=1)
and is a thousand times slower: for tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

MODES = ("auto", "off", "always")


@cache
def mode() -> str:
    """One of `MODES`: read once, for this is asked several hundred times per step. Raises
    ValueError if the variable holds anything else."""
    wanted = os.environ.get("LOOKHEAR_TRITON", "auto")
    if wanted not in MODES:
        raise ValueError(f"LOOKHEAR_TRITON: expected one of {', '.join(MODES)}, got {wanted!r}")
    # Without the package (it comes with torch where there is CUDA) torch does everything.
    return wanted if find_spec("triton") else "off"


def has_triton(operation: Callable[P, R]) -> Callable[P, R]:
    """Decorates a torch operation that has a Triton twin: the function of the same name in the
    file of the same name in `triton/`.

    The first argument, a tensor, decides. The torch version stays reachable as `__wrapped__`,
    the other as `twin()`.
    """
    package, _, file = operation.__module__.rpartition(".")

    @cache
    def twin() -> Callable[P, R]:  # imported when first needed: a CPU has no use for Triton
        module = import_module(f"{package}.triton.{file}")
        found: Callable[P, R] = getattr(module, operation.__name__)
        return found

    @wraps(operation)
    def chosen(*args: P.args, **kwargs: P.kwargs) -> R:
        first: Any = args[0]
        if (first.is_cuda and mode() != "off") or mode() == "always":
            return twin()(*args, **kwargs)
        return operation(*args, **kwargs)

    chosen.__dict__["twin"] = twin
    return chosen
