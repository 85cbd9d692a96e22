"""How torch is loaded in an engine's process."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

# What torch registers for tensors that hold nothing (its device "meta"), as compilers trace with:
# shapes of results, decompositions, references, all in Python.
TRACING = "torch._meta_registrations"


def load_torch() -> None:
    """Imports torch, and on a machine without a GPU nothing for tracing: no engine traces there,
    and it is a third of the time that the import takes, and 18 MB. Who imports it later has it."""
    if "torch" in sys.modules:
        return
    sys.modules[TRACING] = ModuleType(TRACING)
    try:
        torch = importlib.import_module("torch")
    finally:
        del sys.modules[TRACING]
    vars(torch).pop(TRACING.rpartition(".")[2], None)
    if torch.cuda.is_available():
        importlib.import_module(TRACING)
