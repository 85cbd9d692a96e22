"""Files through a peer's engine, in a process of its own: texts, seconds, memory.

The worker is `python -m benchmarks.peers.X_engine --files OPTIONS` (JSON). It says
`{"ready": true}` when its model is loaded; each line on its stdin is a recording (.npy, mono
16 kHz float32), answered by one line of JSON on stdout.
"""

from __future__ import annotations

import importlib.util
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
THREAD_CAPS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
Read = Callable[[NDArray[np.float32]], str]
FILES = "--files"


@dataclass(frozen=True, slots=True)
class Options:
    """For a worker. folder: the checkpoint in the engine's format. mode: dtype or compute type."""

    folder: str
    mode: str
    language: str
    threads: int


@dataclass(frozen=True, slots=True)
class OfflinePeer:
    """An engine with its best honest settings on a CPU. environment: None for this Python.
    package: that it needs there."""

    module: str
    mode: str
    environment: str | None
    converted: bool
    package: str


OFFLINE: dict[str, OfflinePeer] = {
    "lookhear": OfflinePeer("lookhear_engine", "auto", None, False, "torch"),
    "faster-whisper": OfflinePeer(
        "faster_whisper_engine", "int8", "faster-whisper", True, "faster_whisper"
    ),
    "faster-whisper-float32": OfflinePeer(
        "faster_whisper_engine", "float32", "faster-whisper", True, "faster_whisper"
    ),
    "transformers": OfflinePeer("transformers_engine", "float32", None, False, "transformers"),
}


@dataclass(frozen=True, slots=True)
class FileRun:
    """texts, seconds, cpu_seconds: of each recording, in order. load_seconds: from the start of the
    process until it was ready. peak_rss: bytes, of the whole process to its end."""

    texts: list[str]
    seconds: list[float]
    cpu_seconds: list[float]
    load_seconds: float
    peak_rss: int


class PeerFailed(Exception):
    """The worker ended or was never there; the message says what it printed last."""


def transcribe_files(
    peer: str,
    checkpoint: Path,
    recordings: Sequence[NDArray[np.float32]],
    *,
    threads: int = 1,
    language: str = "en",
    on_answer: Callable[[], None] = lambda: None,
) -> FileRun:
    """Each recording ([n] samples at 16 kHz) once, one after another; the first one twice, and its
    first time does not count. PeerFailed, and what preparing it raises (NotInstalled)."""
    known = OFFLINE[peer]
    options = Options(str(_folder(known, checkpoint)), known.mode, language, threads)
    python, environment = _python(known)
    environment |= dict.fromkeys(THREAD_CAPS, str(threads))
    command = [python, "-P", "-m", f"benchmarks.peers.{known.module}", FILES]
    command.append(json.dumps(vars_of(options)))
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as name,
        tempfile.TemporaryFile() as printed,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            text=True,
            env=environment,
        ) as process,
    ):

        def answer() -> dict[str, Any]:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                printed.seek(0)
                tail = printed.read().decode("utf-8", "replace").rstrip().splitlines()[-10:]
                raise PeerFailed(f"{peer} ended early:\n" + "\n".join(tail))
            found: dict[str, Any] = json.loads(line)
            return found

        answer()
        load_seconds = time.monotonic() - began
        assert process.stdin is not None
        path = Path(name) / "recording.npy"
        answers = []
        for recording in [*recordings[:1], *recordings]:
            np.save(path, recording)
            print(path, file=process.stdin, flush=True)
            answers.append(answer())
            on_answer()
        process.stdin.close()
    answers = answers[1:]
    return FileRun(
        [found["text"] for found in answers],
        [found["seconds"] for found in answers],
        [found["cpu_seconds"] for found in answers],
        load_seconds,
        max((int(found["peak_rss"]) for found in answers), default=0),
    )


def vars_of(options: Options) -> dict[str, Any]:
    return {name: getattr(options, name) for name in Options.__slots__}


def _folder(peer: OfflinePeer, checkpoint: Path) -> Path:
    from benchmarks.peers.checkpoints import ctranslate2_folder  # the worker's side has none of it

    return ctranslate2_folder(checkpoint) if peer.converted else checkpoint


def _python(peer: OfflinePeer) -> tuple[str, dict[str, str]]:
    """The interpreter and its environment variables. NotInstalled."""
    from benchmarks.peers.environments import environment
    from lookhear.errors import NotInstalled

    variables = {**os.environ, "HF_HUB_OFFLINE": "1"}
    if peer.environment is not None:
        own = environment(peer.environment).require()
        return str(own.python), variables | {"PYTHONPATH": str(own.ours)}
    if importlib.util.find_spec(peer.package) is None:
        raise NotInstalled(f"to measure it, pip install {peer.package}")
    root = Path(__file__).parents[2]  # ours may not be installed, only lie there
    paths = [str(root), str(root / "clients"), os.environ.get("PYTHONPATH", "")]
    return sys.executable, variables | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def serve_files(load: Callable[[Options], Read], text: str) -> None:
    """The worker's side. text: the JSON of its options."""
    answers = os.fdopen(os.dup(1), "w")  # libraries print to stdout
    os.dup2(2, 1)
    read = load(Options(**json.loads(text)))
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        audio: NDArray[np.float32] = np.load(line.strip())
        began, began_cpu = time.perf_counter(), time.process_time()
        heard = read(audio)
        answer = {
            "seconds": time.perf_counter() - began,
            "cpu_seconds": time.process_time() - began_cpu,
            "text": heard,
            "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        print(json.dumps(answer), file=answers, flush=True)
