"""Torch in an engine's process: loaded without what only compilers trace with."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

LOADED = """
import sys
from lookhear.engine.device.loading import TRACING, load_torch
load_torch()
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", LOADED + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(torch.cuda.is_available(), reason="where there is a GPU, all of it is loaded")
def test_no_family_brings_what_is_for_tracing() -> None:
    said = run(
        """
from lookhear.engine.families.registry import families
import lookhear.engine.admission.rehearsal, lookhear.engine.families.build
print(len(families()) > 10, TRACING in sys.modules, "torch._decomp" in sys.modules)
"""
    )
    assert said == "True False False"


def test_who_wants_to_trace_can_import_it_later() -> None:
    """Of an operation that the C++ part knows no shapes of."""
    said = run(
        """
import importlib, torch
importlib.import_module(TRACING)
import torch._meta_registrations as found
empty = torch.empty(2, 3, 4, device="meta")
print(hasattr(found, "activate_meta"), [*torch.linalg.svdvals(empty).shape])
"""
    )
    assert said == "True [2, 3]"


def test_where_torch_is_loaded_it_stays_as_it_is() -> None:
    code = "import torch\nfrom lookhear.engine.device.loading import TRACING, load_torch\n"
    code += "load_torch()\nimport sys\nprint(hasattr(sys.modules[TRACING], 'activate_meta'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
