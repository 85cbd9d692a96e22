"""How fast the engine is on this machine's GPU, and how many live sessions it holds.

    python -m benchmarks.gpu_bench            (or: make gpu-bench)

Random weights at true geometry, made on the device. Every model has a process of its own,
every section stands for itself: one that fails or has no time left says so, and what is measured is
printed and written as it comes, to the folder in the variable OUT where it is set. Needs torch,
triton, transformers, numpy; and a GPU, or --device cpu --geometry tiny to try the program.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.gpu import answers, program
from benchmarks.gpu import load as gpu_load
from benchmarks.gpu import peers as gpu_peers
from benchmarks.gpu.load import Client
from benchmarks.gpu.models import (
    GEOMETRIES,
    Geometry,
    build,
    decoder_bytes,
    random_weights,
    write_folder,
)
from benchmarks.gpu.output import write_json
from benchmarks.gpu.peers import synchronize
from benchmarks.gpu.tables import milliseconds, quantiles, table
from benchmarks.gpu_check import device as describe_device
from lookhear.bench.machine import describe
from lookhear.engine.tokenizers.qwen import QwenTokenizer

BATCHES = (1, 8, 64)
PROMPT = 400  # tokens in front of a decoded answer: a minute of speech and its text
LIVE_ROWS = 192
STEPS = 100
MODES: dict[str, dict[str, Any]] = {
    "eager": {"cuda_graphs": "off", "overlap": 0},
    "graphs": {"overlap": 0},
    "graphs + overlap": {"overlap": 1},  # as it is served
}
RATE = 16_000


class Bench:
    """One run: what is known so far, and how much time is left."""

    def __init__(self, options: argparse.Namespace, argv: Sequence[str]) -> None:
        self.device: str = options.device
        self.dtype: str = options.dtype
        self.kv_cache_dtype: str = options.kv_cache_dtype
        self.is_tiny = options.geometry == "tiny"
        self.batches = (1, 2) if self.is_tiny else BATCHES
        self.steps = 4 if self.is_tiny else STEPS
        self._sections: list[str] = options.section
        self._output: Path | None = options.output
        self._end = time.monotonic() + options.seconds
        self._model_end = self._end
        self._folder = Path()
        self._current = ""  # section
        self.result: dict[str, Any] = {
            **describe(["benchmarks.gpu_bench", *argv]),
            "device": describe_device(),
            "geometry": options.geometry,
            "dtype": options.dtype,
            "kv_cache_dtype": options.kv_cache_dtype,
            "models": {},
            "failures": [],
        }

    @property
    def element(self) -> int:
        """Bytes of a weight."""
        return 4 if self.device == "cpu" else 2

    def section(
        self, name: str, into: dict[str, Any], run: Callable[[], Any], share: float = 0.0
    ) -> None:
        """share: of seconds that it needs at least; it is left out where there are fewer."""
        is_needed = name == "bandwidth" or name.endswith(": start")
        if not is_needed and not any(part in name for part in self._sections or [""]):
            return
        left = self._model_end - time.monotonic()
        key = name.rpartition(": ")[2]
        began = time.monotonic()
        self._current = name
        if left < (0.0 if self.is_tiny else share):
            self.result["failures"].append(f"{name}: no time left")
        else:
            try:
                into[key] = run()
                print(f"{name}: {json.dumps(into[key])}")
            except Exception as error:  # a section that fails is a result too
                traceback.print_exc()
                self.result["failures"].append(f"{name}: {type(error).__name__}: {error}")
        self._current = ""
        took = time.monotonic() - began
        print(f"{name}: {took:.1f} s, {max(0.0, self._end - time.monotonic()):.0f} s left")
        write_json(self._output, self.result)
        sys.stdout.flush()

    def last_words(self) -> None:
        """What is known of a run that is cut off here."""
        self.result["failures"].append(f"{self._current or 'between sections'}: cut off")
        write_json(self._output, self.result)
        print(f"{self._current}: cut off, no time left", flush=True)

    # --- the device ------------------------------------------------------------------------------

    def bandwidth(self) -> float:
        """Bytes per second, read and written, of the best of some copies."""
        size = 2**24 if self.is_tiny else 2**31
        source = torch.empty(size, dtype=torch.uint8, device=self.device).zero_()
        target = torch.empty_like(source)
        return 2 * size / min(self.timed(lambda: target.copy_(source), 10))

    def timed(self, call: Callable[[], Any], repeats: int) -> list[float]:
        """Seconds of each call, after two that warm up; until the device is done."""
        times = []
        for _ in range(2 + (2 if self.is_tiny else repeats)):
            synchronize(self.device)
            began = time.perf_counter()
            call()
            synchronize(self.device)
            times.append(time.perf_counter() - began)
        return times[2:]

    # --- one model -------------------------------------------------------------------------------

    def model(self, geometry: Geometry, folder: Path, seconds: float) -> None:
        """seconds: what other models leave it."""
        self._model_end = min(self._end, time.monotonic() + seconds)
        into = self.result["models"].setdefault(geometry.name, {})
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        for mode, changes in MODES.items():
            self.mode(geometry, folder, config, mode, changes, into)
            self.free()
        for batch in self.batches:
            self.section(
                f"{geometry.name}: transformers: decode {batch}",
                into.setdefault("decode", {}).setdefault("transformers", {}),
                partial(self.peer, geometry, config, batch),
                15.0,
            )
            self.free()

    def mode(
        self,
        geometry: Geometry,
        folder: Path,
        config: dict[str, Any],
        mode: str,
        changes: dict[str, Any],
        into: dict[str, Any],
    ) -> None:
        """One engine, gone at the end: two would not fit."""
        name = geometry.name
        held: list[Any] = []
        limits: dict[str, Any] = {"max_rows": max(self.batches), "max_context_tokens": 1024}
        if self.is_tiny:
            limits |= {"token_budget": 128, "kv_cache_gigabytes": 0.1}  # few passes to capture
        else:
            memory = self.result["device"].get("memory_gib", 16.0)
            # A tick takes some ten steps: with a row for each, 800 a second want 80 rows if a step
            # takes 10 ms, and 160 if it takes 20.
            limits |= {"max_rows": LIVE_ROWS}
            limits |= {"kv_cache_gigabytes": memory / 2, "token_budget": 2048}
            limits |= {"graph_gigabytes": 6.0, "max_live_turns": 2048}
            # A Whisper's windows: 8, 16, 24 and 30 s. More would only be more graphs to capture.
            limits |= {"window_step_seconds": 8.0, "min_window_seconds": 8.0}
        self.section(
            f"{name}: {mode}: start",
            into.setdefault("start_seconds", {}).setdefault(mode, {}),
            partial(self.start, folder, {**limits, **changes}, held),
            20.0,
        )
        if not held:
            return
        core = held.pop()
        rates = into.setdefault("decode", {}).setdefault(mode, {})
        for batch in self.batches:
            decode = partial(self.decode, geometry, config, core, batch)
            self.section(f"{name}: {mode}: decode {batch}", rates, decode, 10.0)
        if mode == "eager":
            encoder = partial(self.encoder, geometry, core)
            self.section(f"{name}: encoder", into, encoder, 10.0)
        if mode == "graphs + overlap" and geometry.family != "whisper":
            first = partial(self.first_tokens, geometry, core)
            self.section(f"{name}: first token", into, first, 15.0)
        if mode == "graphs + overlap" and geometry.family != "qwen3-vl":
            for window in (30, 8) if geometry.family == "whisper" else (8,):
                make = self.clients(geometry, core, window)
                tick = partial(self.tick, core, make)
                self.section(f"{name}: tick, window {window} s", into, tick, 10.0)
                sessions = partial(self.sessions, core, make)
                self.section(f"{name}: sessions, window {window} s", into, sessions, 25.0)
        into.setdefault("passes", {})[mode] = {
            key: count
            for key, count in core.stats().items()
            if key in ("steps", "graphs", "graph_passes", "eager_passes")
        }

    def start(self, folder: Path, changes: dict[str, Any], held: list[Any]) -> float:
        """Seconds until it serves, graphs captured, kernels compiled."""
        began = time.perf_counter()
        changes = {**changes, "kv_cache_dtype": self.kv_cache_dtype}
        if self.dtype != "bfloat16":
            changes["dtype"] = self.dtype
        held.append(build(folder, self.device, **changes).core)
        synchronize(self.device)
        return round(time.perf_counter() - began, 2)

    def free(self) -> None:
        """Gives the device's unused memory back."""
        gc.collect()
        if self.device != "cpu":
            torch.cuda.empty_cache()

    def decode(
        self, geometry: Geometry, config: dict[str, Any], core: Any, batch: int
    ) -> dict[str, float]:
        """Tokens per second and milliseconds per step of `batch` rows that decode."""
        prompt = 40 if self.is_tiny else PROMPT
        warm = 4
        new = warm + self.steps + 20
        if geometry.family == "whisper":
            silence = np.zeros(5 * RATE, np.float32)
            window = RATE * 30
            tokenizer = core._runner._tokenizer
            requests: list[Any] = [
                gpu_load.whisper_request(tokenizer, f"d{i}", silence, window, new)
                for i in range(batch)
            ]
            prompt = 4
        else:
            vocab = core._runner._decoder.vocab
            requests = [
                gpu_load.text_request(f"d{i}", 1000 * batch + i, prompt, new, vocab)
                for i in range(batch)
            ]
        rate, step = gpu_load.decode_rate(core, requests, warm=warm, steps=self.steps, seconds=5.0)
        in_layers = {"fp8": 1.0, "int8": 1.0, "int4": 0.5 + 2 / 128}.get(self.dtype)
        weights, kept, fixed = decoder_bytes(
            config, geometry.family, self.element, in_layers=in_layers
        )
        if self.kv_cache_dtype == "fp8":
            kept //= self.element
        context = prompt + warm + self.steps // 2
        read = weights + batch * (context * kept + fixed)
        ideal = read / self.result["bandwidth"]
        return {
            "tokens_per_second": round(rate, 1),
            "step_ms": round(step * 1e3, 3),
            "roofline_ms": round(ideal * 1e3, 3),
            "roofline_share": round(ideal / step, 4),
        }

    def peer(self, geometry: Geometry, config: dict[str, Any], batch: int) -> dict[str, float]:
        """The same of transformers' `generate`."""
        prompt, new = (20, 4) if self.is_tiny else (PROMPT, 32)
        rate, step = gpu_peers.decode_rate(
            config, geometry.family, device=self.device, batch=batch, prompt=prompt, new=new
        )
        return {"tokens_per_second": round(rate, 1), "step_ms": round(step * 1e3, 3)}

    @torch.inference_mode()
    def encoder(self, geometry: Geometry, core: Any) -> dict[str, float]:
        """Milliseconds of a batch, eager."""
        model = core._runner._model
        found: dict[str, float] = {}
        sizes = (1,) if self.is_tiny else (1, 8, 32)
        for batch in sizes:
            if geometry.family == "whisper":
                for seconds in (30, 8):
                    mel = torch.zeros(
                        batch, model.dims.num_mels, 100 * seconds, device=self.device
                    ).to(model.dtype)
                    times = self.timed(partial(_encoded, model, mel), 10)
                    found[f"{batch} x {seconds} s"] = milliseconds(times)
            elif geometry.family == "qwen3-asr":
                dims = model.encoder.dims
                window = torch.zeros(dims.num_mels, dims.window_frames, device=self.device)
                windows = [window.to(model.encoder.dtype)] * batch
                times = self.timed(partial(model.encoder.encode_windows, windows), 10)
                found[f"{batch} x {dims.window_frames // 100} s"] = milliseconds(times)
            else:
                side = model.encoder.dims.factor * (2 if self.is_tiny else 16)
                picture = torch.zeros(1, 3, side, side, device=self.device)
                pictures = [picture.to(model.encoder.dtype)] * batch
                times = self.timed(partial(model.encoder.encode, pictures), 10)
                found[f"{batch} x {side} x {side}"] = milliseconds(times)
        return found

    def first_tokens(self, geometry: Geometry, core: Any) -> dict[str, dict[str, float]]:
        """From a request to its first token: alone, among rows that decode, of many at once."""
        model, most = core._runner._model, max(self.batches)
        prompt, times = (40, 1) if self.is_tiny else (PROMPT, 20)
        vocab = core._runner._decoder.vocab
        kinds = {f"text of {prompt}": answers.text_prompts(vocab, prompt)}
        if geometry.family == "qwen3-vl":
            side = 2 if self.is_tiny else 16
            make = answers.picture_prompts(model, vocab, prompt, side)
            kinds[f"picture of {side} x {side} and text of {prompt}"] = make
        found = {}
        for kind, make in kinds.items():
            for load, numbers in (
                ("alone", {"times": times}),
                (f"among {most - 1}", {"others": most - 1, "times": times}),
                (f"{most} at once", {"at_once": most, "times": 1 if self.is_tiny else 4}),
            ):
                latencies = answers.first_tokens(core, make, **numbers)
                found[f"{kind}, {load}"] = quantiles(latencies)
        return found

    # --- live sessions ---------------------------------------------------------------------------

    def clients(self, geometry: Geometry, core: Any, window: int) -> Callable[[int], list[Client]]:
        """Makes so many sessions. window: seconds that a Whisper encodes at each tick."""
        if geometry.family == "whisper":
            return partial(gpu_load.whisper_sessions, core._runner._tokenizer, window)
        tokenizer = QwenTokenizer.from_folder(self._folder)
        return partial(gpu_load.asr_sessions, core, tokenizer)

    def tick(self, core: Any, make: Callable[[int], list[Client]]) -> dict[str, float]:
        """One session alone, from a tick's audio to its text."""
        seconds = 3.0 if self.is_tiny else 20.0
        found = gpu_load.tick_latencies(core, make(1), seconds=seconds)
        return quantiles(found)

    def sessions(self, core: Any, make: Callable[[int], list[Client]]) -> dict[str, Any]:
        """The most sessions of which 95 % of the ticks have their text within a second: doubled
        until it is too much, then narrowed down."""
        seconds = 3.0 if self.is_tiny else 6.0
        tried: dict[int, dict[str, float]] = {}

        def fits(count: int) -> bool:
            found = quantiles(gpu_load.tick_latencies(core, make(count), seconds=seconds))
            tried[count] = found
            print(f"  {count} sessions: p95 {found['p95_ms']:.0f} ms")
            return found["p95_ms"] < 1000.0

        limit = min(self._model_end, time.monotonic() + 70.0)
        count, most = (1, 4) if self.is_tiny else (32, 4096)
        good, bad = 0, most + 1
        while count <= most and time.monotonic() < limit:
            if not fits(count):
                bad = count
                break
            good, count = count, 2 * count
        while bad - good > max(1, good // 12) and time.monotonic() < limit:
            middle = (good + bad) // 2
            if fits(middle):
                good = middle
            else:
                bad = middle
            if bad > most:
                break
        return {"sessions": good, "tried": tried}

    def run(self, names: Sequence[str]) -> None:
        """Every section of these geometries, while time is left; failures are in the result."""
        self.section("bandwidth", self.result, self.bandwidth)
        self.result.setdefault("bandwidth", float("nan"))
        with random_weights():
            for number, name in enumerate(names):
                share = (self._end - time.monotonic()) / (len(names) - number)
                with tempfile.TemporaryDirectory() as scratch:
                    self._folder = Path(scratch)
                    write_folder(GEOMETRIES[name], self._folder, tiny=self.is_tiny)
                    self.model(GEOMETRIES[name], self._folder, share)


def _encoded(model: Any, mel: torch.Tensor) -> None:
    model.project_cross(model.encode(mel))


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 measured (failures are in the result), 1 no device, 124 cut off."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = program.parser("gpu-bench", "Measure the engine on this machine's GPU.")
    options = parser.parse_args(arguments)
    return program.measure(options, arguments, __name__, list(GEOMETRIES), Bench, table)


if __name__ == "__main__":
    sys.exit(main())
