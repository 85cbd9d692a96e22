"""Whole utterances through engines on one checkpoint, each in a process of its own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soxr
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.peers.checkpoints import DEMO_WHISPER
from benchmarks.peers.files import OFFLINE, prepare, transcribe_files
from benchmarks.peers.worker import RATE as ENGINE_RATE
from benchmarks.peers.worker import PeerFailed
from lookhear.bench.measures.trace import RATE
from lookhear.bench.numbers import Json
from lookhear.bench.offline import Answer, Run, numbers
from lookhear.bench.recordings.session import Session
from lookhear.errors import LookhearError, UsageError


class EngineFailed(LookhearError):
    """The process of an engine ended; the message is what it printed last."""


def by_engine(
    name: str,
    checkpoint: Path,
    sessions: Sequence[Session],
    *,
    threads: int,
    language: str,
    console: Console,
) -> Run:
    """The sessions one after another through an engine of `files.OFFLINE`.

    NotInstalled, SourceError, EngineFailed.
    """
    recordings = [
        soxr.resample(session.pcm.astype(np.float32) / 32768, RATE, ENGINE_RATE)
        for session in sessions
    ]
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        task = bars.add_task(name, total=len(sessions) + 1)
        try:
            found = transcribe_files(
                name,
                checkpoint,
                recordings,
                threads=threads,
                language=language,
                on_answer=lambda: bars.advance(task),
            )
        except PeerFailed as error:
            raise EngineFailed(str(error)) from error
    answers = [Answer(t, None, s) for t, s in zip(found.texts, found.seconds, strict=True)]
    usage = {
        "cpu_seconds": round(sum(found.cpu_seconds), 2),
        "peak_rss_mib": round(found.peak_rss / 2**20, 1),
        "load_seconds": round(found.load_seconds, 2),
    }
    return Run(answers, sum(found.seconds), usage)


def engines_numbers(
    sessions: Sequence[Session], options: argparse.Namespace, console: Console
) -> list[Json]:
    """Of each in options.engine. LookhearError; UsageError for a name that nobody knows."""
    check_engines(options.engine)
    for name in options.engine:  # the first would have been measured in vain if the last is missing
        prepare(name, options.checkpoint or DEMO_WHISPER)
    return [engine_numbers(name, sessions, options, console) for name in options.engine]


def check_engines(names: Sequence[str]) -> None:
    """UsageError for a name that is not in `files.OFFLINE`."""
    for name in names:
        if name not in OFFLINE:
            raise UsageError(f"--engine: expected one of {', '.join(OFFLINE)}, got {name!r}")


def engine_numbers(
    name: str, sessions: Sequence[Session], options: argparse.Namespace, console: Console
) -> Json:
    """Of one engine on options.checkpoint, or else on demo-whisper. LookhearError."""
    run = by_engine(
        name,
        options.checkpoint or DEMO_WHISPER,
        sessions,
        threads=options.threads,
        language=options.language,
        console=console,
    )
    return {"name": name, **numbers(sessions, run)}
