"""`lookhear env`: what an issue should say of the machine and the installation, ready to paste."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import lookhear
from lookhear.commands import machine

LOCAL = "lookhear.local"  # the entry-point group of what the server part knows of this machine
PACKAGES = (
    "torch", "triton", "transformers", "tokenizers", "safetensors", "huggingface-hub", "numpy",
    "av", "soundfile", "soxr", "starlette", "uvicorn", "uvloop", "websockets",
    "pydantic", "llguidance", "lookhear-demo", "sounddevice",
)  # fmt: skip
# Of other people's variables, those that change what we do.
VARIABLES = re.compile(
    r"LOOKHEAR_\w+|HF_\w+|TRITON_\w+|CUDA_VISIBLE_DEVICES|(OMP|MKL)_NUM_THREADS|XDG_CACHE_HOME"
    r"|PYTORCH_\w+"
)
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")


def run() -> int:
    """Prints the report. Exit status 0."""
    print("\n".join(report(os.environ)))
    return 0


def report(environ: Mapping[str, str]) -> Iterator[str]:
    """Its lines, NAME: VALUE; no key is in them, nor whose home folder it is."""
    home = str(Path.home())
    for name, value in (*_machine(), *_packages(), *_models(), *_variables(environ)):
        # Of "/" nothing is to be hidden.
        shown = value.replace(home, "~") if len(home) > 1 else value
        yield f"{name}: {shown}"


def _machine() -> Iterator[tuple[str, str]]:
    yield "lookhear", lookhear.__version__
    yield "python", f"{platform.python_version()} ({platform.python_implementation()})"
    yield "system", platform.platform()
    sets = " ".join(machine.instructions()) or "none that are known here"
    yield "processor", f"{machine.cpu()}, {machine.cores()} cores; {sets}"
    size = machine.memory()
    yield "memory", "unknown" if size is None else f"{size / 2**30:.1f} GiB"
    gpus = machine.gpus()
    yield "gpu", "; ".join(gpus) or "none that nvidia-smi tells of"


def _packages() -> Iterator[tuple[str, str]]:
    for name in PACKAGES:
        yield name, machine.version(name) or "not installed"


def _models() -> Iterator[tuple[str, str]]:
    """Those that can be served here, if the server part is installed."""
    try:
        (local,) = metadata.entry_points(group=LOCAL, name="models")
        rows, _ = cast(Callable[[], tuple[list[Any], str]], local.load())()
    except (ModuleNotFoundError, ValueError):
        yield "models", 'unknown without pip install "lookhear[server]"'
        return
    yield "models", ", ".join(f"{row.name} ({row.where})" for row in rows) or "none"


def _variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in sorted(environ):
        if VARIABLES.fullmatch(name):
            value = "set, not shown" if SECRET.search(name) else environ[name]
            yield name, _USER_IN_URL.sub("***@", value)
