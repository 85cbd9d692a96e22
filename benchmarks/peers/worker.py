"""An engine in a process of its own: asked by lines on its stdin, it answers by lines of JSON.

    python -m benchmarks.peers.X_engine AUDIO MODE=FOLDER ...    a line is a mode to hear AUDIO in
    python -m benchmarks.peers.X_engine --files OPTIONS          a line is a recording to read

It says `{"ready": true}` when its models are loaded. Audio is .npy, mono 16 kHz float32. Peers run
this in environments of their own, where nothing of ours but `benchmarks` can be imported.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE = 16_000
FILES = "--files"
THREAD_CAPS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_ROOT = Path(__file__).resolve().parents[2]
# Ours are found last: no folder of this repository stands before a package that an engine needs.
_RUN = """import runpy, sys
root, module = sys.argv[1:3]
del sys.argv[1:3]
sys.path.append(root)
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""

Transcribe = Callable[[NDArray[np.float32]], list[int]]
"""Up to 30 s of audio; the tokens below the end token."""
Read = Callable[[NDArray[np.float32]], str]
"""Audio of any length; its text."""


class PeerFailed(Exception):
    """The worker ended or was never there; the message says what it printed last."""


@dataclass(frozen=True, slots=True)
class Options:
    """For a worker. folder: the checkpoint in the engine's format. mode: dtype or compute type.
    batch: windows of one recording that the engine shall hear at once; 1: one after another."""

    folder: str
    mode: str
    language: str
    threads: int
    batch: int = 1


# --- the worker's side ---------------------------------------------------------------------------


def serve(
    load: Callable[[Path, str], Transcribe],
    load_reader: Callable[[Options], Read],
    argv: Sequence[str],
) -> None:
    """argv: FILES and the JSON of `Options`; or a recording, then mode=folder for every mode."""
    answers = os.fdopen(os.dup(1), "w")  # libraries print to stdout
    os.dup2(2, 1)
    if argv[0] == FILES:
        answer = _reader(load_reader(Options(**json.loads(argv[1]))))
    else:
        answer = _transcriber(load, argv)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(line.strip())), file=answers, flush=True)


def _transcriber(
    load: Callable[[Path, str], Transcribe], argv: Sequence[str]
) -> Callable[[str], dict[str, Any]]:
    audio: NDArray[np.float32] = np.load(argv[0])
    folders = dict(pair.split("=", 1) for pair in argv[1:])
    modes = {mode: load(Path(folder), mode) for mode, folder in folders.items()}
    return lambda mode: _timed("tokens", lambda: modes[mode](audio))


def _reader(read: Read) -> Callable[[str], dict[str, Any]]:
    def answer(path: str) -> dict[str, Any]:
        audio: NDArray[np.float32] = np.load(path)
        found = _timed("text", lambda: read(audio))
        return found | {"peak_rss": _peak_rss()}

    return answer


def _peak_rss() -> int:
    """Bytes. Linux counts into ru_maxrss what the process that started this one had."""
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text("ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _timed(name: str, work: Callable[[], Any]) -> dict[str, Any]:
    began, began_cpu = time.perf_counter(), time.process_time()
    result = work()
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - began_cpu,
        name: result,
    }


# --- the benchmark's side ------------------------------------------------------------------------


class Worker:
    """A worker that is ready; `with` ends it. PeerFailed.

    name: in messages. module: in this folder. arguments: for it. threads: of every thread pool.
    python: the interpreter of a peer's environment, None for this one. load_seconds: from the start
    of the process until it was ready.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        *,
        threads: int = 1,
        python: Path | None = None,
    ) -> None:
        self._name = name
        # lookhear may not be installed, only lie there; a peer has no use for it.
        ours = [str(_ROOT / "clients"), os.environ.get("PYTHONPATH", "")]
        paths = os.pathsep.join(filter(None, ours)) if python is None else ""
        began = time.monotonic()
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self._process = subprocess.Popen(
            [
                str(python or sys.executable),
                "-P",
                "-c",
                _RUN,
                str(_ROOT),
                f"benchmarks.peers.{module}",
                *arguments,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            text=True,
            env={
                **os.environ,
                **dict.fromkeys(THREAD_CAPS, str(threads)),
                "HF_HUB_OFFLINE": "1",
                "PYTHONPATH": paths,
            },
        )
        try:
            self._answer()
        except BaseException:
            self.close()
            raise
        self.load_seconds = time.monotonic() - began

    def ask(self, line: str) -> dict[str, Any]:
        """seconds, cpu_seconds, and `tokens`; or `text` and peak_rss, bytes, of the process so far.
        PeerFailed."""
        assert self._process.stdin is not None
        try:
            print(line, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._failed() from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._failed()
        found: dict[str, Any] = json.loads(line)
        return found

    def _failed(self) -> PeerFailed:
        self._process.wait()
        self._printed.seek(0)
        tail = self._printed.read().decode("utf-8", "replace").rstrip().splitlines()[-10:]
        return PeerFailed(f"{self._name} ended early:\n" + "\n".join(tail))

    def close(self) -> None:
        """End it, and wait until it has ended."""
        with contextlib.suppress(BrokenPipeError), self._process:
            self._process.terminate()
        self._printed.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
