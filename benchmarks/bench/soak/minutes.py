"""A row for each minute of a soak, and what they say together. Pure but for `footprint`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import psutil

from lookhear.bench.measures import metrics
from lookhear.bench.numbers import Json
from lookhear.bench.processes import WORKER
from lookhear.bench.soak.load import Tally

WARM_UP = 0.25  # of the rows: they do not count for the memory's slope
LEAST_ROWS = 8  # fewer say nothing of slopes and quarters
LAG_SHARE, LAG_MORE = 1.25, 0.1  # of the first quarter's p95; and seconds
GROWTH_SHARE = 0.05  # of the memory, an hour
SHOWN = 5  # problems of a row


def footprint(pid: int) -> tuple[dict[str, float], dict[str, int]]:
    """-> (MiB, open descriptors) of the server's processes now. Decoders come and go: what they and
    the process that forks them hold is one number."""
    memory: dict[str, float] = {}
    descriptors: dict[str, int] = {}
    try:
        root = psutil.Process(pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return memory, descriptors
    engines = 0
    for process in sorted(processes, key=lambda process: process.pid):
        try:
            command = " ".join(process.cmdline())
            is_engine = "lookhear.engine.process" in command
            held, opened = process.memory_info().rss / 2**20, process.num_fds()
        except psutil.NoSuchProcess:
            continue
        engines += is_engine
        name = f"engine {engines}" if is_engine else "decoders"
        name = "gateway" if process.pid == pid or WORKER in command else name
        memory[name] = round(memory.get(name, 0.0) + held, 1)
        descriptors[name] = descriptors.get(name, 0) + opened
    return memory, descriptors


def row(minutes: float, tally: Tally, held: tuple[dict[str, float], dict[str, int]]) -> Json:
    """What came to its end in this minute, and what the server holds at its end. minutes: since the
    begin."""
    memory, descriptors = held
    return {
        "minute": round(minutes, 2),
        "sessions": tally.sessions,
        "commit_lag_s": metrics.summary(tally.lags),
        "words": tally.errors.words,
        "wrong_words": tally.errors.wrong,
        "drops": tally.drops,
        "refusals": tally.refusals,
        "errors": len(tally.problems),
        "problems": tally.problems[:SHOWN],
        "file_s": metrics.summary(tally.files),
        "video_s": metrics.summary(tally.videos),
        "changed_files": tally.changed,
        "memory_mib": memory,
        "descriptors": descriptors,
    }


def totals(rows: Sequence[Json], lags: Sequence[Sequence[float]]) -> Json:
    """Of all rows. lags: of each row's words, in seconds."""
    settled = rows[int(WARM_UP * len(rows)) :]
    quarter = max(1, len(rows) // 4)
    first, last = (
        metrics.summary([lag for row in part for lag in row])
        for part in (lags[:quarter], lags[-quarter:] if rows else [])
    )
    names = ("sessions", "words", "wrong_words", "drops", "refusals", "errors", "changed_files")
    return {
        **{name: sum(row[name] for row in rows) for name in names},
        "files": sum(row["file_s"]["n"] for row in rows),
        "videos": sum(row["video_s"]["n"] for row in rows),
        "commit_lag_s": metrics.summary([lag for row in lags for lag in row]),
        "first_quarter_lag_s": first,
        "last_quarter_lag_s": last,
        "memory_mib_an_hour": _slopes(settled, "memory_mib"),
        "descriptors_an_hour": _slopes(settled, "descriptors"),
    }


def _slopes(rows: Sequence[Json], what: str) -> dict[str, float]:
    """Least-squares growth an hour, of each process that was there in all rows."""
    names = set.intersection(*(set(row[what]) for row in rows)) if rows else set()
    return {
        name: round(60 * metrics.slope_per_minute(points), 2)
        for name in sorted(names)
        for points in [[(60 * row["minute"], row[what][name]) for row in rows]]
    }


def reasons(rows: Sequence[Json], result: Json) -> list[str]:
    """Why it is not good enough; nothing, if it is."""
    found = [
        f"{result[name]} {words}"
        for name, words in (
            ("drops", "sessions dropped"),
            ("refusals", "sessions refused"),
            ("errors", "errors"),
            ("changed_files", "files whose text changed"),
        )
        if result[name]
    ]
    if not result["words"]:
        found.append("not one session came to its end")
    if len(rows) < LEAST_ROWS:
        return found
    first, last = result["first_quarter_lag_s"], result["last_quarter_lag_s"]
    if first["n"] and last["n"] and last["p95"] > LAG_SHARE * first["p95"] + LAG_MORE:
        found.append(f"p95 commit lag {first['p95']:.2f} s at first, {last['p95']:.2f} s at last")
    for name, slope in result["memory_mib_an_hour"].items():
        # The decoders' memory is that of the files of the moment.
        held = float(np.median([row["memory_mib"][name] for row in rows]))
        if name != "decoders" and slope > GROWTH_SHARE * held:
            found.append(f"{name}: memory grows by {slope:.0f} MiB an hour, it is {held:.0f} MiB")
    return found
