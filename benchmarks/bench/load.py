"""The load generator, a process of its own: `python -m lookhear.bench.load JOB RESULTS`.

Sends PCM on an absolute clock, as a microphone would, and writes down when each packet left and
each event came. JOB is the JSON of `Job`; RESULTS gets one trace per line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lookhear.bench.measures.trace import Trace
from lookhear.bench.wires.job import Job, SessionPlan
from lookhear.bench.wires.registry import WIRES


async def run(job: Job) -> list[Trace]:
    """All sessions, `concurrency` at a time."""
    run_session = WIRES[job.wire]
    pcm = np.memmap(job.pcm, dtype="<i2", mode="r")
    plans: Iterator[SessionPlan] = iter(job.sessions)
    draw = random.Random(job.seed)
    traces: list[Trace] = []

    async def work() -> None:
        for plan in plans:
            await asyncio.sleep(draw.uniform(0.0, job.phase_seconds))
            traces.append(await run_session(job, plan, pcm))
            print(plan.name, flush=True)  # the parent counts these

    await asyncio.gather(*(work() for _ in range(job.concurrency)))
    return traces


def main(argv: list[str]) -> int:
    """Runs the job of the first file and writes its traces into the second. Exit status: 0, or 130
    after Ctrl-C, which reaches its parent too, and that one tells."""
    job_file, results = map(Path, argv)
    with contextlib.suppress(OSError):  # where it may: a busy server must not delay the clock
        os.nice(-10)
    try:
        traces = asyncio.run(run(Job.from_json(job_file.read_text("utf-8"))))
    except KeyboardInterrupt:
        return 130
    with results.open("w", encoding="utf-8") as file:
        for trace in traces:
            file.write(json.dumps(trace.to_json()) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
