"""A result as a table on the terminal."""

from __future__ import annotations

from typing import Any

from rich.table import Table

SECONDS = {
    "first_text_s": "first text after speech onset",
    "first_shown_s": "first text shown, provisional counts",
    "final_s": "final after the end of speech",
    "commit_lag_s": "commit lag per word",
    "cadence_s": "gap between text events",
}


def table(result: dict[str, Any]) -> Table:
    """The numbers that the promises are about; everything else is in the JSON."""
    title = f"{result['scenario']}: {result['sessions']} sessions, {result['audio_seconds']} s"
    shown = Table(title=title, title_justify="left", title_style="bold")
    for column in ("", "n", "mean", "p50", "p95", "max"):
        shown.add_column(column, justify="left" if not column else "right")
    for key, name in SECONDS.items():
        numbers = result[key]
        cells = [
            f"{numbers[q]:.3f} s" if q in numbers else "-" for q in ("mean", "p50", "p95", "max")
        ]
        shown.add_row(name, str(numbers["n"]), *cells)
    shown.add_section()
    for group in result.get("wer", []):
        low, high = group["interval"]
        right = group["language_right"]
        shown.add_row(
            f"WER {group['language']}, {group['voices']} voices",
            str(group["utterances"]),
            f"{group['wer']:.2%}",
            f"{low:.2%}",
            f"{high:.2%}",
            "" if right is None else f"lang {right:.1%}",
        )
    low, high = result["wer_interval"]
    row = str(result["turns"]), f"{result['wer_all']:.2%}", f"{low:.2%}", f"{high:.2%}"
    shown.add_row("WER, all (95 % interval)", *row)
    shown.add_row("lag growth per minute", "", f"{result['commit_lag_growth_s_per_minute']:+.4f} s")
    shown.add_row("erased words per final word", "", f"{result['erasure']:.3f}")
    shown.add_row(
        "drops, broken promises", "", str(result["drops"]), str(result["violation_count"])
    )
    shown.add_row("generator late at worst", "", f"{result['generator_late_s']:.3f} s")
    for name, minutes in result.get("processes", {}).items():
        full = [minute for minute in minutes if "rss_mib" in minute]
        if full:
            first, last = full[min(1, len(full) - 1)], full[-1]
            shown.add_row(
                f"{name}: MiB, CPU share, minute {first['minute']} -> {last['minute']}",
                "",
                f"{first['rss_mib']:.0f}",
                f"{last['rss_mib']:.0f}",
                f"{first['cpu']:.3f}",
                f"{last['cpu']:.3f}",
            )
    return shown
