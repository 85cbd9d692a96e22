"""A result as tables on the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Table

SECONDS = {
    "first_text_s": "first text",
    "first_shown_s": "first text shown",
    "final_s": "final text",
    "commit_lag_s": "commit lag per word",
    "settled_lag_s": "settled lag per word",
    "cadence_s": "gap between updates",
    "finish_s": "last text after the end",
}
UTTERANCES = {
    "first_text_s": "first text",
    "first_shown_s": "first text shown",
    "final_s": "last word",
    "final_shown_s": "last word shown",
    "laal_s": "lagging (LAAL)",
}


def tables(result: dict[str, Any]) -> Group:
    """The numbers that the promises are about; everything else is in the JSON."""
    parts = [_latency(result), _accuracy(result), _facts(result)]
    if result.get("processes"):
        parts.append(_processes(result["processes"]))
    if result.get("engine"):
        parts.append(_engine(result["engine"]))
    return Group(*parts)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    for column in columns:
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    return table


def _latency(result: dict[str, Any]) -> Table:
    """From the sound to the text, in seconds."""
    about = f"{result['scenario']}: {result['sessions']} sessions, {result['audio_seconds']} s"
    columns = "n", "mean s", "p50 s", "p95 s", "p99 s", "max s"
    table = _table(f"\n{about} of audio", "", *columns)
    for key, name in SECONDS.items():
        _seconds(table, name, result[key])
    table.add_row("by the pauses of the reference", style="dim")
    for key, name in UTTERANCES.items():
        _seconds(table, name, result["utterance"][key])
    return table


def _seconds(table: Table, name: str, numbers: dict[str, Any]) -> None:
    wanted = "mean", "p50", "p95", "p99", "max"
    cells = [f"{numbers[q]:.3f}" if q in numbers else "-" for q in wanted]
    table.add_row(name, str(numbers["n"]), *cells)


def _accuracy(result: dict[str, Any]) -> Table:
    table = _table("", "", "utterances", "WER", "95 % interval", "language found")
    for group in result.get("wer", []):
        right = group["language_right"]
        table.add_row(
            f"{group['language']}, {group['voices']} voices",
            str(group["utterances"]),
            f"{group['wer']:.2%}",
            _interval(group["interval"]),
            "-" if right is None else f"{right:.1%}",
        )
    interval = _interval(result["wer_interval"])
    table.add_row("all", str(result["sessions"]), f"{result['wer_all']:.2%}", interval, "")
    return table


def _interval(bounds: list[float]) -> str:
    low, high = bounds
    return f"{low:.2%} - {high:.2%}"


def _facts(result: dict[str, Any]) -> Table:
    table = _table("", "", "", "")
    growth = result["commit_lag_growth_s_per_minute"]
    if growth is not None:
        table.add_row("growth of the lag per minute", f"{growth:+.4f} s")
    gap = result.get("gap_to_offline", {})
    if "gap" in gap:
        table.add_row("WER above offline", f"{gap['gap']:+.2%}", _interval(gap["interval"]))
    table.add_row("erased words per final word", f"{result['erasure']:.3f}")
    table.add_row("committed words taken back", str(result["retracted_words"]))
    table.add_row("dropped sessions", str(result["drops"]))
    table.add_row("broken promises", str(result["violation_count"]))
    table.add_row("generator late at worst", f"{result['generator_late_s']:.3f} s")
    return table


def _engine(minutes: list[dict[str, float]]) -> Table:
    """The second minute and the last."""
    table = _table("", "engine, minute", "ticks", "ms per tick", "draft kept")
    chosen = {m["minute"]: m for m in (minutes[min(1, len(minutes) - 1)], minutes[-1])}
    for number, minute in chosen.items():
        table.add_row(
            f"{number:.0f}",
            f"{minute['ticks']:.0f}",
            f"{minute['tick_ms']:.1f}",
            f"{minute['draft_kept']:.0%}",
        )
    return table


def _processes(processes: dict[str, list[dict[str, Any]]]) -> Table:
    """The second minute (the first is still warming up) and the last."""
    table = _table("", "", "minute", "MiB", "CPU", "last minute", "MiB", "CPU")
    for name, minutes in processes.items():
        full = [minute for minute in minutes if "rss_mib" in minute]
        if full:
            cells = [
                cell
                for minute in (full[min(1, len(full) - 1)], full[-1])
                for cell in (
                    str(minute["minute"]),
                    f"{minute['rss_mib']:.0f}",
                    f"{minute['cpu']:.3f}",
                )
            ]
            table.add_row(name, *cells)
    return table
