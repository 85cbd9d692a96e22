"""The protocol between a benchmark and the process that runs one engine.

The worker says `{"ready": true}` when its models are loaded; then each line on its stdin is a mode
(for example a dtype) to transcribe the audio in once, answered by one line of JSON on stdout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Transcribe = Callable[[NDArray[np.float32]], list[int]]
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def serve(load: Callable[[Path, str], Transcribe], argv: Sequence[str]) -> None:
    """argv: the audio (.npy, mono 16 kHz float32), then mode=folder for every mode."""
    audio: NDArray[np.float32] = np.load(argv[0])
    answers = os.fdopen(os.dup(1), "w")  # libraries print to stdout
    os.dup2(2, 1)
    folders = dict(pair.split("=", 1) for pair in argv[1:])
    modes = {mode: load(Path(folder), mode) for mode, folder in folders.items()}
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        transcribe = modes[line.strip()]
        began, began_cpu = time.perf_counter(), time.process_time()
        tokens = transcribe(audio)
        answer = {
            "seconds": time.perf_counter() - began,
            "cpu_seconds": time.process_time() - began_cpu,
            "tokens": tokens,
        }
        print(json.dumps(answer), file=answers, flush=True)


class Worker:
    """A worker process with one thread, from the benchmark's side. Close it, or use `with`."""

    def __init__(self, module: str, audio: Path, folders: dict[str, Path]) -> None:
        self.module = module
        pairs = [f"{mode}={folder}" for mode, folder in folders.items()]
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(audio), *pairs],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **dict.fromkeys(THREADS, "1"), "HF_HUB_OFFLINE": "1"},
            cwd=Path(__file__).parents[2],
        )
        self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.module}: expected an answer, the process ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def run(self, mode: str) -> dict[str, Any]:
        """One transcription: wall seconds, CPU seconds, and the tokens below the end token."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{mode}\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
