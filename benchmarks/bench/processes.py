"""Memory and CPU time of the server's processes while a benchmark runs."""

from __future__ import annotations

import contextlib
import re
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil

WORKER = "lookhear.gateway.commands.worker"  # in the command line of one of several gateways


@dataclass(slots=True)
class Usage:
    """Samples of one process: (seconds since the watch began, resident bytes, CPU seconds).
    before: CPU seconds that it had used when the watch began."""

    name: str
    samples: list[tuple[float, int, float]] = field(default_factory=list)
    before: float = 0.0

    def between(self, start: float, end: float) -> dict[str, float]:
        """Mean MiB and CPU seconds used per second in [start, end)."""
        inside = [sample for sample in self.samples if start <= sample[0] < end]
        if len(inside) < 2:
            return {}
        first, last = inside[0], inside[-1]
        rss = sum(sample[1] for sample in inside) / len(inside)
        cpu = (last[2] - first[2]) / (last[0] - first[0])
        return {"rss_mib": round(rss / 2**20, 1), "cpu": round(cpu, 4)}


@dataclass(frozen=True, slots=True)
class Work:
    """What the engines say at /metrics that they have done since their start."""

    at: float  # seconds since the watch began
    requests: float
    busy_seconds: float
    drafted_tokens: float
    accepted_tokens: float

    @classmethod
    def read(cls, url: str, at: float) -> Work | None:
        """None if the server does not say."""
        try:
            with urllib.request.urlopen(url, timeout=2.0) as response:
                return cls.parse(response.read().decode(), at)
        except OSError:
            return None

    @classmethod
    def parse(cls, text: str, at: float) -> Work | None:
        """What is said at /metrics, added up over all engines; None if nothing is."""
        found: dict[str, float] = {}
        for name, value in re.findall(
            r"^lookhear_engine_(\w+)\{[^}]*\} (\S+)$", text, re.MULTILINE
        ):
            found[name] = found.get(name, 0.0) + float(value)
        names = ("requests", "busy_seconds", "drafted_tokens", "accepted_tokens")
        return cls(at, *(found[name] for name in names)) if found.keys() >= set(names) else None


class Watch:
    """`with Watch(pid) as watch:` samples the process and its children every few seconds.

    metrics_url: of the server's /metrics, for the engine's own numbers.
    """

    def __init__(
        self, pid: int, every_seconds: float = 2.0, metrics_url: str | None = None
    ) -> None:
        self._root = psutil.Process(pid)
        self._metrics_url = metrics_url
        self._work: list[Work] = []
        self._every = every_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._usages: dict[int, Usage] = {}
        self._is_begun = False  # who is there from now on began while this watches
        self._began = time.monotonic()

    @property
    def usages(self) -> list[Usage]:
        """What each process used, the dead ones included."""
        return list(self._usages.values())

    def by_minute(self) -> dict[str, list[dict[str, Any]]]:
        """Memory and CPU share of every whole minute; processes of one name, like the engines of a
        model with several, are added up."""
        return {name: _by_minute(group) for name, group in self._by_name().items()}

    def _by_name(self) -> dict[str, list[Usage]]:
        groups: dict[str, list[Usage]] = {}
        for usage in self.usages:
            groups.setdefault(usage.name, []).append(usage)
        return groups

    def totals(self) -> dict[str, float]:
        """Of all processes together: CPU seconds used, and the most MiB that they held at once."""
        cpu = sum(u.samples[-1][2] - u.before for u in self.usages if u.samples)
        at_once: dict[float, int] = {}
        for usage in self.usages:
            for when, resident, _ in usage.samples:
                at_once[when] = at_once.get(when, 0) + resident
        peak = max(at_once.values(), default=0)
        return {"cpu_seconds": round(cpu, 2), "peak_rss_mib": round(peak / 2**20, 1)}

    def work_by_minute(self) -> list[dict[str, float]]:
        """Per whole minute: ticks, engine milliseconds per tick, share of draft tokens kept."""
        table = []
        for minute in range(int(self._work[-1].at // 60) if self._work else 0):
            inside = [w for w in self._work if minute * 60 <= w.at < minute * 60 + 60]
            if len(inside) < 2:
                continue
            first, last = inside[0], inside[-1]
            ticks, drafted = (
                last.requests - first.requests,
                last.drafted_tokens - first.drafted_tokens,
            )
            busy, kept = (
                last.busy_seconds - first.busy_seconds,
                last.accepted_tokens - first.accepted_tokens,
            )
            table.append(
                {
                    "minute": minute,
                    "ticks": ticks,
                    "tick_ms": round(1000 * busy / ticks, 2) if ticks else 0.0,
                    "draft_kept": round(kept / drafted, 3) if drafted else 0.0,
                }
            )
        return table

    def _run(self) -> None:
        while not self._stop.is_set():
            self._sample()
            self._stop.wait(self._every)

    def _sample(self) -> None:
        now = time.monotonic() - self._began
        try:
            processes = [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        work = Work.read(self._metrics_url, now) if self._metrics_url else None
        if work is not None:
            self._work.append(work)
        for process in processes:
            try:
                with process.oneshot():
                    memory, times = process.memory_info().rss, process.cpu_times()
                    name = self._name(process)
            except psutil.NoSuchProcess:
                continue
            used = times.user + times.system
            if process.pid not in self._usages:
                self._usages[process.pid] = Usage(name, before=0.0 if self._is_begun else used)
            self._usages[process.pid].samples.append((now, memory, used))
        self._is_begun = True

    def _name(self, process: psutil.Process) -> str:
        command = " ".join(process.cmdline())
        if process.pid == self._root.pid or WORKER in command:
            return "gateway"
        return "engine" if "lookhear.engine.process" in command else process.name()

    def __enter__(self) -> Watch:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()  # what was used until now counts


def _by_minute(usages: Sequence[Usage]) -> list[dict[str, Any]]:
    last = max((usage.samples[-1][0] for usage in usages if usage.samples), default=0.0)
    table: list[dict[str, Any]] = []
    for minute in range(int(last // 60)):
        row: dict[str, Any] = {"minute": minute}
        for usage in usages:
            for what, value in usage.between(minute * 60, minute * 60 + 60).items():
                row[what] = round(row.get(what, 0.0) + value, 4)
        table.append(row)
    return table


def wait_idle(pid: int) -> bool:
    """Returns when the process and its children use less than a tenth of a core over a second, or
    after a minute: False then."""
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        before, began = _cpu_seconds(pid), time.monotonic()
        time.sleep(1.0)
        if _cpu_seconds(pid) - before < 0.1 * (time.monotonic() - began):
            return True
    return False


def _cpu_seconds(pid: int) -> float:
    used = 0.0
    try:
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                used += times.user + times.system
    except psutil.NoSuchProcess:
        pass
    return used
