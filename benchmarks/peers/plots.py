"""The pictures of a comparison: latency distribution, lag over time, capacity. SVG."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lookhear.bench.numbers import Json

# Colours that stay apart for the colour-blind (Okabe and Ito, 2008); lines differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BIN_SECONDS = 5.0
MOST_SECONDS = 12.0  # of an axis of lags: beyond it nothing is live


def draw(result: Json, folder: Path) -> list[Path]:
    """All plots that the comparison has numbers for; the files, written to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, fill in PLOTS.items():
        figure = Figure(figsize=(7.0, 4.8), layout="constrained")
        axes: Axes = figure.subplots()
        if not fill(axes, result):
            continue
        axes.grid(True, alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
        path = folder / f"compare-{name}.svg"
        # Without the date, so that the same numbers give the same file.
        figure.savefig(path, metadata={"Date": None})
        drawn.append(path)
    return drawn


def _colour(result: Json, server: str) -> str:
    return COLOURS[list(result["servers"]).index(server) % len(COLOURS)]


def _loads(result: Json) -> tuple[str, list[tuple[str, Json]]]:
    """The largest number of sessions that the most servers were measured with, and they."""
    found: dict[str, list[tuple[str, Json]]] = {}
    for server, numbers in result["servers"].items():
        for sessions, live in numbers.get("live", {}).items():
            if live.get("lags"):
                found.setdefault(sessions, []).append((server, live))
    if not found:
        return "0", []
    return max(found.items(), key=lambda item: (len(item[1]), int(item[0])))


def distribution(axes: Axes, result: Json) -> bool:
    """Share of words by their lag, committed and settled."""
    sessions, measured = _loads(result)
    for server, live in measured:
        points = np.asarray(live["lags"], dtype=float)
        for column, style, what in ((1, "-", "committed"), (2, ":", "settled on the screen")):
            lags = np.sort(points[:, column])
            shares = np.arange(1, len(lags) + 1) / len(lags)
            label = f"{server}, {what}"
            axes.plot(lags, shares, style, color=_colour(result, server), label=label)
    axes.set(
        xlabel="seconds after the word's end was sent",
        ylabel="share of words",
        title=f"Lag per word, {_sessions(sessions)}",
        xlim=(-0.5, min(MOST_SECONDS, _most(measured))),
        ylim=(0, 1),
    )
    return bool(measured)


def over_time(axes: Axes, result: Json) -> bool:
    """Median lag in bins of five seconds of audio: a server that cannot keep up climbs."""
    sessions, measured = _loads(result)
    for server, live in measured:
        points = np.asarray(live["lags"], dtype=float)
        bins = (points[:, 0] // BIN_SECONDS).astype(int)
        present = np.unique(bins)
        medians = [float(np.median(points[bins == number, 1])) for number in present]
        middles = (present + 0.5) * BIN_SECONDS
        axes.plot(middles, medians, "o-", ms=3, color=_colour(result, server), label=server)
    axes.set(
        xlabel="seconds of audio",
        ylabel="median commit lag, seconds",
        title=f"Commit lag over time, {_sessions(sessions)}",
    )
    axes.set_ylim(0, min(MOST_SECONDS, max(1.0, float(axes.get_ylim()[1]))))
    return bool(measured)


def capacity(axes: Axes, result: Json) -> bool:
    """p95 lag by the number of sessions, committed and settled, with the bound."""
    bound: float | None = None
    for server, numbers in result["servers"].items():
        searches = [numbers[key] for key in ("capacity", "capacity_settled") if key in numbers]
        if not searches:
            continue
        bound = searches[0]["bounds"]["lag"]
        measured = {p["sessions"]: p["numbers"] for found in searches for p in found["probes"]}
        for found, style in zip(searches, ("-", ":"), strict=False):
            kind = "settled" if found["bounds"]["settled"] else "commit"
            points = sorted(
                (sessions, probe[f"{kind}_lag_s"]["p95"])
                for sessions, probe in measured.items()
                if probe and probe[f"{kind}_lag_s"]["n"]
            )
            if points:
                what = "settled" if found["bounds"]["settled"] else "committed"
                label = f"{server}, {what}: {found['sessions']} hold"
                x, y = zip(*points, strict=True)
                axes.plot(x, y, f"o{style}", ms=4, color=_colour(result, server), label=label)
    if bound is None:
        return False
    axes.axhline(bound, color="grey", ls="--", lw=1, label=f"bound, {bound:g} s")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set(
        xlabel="live sessions",
        ylabel="p95 lag per word, seconds",
        title="How many sessions hold the bound",
        ylim=(0, MOST_SECONDS),
    )
    return True


PLOTS: dict[str, Callable[[Axes, Json], bool]] = {
    "latency": distribution,
    "lag": over_time,
    "capacity": capacity,
}


def _sessions(count: str) -> str:
    return "one session" if count == "1" else f"{count} sessions at once"


def _most(measured: list[tuple[str, Json]]) -> float:
    lags: list[Any] = [point[1] for _, live in measured for point in live["lags"]]
    return max(2.0, max(lags, default=0.0) * 1.05)
