"""Where a GPU's time goes, by kernel: what explains a number of `gpu_bench` that is too low.

    python -m benchmarks.gpu_profile                        (a minute or two a model)
    python -m benchmarks.gpu_profile --model qwen3-asr-0.6b --sessions 400

The engine, the random weights and the sections are those of `gpu_bench`; each runs under torch's
profiler instead of a clock: an encoder's batch of 8, decoding of one row, live sessions. A program
of its own, for a profiler slows down what it sees. busy: the share of the time in which the device
computed (kernels side by side count twice); where it is low, the host is what is waited for.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks import gpu_bench
from benchmarks.gpu import load as gpu_load
from benchmarks.gpu import program
from benchmarks.gpu.load import Client
from benchmarks.gpu.models import Geometry
from benchmarks.gpu.peers import synchronize
from benchmarks.gpu_bench import Bench

MODELS = ("whisper-large-v3-turbo", "qwen3-asr-0.6b")
SECTIONS = ("encoder", "graphs + overlap: decode 1", "sessions")
KERNELS = 25  # of each section
BATCH = 8
SECONDS = 3.0


class Profiler(Bench):
    """`Bench` whose sections give profiles. sessions: how many live ones."""

    def __init__(self, options: argparse.Namespace, argv: Sequence[str]) -> None:
        super().__init__(options, argv)
        self._num_sessions: int = options.sessions

    def mode(self, geometry: Geometry, folder: Path, config: Any, mode: str, *rest: Any) -> None:
        """Graphs alone: their kernels are those of every mode."""
        if mode != "graphs":  # its kernels are those of the one with overlap
            super().mode(geometry, folder, config, mode, *rest)

    def encoder(self, geometry: Geometry, core: Any) -> dict[str, Any]:
        """The kernels of one encoder pass."""
        call = self.encoding(geometry, core._runner._model, 1 if self.is_tiny else BATCH)
        call()  # compiles
        return profiled(call, self.device)

    def encoding(self, geometry: Geometry, model: Any, batch: int) -> Callable[[], object]:
        """A pass over whole windows."""
        if geometry.family == "whisper":
            mel = torch.zeros(batch, model.dims.num_mels, model.dims.max_frames, dtype=model.dtype)
            return partial(gpu_bench._encoded, model, mel.to(self.device))
        if geometry.family == "qwen3-asr":
            dims, dtype = model.encoder.dims, model.encoder.dtype
            window = torch.zeros(dims.num_mels, dims.window_frames, dtype=dtype)
            return partial(model.encoder.encode_windows, [window.to(self.device)] * batch)
        side = model.encoder.dims.factor * (2 if self.is_tiny else 16)
        picture = torch.zeros(1, 3, side, side, dtype=model.encoder.dtype)
        return partial(model.encoder.encode, [picture.to(self.device)] * batch)

    def decode(
        self, geometry: Geometry, config: dict[str, Any], core: Any, batch: int
    ) -> dict[str, Any]:
        """The kernels of decoding."""
        return profiled(partial(super().decode, geometry, config, core, batch), self.device)

    def sessions(self, core: Any, make: Callable[[int], list[Client]]) -> dict[str, Any]:
        """The kernels of live sessions."""
        clients = make(1 if self.is_tiny else self._num_sessions)
        load = partial(gpu_load.tick_latencies, core, clients, seconds=SECONDS)
        return profiled(load, self.device)


def profiled(call: Callable[[], object], device: str) -> dict[str, Any]:
    """Milliseconds by the clock, busy milliseconds of the device, and of the kernels that take
    most of them [name, launches, milliseconds]. On a CPU operators stand for kernels."""
    is_cpu = device == "cpu"
    activity = ProfilerActivity.CPU if is_cpu else ProfilerActivity.CUDA
    synchronize(device)
    with profile(activities=[activity]) as recorded:
        began = time.perf_counter()
        call()
        synchronize(device)
        wall = (time.perf_counter() - began) * 1e3
    found = []
    for event in recorded.key_averages():
        took = event.self_cpu_time_total if is_cpu else event.self_device_time_total
        if took > 0:
            found.append([event.key, event.count, round(took / 1e3, 3)])
    found.sort(key=lambda row: row[2], reverse=True)
    busy = sum(row[2] for row in found)
    return {"wall_ms": round(wall, 2), "busy_ms": round(busy, 2), "kernels": found[:KERNELS]}


def table(result: dict[str, Any]) -> str:
    """A line for each kernel that takes more than a hundredth of its section."""
    lines: list[str] = []
    for name, model in result["models"].items():
        decoding = model.get("decode", {}).get("graphs + overlap", {})
        for section, found in [*model.items(), *decoding.items()]:
            if not (isinstance(found, dict) and "kernels" in found):
                continue
            wall, busy = found["wall_ms"], found["busy_ms"]
            lines += ["", f"{name}, {section}: {wall:.1f} ms, busy {busy / wall:.0%}"]
            for kernel, launches, took in found["kernels"]:
                if took >= 0.01 * busy:
                    each = 1e3 * took / launches
                    lines.append(
                        f"  {took / busy:4.0%} {launches:7} x {each:9.1f} us  {kernel[:70]}"
                    )
    return "\n".join([*lines, *(f"not measured: {failure}" for failure in result["failures"])])


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 measured (failures are in the result), 1 no device, 124 cut off."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = program.parser("gpu-profile", "Where the GPU's time goes, by kernel.")
    parser.add_argument("--sessions", type=int, default=128, help="live ones (default: 128)")
    options = parser.parse_args(arguments)
    options.section = options.section or list(SECTIONS)
    return program.measure(options, arguments, __name__, MODELS, Profiler, table)


if __name__ == "__main__":
    sys.exit(main())
