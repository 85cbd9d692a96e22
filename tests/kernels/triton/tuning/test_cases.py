"""What is measured: every size of the table, steps that are what they are called, and kernels that
are compiled without a card as one compiles them."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from triton.backends.compiler import GPUTarget

from lookhear.kernels.triton.configs import DEFAULTS, Tile, trying
from lookhear.kernels.triton.tuning.cases import cases
from lookhear.kernels.triton.tuning.compilation import compile_all
from lookhear.kernels.triton.tuning.steps import Decoder, decode_steps

ROOT = Path(__file__).parents[4]
CPU = torch.device("cpu")
HOPPER = GPUTarget("cuda", 90, 32)
QWEN = Decoder("a Qwen3", 16, 16, 2, 2, 1, 16, 60)
IN_FP8 = replace(QWEN, name="a Qwen3 in float8", fp8=True)
WHISPER = Decoder("a Whisper", 16, 16, 2, 1, 1, 16, 60)


def test_every_kernel_of_the_table_is_measured_at_its_own_sizes() -> None:
    found = {(case.kernel, case.limit) for case in cases()}
    assert len(found) == len(list(cases()))
    for kernel, rows in DEFAULTS.items():
        beyond = {limit for limit, _ in rows} - {limit for name, limit in found if name == kernel}
        # Larger heads, and more rows than a kernel of ours is for, have nothing to be tried.
        assert beyond <= {float("inf")}, kernel
    for case in cases():
        assert case.limit in [limit for limit, _ in DEFAULTS[case.kernel]]
        assert case.default in [one for _, one in DEFAULTS[case.kernel]] and case.tiles


@pytest.mark.parametrize("decoder", [QWEN, IN_FP8, WHISPER], ids=lambda decoder: decoder.name)
@pytest.mark.parametrize("rows", [1, 2])
def test_a_step_gives_the_same_numbers_however_it_is_cut_up(decoder: Decoder, rows: int) -> None:
    """And twice: a graph is replayed on what it left."""
    torch.manual_seed(0)
    (step,) = decode_steps([(decoder, rows, 21)])(CPU).values()
    name = "few rows 8 bits" if decoder.fp8 else "few rows"
    few = name, f"{name}, norm", f"{name}, gated"
    with ExitStack() as library:
        for kernel in few:  # in float8 the library's is of rounded inputs: another tile instead
            library.enter_context(trying(kernel, Tile(16, 8, 1) if decoder.fp8 else Tile(1, 1)))
        expected = step().float()
    assert expected.shape[-1] == 60 and expected.isfinite().all() and expected.std() > 0.05
    again = few[0], Tile(8, 4, 2)
    tiles = [(kernel, Tile(8, 4, 2)) for kernel in few] + [("decode attention", Tile(16, 2, 1))]
    for kernel, tile in (again, *tiles):
        with trying(kernel, tile):
            torch.testing.assert_close(step().float(), expected, atol=0.05, rtol=0.02)


def test_processes_compile_and_say_what_the_compiler_refuses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    good, bad = ("elementwise all", Tile(1024, 4)), ("elementwise all", Tile(1000, 4))
    done = compile_all([good, bad], HOPPER, is_early=True, seconds=120, workers=1)
    assert done[good] == "" and "power of 2" in done[bad]
    assert list(tmp_path.rglob("*.cubin"))


def test_what_no_time_is_left_for_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [(case.name, case.default) for case in cases()]
    assert compile_all(jobs, HOPPER, is_early=True, seconds=0.0, workers=1) == {}


# Compiled for tensors that hold nothing, then for true ones. Views, strides and numbers decide how
# a kernel is specialised; a card would look for another in the cache.
CODE = """
import torch
from triton.backends.compiler import GPUTarget
from lookhear.kernels.triton.configs import trying
from lookhear.kernels.triton.tuning import calls, steps
from lookhear.kernels.triton.tuning.compilation import META, only_compile
found = []
only_compile(GPUTarget("cuda", 90, 32), True, lambda _, kernel: found.append(kernel.hash))
small = [
    steps.Decoder("a", 256, 512, 1, 4, 2, 64, 400), steps.Decoder("b", 128, 512, 1, 2, 2, 64, 400),
]
sets = [
    steps.decode_steps([(one, 2, 21) for one in small]),
    calls.decode_calls(64), calls.prefill_calls(64),
]
for made in sets:
    kinds = []
    for device in (META, torch.device("cpu")):
        found.clear()
        for call in made(device).values():
            call()
        kinds.append(list(found))
    # One that torch carries out for tensors of neither kind stays away from both.
    assert kinds[0] == kinds[1] and len(kinds[0]) >= 4, kinds
"""


def test_a_kernel_compiled_without_a_tensor_is_the_one_that_a_tensor_asks_for() -> None:
    outcome = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE],
        env={**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": str(ROOT / "clients")},
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stderr
