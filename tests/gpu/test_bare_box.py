"""What a box with a card needs: torch, triton, transformers, numpy, pytest, and what they bring."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Ours, and what the project depends on besides.
ABSENT = (
    "av", "h11", "httpx", "hypothesis", "matplotlib", "msgpack",
    "onnxruntime", "openai", "PIL", "prometheus_client", "psutil", "pydantic", "pytest_asyncio",
    "rich", "soundfile", "soxr", "starlette", "uvicorn", "websockets",
)  # fmt: skip
CODE = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"{{name}} is absent here", name=name)

sys.meta_path.insert(0, Absent())
"""


def run(code: str) -> None:
    outcome = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE + code],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'clients'}{os.pathsep}{ROOT / 'tools' / 'demo'}",
            "OMP_NUM_THREADS": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stderr + outcome.stdout


def test_engines_are_built_and_the_programs_load_without_the_rest() -> None:
    run(
        """
from pathlib import Path
import benchmarks.gpu_check, benchmarks.gpu_bench
import benchmarks.gpu_profile
from lookhear.engine.families.build import build_core
from lookhear.engine.config import EngineConfig
import lookhear.kernels.tune
for name in ("demo-whisper", "demo-qwen3-asr", "demo-qwen3-vl"):
    build_core(EngineConfig(model=name, threads=1), lambda stage, share: None)
"""
    )


def test_the_devices_tests_can_be_collected() -> None:
    run(
        """
import pytest
arguments = ["-c", "tests/gpu/pytest.ini", "-p", "no:cacheprovider", "--collect-only", "-qq"]
sys.exit(pytest.main([*arguments, "tests/gpu"]))
"""
    )
