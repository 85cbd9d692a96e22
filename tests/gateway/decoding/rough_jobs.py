"""What decoders must survive: jobs that do to their process what damaged files can."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

from lookhear.gateway.decoding.jobs import Answer, Encoded, Job, Options
from lookhear.gateway.decoding.jobs import Jobs as RealJobs


class Jobs:
    """The real ones and these."""

    def __init__(self) -> None:
        self.by_name: dict[str, Job] = {
            **RealJobs().by_name,
            "tell": tell,
            "signal": end,
            "memory": take_memory,
            "file": take_file,
            "spin": spin,
            "wait": wait,
            "bug": fail,
        }


def tell(encoded: Encoded, options: Options) -> Answer:
    """The process, and what was sent."""
    threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
    told = {"pid": os.getpid(), "environment": sorted(os.environ), "threads": threads}
    return told, [np.frombuffer(encoded.data, np.uint8)]


def end(encoded: Encoded, options: Options) -> Answer:
    signal.signal(options["signal"], signal.SIG_DFL) if options["signal"] != 9 else None
    os.kill(os.getpid(), options["signal"])
    raise AssertionError("it goes on")


def take_memory(encoded: Encoded, options: Options) -> Answer:
    return {}, [np.ones(options["bytes"], np.uint8)]


def take_file(encoded: Encoded, options: Options) -> Answer:
    """An answer larger than the array in memory: one page, many times."""
    page = np.zeros(1 << 20, np.uint8)
    return {}, [page] * (options["bytes"] >> 20)


def spin(encoded: Encoded, options: Options) -> Answer:
    while True:
        pass


def wait(encoded: Encoded, options: Options) -> Answer:
    """Until somebody ends it."""
    while True:
        time.sleep(60)


def fail(encoded: Encoded, options: Options) -> Answer:
    raise ZeroDivisionError("ours")
