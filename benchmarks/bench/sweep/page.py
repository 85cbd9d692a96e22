"""The results of a sweep on one page of HTML that needs nothing else. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from lookhear.bench.numbers import Json
from lookhear.bench.sweep.pareto import Trade, plot

STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}
table{border-collapse:collapse;margin:.5em 0 1.5em}td,th{padding:.15em .7em;text-align:right}
th{border-bottom:1px solid #000;font-weight:600}td:first-child,th:first-child{text-align:left}
svg text{font-size:12px}small{color:#555}"""
Row = Sequence[object]


def page(result: Json) -> str:
    """result: `points` as the journal has them, `searches`, and what machine and command it was."""
    points: list[Json] = result["points"]
    parts = [
        "<!doctype html><meta charset='utf-8'><title>lookhear bench sweep</title>",
        f"<style>{STYLE}</style><h1>lookhear bench sweep</h1>",
        _about(result, points),
        _section("The most that holds", SEARCHED, searched(result["searches"])),
        _section("Start", STARTED, started(points)),
        _section("Live sessions", LIVE, live(points)),
        plot(trades(points, "live"), "p95 lag of a word, s", "seconds of audio a second"),
        _section("Files, by how many come a second", FILES, files(points)),
        plot(trades(points, "files"), "p95 answer, s", "seconds of audio a second"),
        _section("Attention alone", ATTENTION, attention(points)),
    ]
    return "\n".join(filter(None, parts)) + "\n"


SEARCHED = "variant", "of", "length s", "the most", "limited by", "bounds"
STARTED = "variant", "ready s", "first text s"
LIVE = ("variant", "protocol", "length s", "sessions", "lag p50 s", "p95 s", "final p95 s") + (
    "WER",
    "audio s / s",
    "CPU s / s",
    "MiB",
    "drops",
)
FILES = (
    "variant",
    "length s",
    "a second",
    "answer p50 s",
    "p95 s",
    "WER",
    "audio s / s",
    "refused",
)
ATTENTION = "kind", "rows", "length", "us", "us a row", "on"


def searched(searches: Iterable[Json]) -> list[Row]:
    """What each search found."""
    return [
        (s["variant"], s["of"], _number(s["length"]), _number(s["most"]), s["limited_by"], s["by"])
        for s in searches
    ]


def started(points: Iterable[Json]) -> list[Row]:
    """How long servers took to start."""
    return [
        (_name(p), _number(n["ready_s"], 2), _number(n["first_text_s"], 2))
        for p, n in _of("start", points)
    ]


def live(points: Iterable[Json]) -> list[Row]:
    """Each load of live sessions."""
    return [
        (
            _name(p),
            _protocol(p) or "-",
            _number(p["length"]),
            _number(p["load"]),
            *_seconds(n["commit_lag_s"], "p50", "p95"),
            *_seconds(n["utterance"]["final_s"], "p95"),
            f"{n['wer_all']:.1%}",
            _number(n["audio_per_second"], 2),
            _number(n["cpu_seconds"] / n["audio_seconds"], 3) if "cpu_seconds" in n else "-",
            _number(n["peak_rss_mib"]) if "peak_rss_mib" in n else "-",
            n["drops"],
        )
        for p, n in _of("live", points)
    ]


def files(points: Iterable[Json]) -> list[Row]:
    """Each load of files."""
    return [
        (
            _name(p),
            _number(p["length"]),
            _number(p["load"]),
            *_seconds(n["answer_s"], "p50", "p95"),
            f"{n['wer_all']:.1%}",
            _number(n["audio_per_second"], 2),
            n["refused"],
        )
        for p, n in _of("files", points)
    ]


def attention(points: Iterable[Json]) -> list[Row]:
    """Each shape of attention."""
    return [
        (
            p["about"],
            _number(p["load"]),
            _number(p["length"]),
            _number(n["us"]),
            _number(n["us_per_row"], 1),
            f"{n['device']}, {n['dtype']}",
        )
        for p, n in _of("attention", points)
    ]


def trades(points: Iterable[Json], kind: str) -> list[Trade]:
    """What to choose among: how soon text comes against how much is heard at once."""
    found = []
    for p, n in _of(kind, points):
        waits = n["commit_lag_s"] if kind == "live" else n["answer_s"]
        if waits["n"]:
            load = f"{_number(p['load'])} {'sessions' if kind == 'live' else 'files a second'}"
            name = " ".join(filter(None, (_name(p), _protocol(p))))
            label = f"{name}: {load} of {_number(p['length'])} s"
            found.append(Trade(waits["p95"], n["audio_per_second"], name, label))
    return found


def _of(kind: str, points: Iterable[Json]) -> list[tuple[Json, Json]]:
    chosen = [(p["point"], p["numbers"]) for p in points if p["point"]["kind"] == kind]
    return sorted(chosen, key=lambda one: (_name(one[0]), one[0]["about"], one[0]["length"],
                                           one[0]["load"]))  # fmt: skip


def _name(point: Json) -> str:
    return str(point["variant"]["name"]) if point["variant"] else ""


def _protocol(point: Json) -> str:
    """Of live sessions; empty where it was not written down yet."""
    return str(point["about"]).partition(" wire=")[2]


def _seconds(summary: Json, *names: str) -> list[str]:
    return [_number(summary[name], 2) if summary["n"] else "-" for name in names]


def _number(value: float, digits: int = 0) -> str:
    if digits:
        return f"{value:.{digits}f}"
    return f"{value:g}" if value < 100 else f"{value:.0f}"


def _about(result: Json, points: Sequence[Json]) -> str:
    commits = sorted({str(point["commit"]) for point in points})
    told = [
        f"{result['cpu']}, {result['cores']} cores; torch {result['torch']}",
        result["command"],
        f"{len(points)} points, of commit {', '.join(commits)}" if commits else "no points",
    ]
    kinds = sorted({str(point["cpu"]) for point in points})
    if len(commits) > 1 or len(kinds) > 1:
        told.append(f"not all by one version or machine ({', '.join(kinds)}): compare with care")
    return "<p><small>" + "<br>".join(map(escape, told)) + "</small>"


def _section(title: str, columns: Row, rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(str(cell))}</th>" for cell in columns)
    lines = (
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    table = "\n".join([f"<table><tr>{head}</tr>", *lines, "</table>"])
    return f"<h2>{escape(title)}</h2>\n{table}"
