"""A comparison as tables: a column for each server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lookhear.bench.numbers import Json

Cell = Callable[[Json], str]


def tables(result: Json) -> Iterator[RenderableType]:
    """One per number of sessions, how many sessions each server holds, and the engines offline."""
    servers: dict[str, Json] = result["servers"]
    counts = sorted({int(count) for found in servers.values() for count in found.get("live", {})})
    for count in counts:
        about = "one session" if count == 1 else f"{count} sessions at once"
        title = (
            f"{result.get('checkpoint', 'whisper')}, {about}, {result['seconds']:g} s each, "
            f"{result['threads']} threads; times are p50/p95"
        )
        live = {name: found.get("live", {}).get(str(count)) for name, found in servers.items()}
        yield from _table(title, live, ROWS)
    for key in ("capacity", "capacity_settled"):
        held = {name: found.get(key) for name, found in servers.items()}
        if any(held.values()):
            yield from _table(key.replace("_", ", "), held, CAPACITY)
    offline: dict[str, Json] = result.get("offline", {})
    if any("rtfx" in found for found in offline.values()):
        engines = {name: found if "rtfx" in found else None for name, found in offline.items()}
        yield from _table(f"offline, {result['threads']} threads", engines, OFFLINE)
    failed = {
        name: found["failed"]
        for name, found in [*servers.items(), *offline.items()]
        if "failed" in found
    }
    for name, found in servers.items():
        for count, reason in found.get("broken", {}).items():
            failed[f"{name}, {count} sessions"] = reason
    if failed:
        yield Text("\nnot measured", style="bold")
        table = Table(box=None, show_header=False)
        for name, reason in failed.items():
            table.add_row(name, reason)
        yield table


def _table(
    title: str, measured: dict[str, Json | None], rows: Sequence[tuple[str, Cell]]
) -> Iterator[RenderableType]:
    """A column for each server that has numbers, below a title, which may be wider."""
    yield Text(f"\n{title}", style="bold")
    table = Table(box=None)
    table.add_column("", no_wrap=True)
    shown = {name: numbers for name, numbers in measured.items() if numbers is not None}
    for name in shown:
        table.add_column(name.replace("-", "-\n"), justify="right", overflow="fold")
    for name, cell in rows:
        table.add_row(name, *(cell(numbers) for numbers in shown.values()))
    yield table


def _seconds(*path: str) -> Cell:
    """p50/p95 of a summary."""

    def cell(numbers: Json) -> str:
        found: Any = numbers
        for key in path:
            found = found[key]
        return f"{found['p50']:.2f}/{found['p95']:.2f}" if found["n"] else "-"

    return cell


def _growth(numbers: Json) -> str:
    growth = numbers["commit_lag_growth_s_per_minute"]
    return "-" if growth is None else f"{growth:+.2f}"


def _cpu(numbers: Json) -> str:
    return f"{numbers['cpu_seconds'] / max(0.1, numbers['audio_seconds']):.3f}"


def _gap(numbers: Json) -> str:
    gap = numbers.get("streaming_gap")
    return "-" if gap is None else f"{gap:+.2%}"


ROWS: tuple[tuple[str, Cell], ...] = (
    ("WER", lambda numbers: f"{numbers['wer_all']:.2%}"),
    ("WER above offline", _gap),
    ("commit lag per word s", _seconds("commit_lag_s")),
    ("settled lag per word s", _seconds("settled_lag_s")),
    ("first text s", _seconds("utterance", "first_text_s")),
    ("first text shown s", _seconds("utterance", "first_shown_s")),
    ("last word s", _seconds("utterance", "final_s")),
    ("last word shown s", _seconds("utterance", "final_shown_s")),
    ("LAAL s", _seconds("utterance", "laal_s")),
    ("text after the end s", _seconds("finish_s")),
    ("gap between updates s", _seconds("cadence_s")),
    ("growth of the lag, s per minute", _growth),
    ("erased words per final word", lambda numbers: f"{numbers['erasure']:.2f}"),
    ("committed words taken back", lambda numbers: str(numbers["retracted_words"])),
    ("dropped sessions", lambda numbers: str(numbers["drops"])),
    ("CPU s per s of audio", _cpu),
    ("peak memory, MiB", lambda numbers: f"{numbers['peak_rss_mib']:.0f}"),
    ("generator late at worst, s", lambda numbers: f"{numbers['generator_late_s']:.3f}"),
)


def _bounds(capacity: Json) -> str:
    bounds = capacity["bounds"]
    return f"{bounds['lag']:g}/{bounds['final']:g}"


def _stopped(capacity: Json) -> str:
    """What the smallest number of sessions above the answer lacked."""
    above = {p["sessions"]: p for p in capacity["probes"] if p["sessions"] > capacity["sessions"]}
    if not above:
        return "-"
    first = above[min(above)]  # the last time that it was asked
    return "\n".join([f"{first['sessions']} sessions:", *first["reasons"]])


CAPACITY: tuple[tuple[str, Cell], ...] = (
    ("sessions that hold", lambda capacity: str(capacity["sessions"])),
    ("p95 lag/last word s", _bounds),
    ("text that counts", lambda c: "settled" if c["bounds"]["settled"] else "committed"),
    ("limited by", lambda capacity: str(capacity["limited_by"])),
    ("the next did not hold", _stopped),
)

OFFLINE: tuple[tuple[str, Cell], ...] = (
    ("WER", lambda numbers: f"{numbers['wer_all']:.2%}"),
    ("RTFx", lambda numbers: f"{numbers['rtfx']:.1f}"),
    ("answer s", _seconds("answer_s")),
    ("CPU s per s of audio", _cpu),
    ("peak memory, MiB", lambda numbers: f"{numbers['peak_rss_mib']:.0f}"),
)
