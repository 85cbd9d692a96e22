"""Files through a peer's engine, in a process of its own: texts, seconds, memory."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.checkpoints import ctranslate2_folder
from benchmarks.peers.environments import environment
from benchmarks.peers.worker import FILES, RATE, Options, Worker
from lookhear.errors import NotInstalled


@dataclass(frozen=True, slots=True)
class OfflinePeer:
    """An engine with its best honest settings on a CPU. module: of its worker. environment: None
    for this Python. converted: whether it reads CTranslate2's format. package: that it needs.
    batch: windows of one recording at once."""

    module: str
    mode: str
    environment: str | None
    converted: bool
    package: str
    batch: int = 1


BATCH = 8  # faster-whisper's own choice
WARM_UP = 60 * RATE  # samples of the first recording: an hour need not be heard twice

OFFLINE: dict[str, OfflinePeer] = {
    "lookhear": OfflinePeer("lookhear_engine", "auto", None, False, "torch"),
    "lookhear-int8": OfflinePeer("lookhear_engine", "int8", None, False, "torch"),
    "lookhear-float32": OfflinePeer("lookhear_engine", "float32", None, False, "torch"),
    "faster-whisper": OfflinePeer(
        "faster_whisper_engine", "int8", "faster-whisper", True, "faster_whisper"
    ),
    "faster-whisper-float32": OfflinePeer(
        "faster_whisper_engine", "float32", "faster-whisper", True, "faster_whisper"
    ),
    "faster-whisper-batched": OfflinePeer(
        "faster_whisper_engine", "int8", "faster-whisper", True, "faster_whisper", BATCH
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


def prepare(peer: str, checkpoint: Path) -> tuple[Path, Path | None]:
    """The checkpoint in its format, and the interpreter that has it; None: this one. NotInstalled,
    SourceError."""
    known = OFFLINE[peer]
    own = None if known.environment is None else environment(known.environment).require()
    if own is None and importlib.util.find_spec(known.package) is None:
        raise NotInstalled(f"to measure it, pip install {known.package}")
    folder = ctranslate2_folder(checkpoint) if known.converted else checkpoint
    return folder, own.python if own else None


def transcribe_files(
    peer: str,
    checkpoint: Path,
    recordings: Sequence[NDArray[np.float32]],
    *,
    threads: int = 1,
    language: str = "en",
    on_answer: Callable[[], None] = lambda: None,
) -> FileRun:
    """Each recording ([n] samples at 16 kHz) once, one after another; before that a minute of the
    first one at most, which does not count. PeerFailed, and what preparing it raises
    (NotInstalled)."""
    known = OFFLINE[peer]
    folder, python = prepare(peer, checkpoint)
    options = Options(str(folder), known.mode, language, threads, known.batch)
    arguments = [FILES, json.dumps(asdict(options))]
    worker = Worker(peer, known.module, arguments, threads=threads, python=python)
    answers = []
    with worker, tempfile.TemporaryDirectory() as name:
        path = Path(name) / "recording.npy"
        for recording in [*(r[:WARM_UP] for r in recordings[:1]), *recordings]:
            np.save(path, recording)
            answers.append(worker.ask(str(path)))
            on_answer()
    answers = answers[1:]
    return FileRun(
        [found["text"] for found in answers],
        [found["seconds"] for found in answers],
        [found["cpu_seconds"] for found in answers],
        worker.load_seconds,
        max((int(found["peak_rss"]) for found in answers), default=0),
    )
