"""A result of `lookhear bench human` as tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table


def tables(result: dict[str, Any]) -> Iterator[Table]:
    """Accuracy, then latencies, then what was written where nobody speaks."""
    spoken = [entry for entry in result["conditions"] if "language" in entry]
    if spoken:
        memory = f", {result['peak_rss_mib']:.0f} MiB" if "peak_rss_mib" in result else ""
        yield _accuracy(f"\n{result['model']}{memory}", spoken)
    if any("live" in entry for entry in spoken):
        yield _latency([entry for entry in spoken if "live" in entry])
    for entry in result["conditions"]:
        if "language" not in entry:
            yield _nobody(entry)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


def _accuracy(title: str, entries: list[dict[str, Any]]) -> Table:
    columns = "audio s", "file WER", "95 %", "RTFx", "live WER", "95 %", "live - file", "burst WER"
    table = _table(title, "condition", *columns)
    for entry in entries:
        live, burst = entry.get("live", {}), entry.get("burst", {})
        table.add_row(
            f"{entry['condition']} {entry['language']}",
            f"{entry['audio_seconds']:.0f}",
            *_wer(entry["file"]),
            f"{entry['file']['rtfx']:.1f}",
            *_wer(live),
            f"{100 * live['gap_to_file']['gap']:+.1f}" if live else "-",
            _burst(burst),
        )
    return table


def _burst(numbers: dict[str, Any]) -> str:
    """Its errors, and how many promises were broken, if any: then they tell little."""
    broken = len(numbers.get("violations", ()))
    return f"{_wer(numbers)[0]} ({broken} broken)" if broken else _wer(numbers)[0]


def _wer(numbers: dict[str, Any]) -> tuple[str, str]:
    if not numbers:
        return "-", "-"
    low, high = numbers["wer_interval"]
    return f"{100 * numbers['wer_all']:.1f}", f"{100 * low:.1f} - {100 * high:.1f}"


def _latency(entries: list[dict[str, Any]]) -> Table:
    """Seconds, p50 and p95; then promises."""
    columns = "first text", "commit lag", "final text", "written as in the file", "language right"
    table = _table("", "live", *columns, "out of turn", "broken promises", "drops")
    for entry in entries:
        live = entry["live"]
        seconds = live["utterance"]["first_text_s"], live["commit_lag_s"], live["final_s"]
        table.add_row(
            f"{entry['condition']} {entry['language']}",
            *(_quantiles(numbers) for numbers in seconds),
            f"{live['sentences_alike']} of {live['sentences']}",
            _right(live),
            str(live["overtakings"]),
            str(live["violation_count"]),
            str(live["drops"]),
        )
    return table


def _right(live: dict[str, Any]) -> str:
    """Turns in which the language was found, of those with words; - of a model that names none."""
    turns: dict[str, int] = live["languages"]
    if not turns.keys() - {"None"}:
        return "-"
    return f"{live['languages_right']} of {sum(turns.values())}"


def _quantiles(numbers: dict[str, Any]) -> str:
    return f"{numbers['p50']:.2f}, {numbers['p95']:.2f}" if "p50" in numbers else "-"


def _nobody(entry: dict[str, Any]) -> Table:
    seconds = entry["audio_seconds"]
    ways = [way for way in ("file", "live") if way in entry]
    table = _table(f"\nnobody speaks, {seconds:.0f} s: words", "", *ways)
    for sound in entry["file"]["by_sound"]:
        table.add_row(sound, *(str(entry[way]["by_sound"][sound]) for way in ways))
    table.add_row("all", *(str(entry[way]["words"]) for way in ways))
    return table
