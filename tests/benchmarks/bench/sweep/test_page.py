from __future__ import annotations

from typing import Any

from lookhear.bench.sweep.page import page

SUMMARY = {"n": 3, "p50": 0.5, "p95": 1.25}
VARIANT = {"name": "a<b", "arguments": "--dtype int8"}
WHO = {"commit": "abc", "cpu": "some"}


def entry(kind: str, load: float, numbers: dict[str, Any]) -> dict[str, Any]:
    variant = None if kind == "attention" else VARIANT
    point = {"kind": kind, "variant": variant, "about": "audio", "length": 20.0, "load": load}
    return {"point": point, "numbers": numbers, **WHO}


LIVE = {
    "commit_lag_s": SUMMARY,
    "utterance": {"final_s": SUMMARY},
    "wer_all": 0.031,
    "audio_per_second": 2.0,
    "audio_seconds": 40.0,
    "cpu_seconds": 10.0,
    "peak_rss_mib": 812.0,
    "drops": 0,
}
FILES = {"answer_s": SUMMARY, "wer_all": 0.04, "audio_per_second": 7.5, "refused": 1}
ATTENTION = {"us": 90.0, "us_per_row": 11.25, "device": "cpu", "dtype": "float32"}
RESULT: dict[str, Any] = {
    "cpu": "some",
    "cores": 2,
    "torch": "2",
    "command": "lookhear bench sweep",
    "searches": [
        {
            "variant": "a<b",
            "of": "live sessions",
            "length": 20.0,
            "most": 6,
            "by": "p95 lag <= 2 s",
            "limited_by": "bound",
        }  # fmt: skip
    ],
    "points": [
        entry("start", 0, {"ready_s": 3.456, "first_text_s": 0.2}),
        entry("live", 2, LIVE),
        entry("files", 0.5, FILES),
        entry("attention", 8, ATTENTION),
    ],
}


def test_all_that_was_measured_is_on_the_page() -> None:
    html = page(RESULT)
    for cell in ("3.46", "1.25", "3.1%", "0.250", "812", "7.50", "0.5", "11.2", "live sessions"):
        assert f"<td>{cell}</td>" in html, cell
    assert "a&lt;b" in html and "a<b" not in html
    assert html.count("<svg") == 2 and "compare with care" not in html


def test_what_was_not_measured_has_no_table() -> None:
    html = page({**RESULT, "searches": [], "points": []})
    assert "<table>" not in html and "<svg" not in html


def test_loads_without_a_word_have_no_place_in_the_plot() -> None:
    silent = {**LIVE, "commit_lag_s": {"n": 0}, "utterance": {"final_s": {"n": 0}}}
    html = page({**RESULT, "points": [entry("live", 2, silent)]})
    assert "<td>-</td>" in html and "<svg" not in html


def test_numbers_of_two_versions_are_told_apart() -> None:
    points = [entry("live", 1, LIVE), {**entry("live", 2, LIVE), "commit": "def"}]
    assert "compare with care" in page({**RESULT, "points": points})
