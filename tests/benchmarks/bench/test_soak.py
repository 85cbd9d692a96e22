"""What the rows of a soak say together."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.bench.soak.load import Tally
from lookhear.bench.soak.minutes import LEAST_ROWS, footprint, reasons, row, totals
from lookhear.wer import WordErrors

ROWS = 3 * LEAST_ROWS


def rows_of(
    tallies: list[Tally], memory: list[float] | None = None
) -> tuple[list[dict[str, Any]], list[list[float]]]:
    held = memory or [100.0] * len(tallies)
    rows = [
        row(minute + 1, tally, ({"gateway": mib, "decoders": 2 * mib}, {"gateway": 40}))
        for minute, (tally, mib) in enumerate(zip(tallies, held, strict=True))
    ]
    return rows, [tally.lags for tally in tallies]


def steady(count: int = ROWS, lag: float = 0.5) -> list[Tally]:
    return [
        Tally(2, [lag] * 20, WordErrors(words=20), files=[1.0], videos=[0.5]) for _ in range(count)
    ]


def test_a_steady_server_is_good() -> None:
    rows, lags = rows_of(steady())
    result = totals(rows, lags)
    assert reasons(rows, result) == []
    assert result["sessions"] == 2 * ROWS and result["files"] == result["videos"] == ROWS
    assert result["memory_mib_an_hour"] == {"gateway": 0.0, "decoders": 0.0}


@given(st.floats(-50, 50), st.floats(50, 500))
def test_the_slope_is_that_of_the_memory(an_hour: float, at_first: float) -> None:
    memory = [at_first + an_hour * (minute + 1) / 60 for minute in range(ROWS)]
    rows, lags = rows_of(steady(), memory)
    result = totals(rows, lags)
    # Rows are rounded to a tenth of a MiB.
    assert result["memory_mib_an_hour"]["gateway"] == pytest.approx(an_hour, abs=1.5)
    found = [reason for reason in reasons(rows, result) if "grows" in reason]
    assert bool(found) == (an_hour > 0.05 * at_first) or abs(an_hour - 0.05 * at_first) < 4
    assert not any(reason.startswith("decoders") for reason in found)


def test_what_is_loaded_at_first_is_no_growth() -> None:
    warm = ROWS // 4
    memory = [100.0 + 20 * minute for minute in range(warm)] + [220.0] * (ROWS - warm)
    rows, lags = rows_of(steady(), memory)
    assert reasons(rows, totals(rows, lags)) == []


@pytest.mark.parametrize(
    ("worse", "said"),
    [
        (Tally(drops=1), "1 sessions dropped"),
        (Tally(refusals=2), "2 sessions refused"),
        (Tally(problems=["503"]), "1 errors"),
        (Tally(changed=3), "3 files whose text changed"),
    ],
)
def test_one_bad_minute_is_told(worse: Tally, said: str) -> None:
    rows, lags = rows_of([*steady(), worse])
    assert reasons(rows, totals(rows, lags)) == [said]


def test_a_lag_that_moves_is_told() -> None:
    rows, lags = rows_of([*steady(), *steady(lag=0.8)])
    assert reasons(rows, totals(rows, lags)) == ["p95 commit lag 0.50 s at first, 0.80 s at last"]
    few, lags = rows_of([*steady(2), *steady(2, lag=0.8)])
    assert reasons(few, totals(few, lags)) == []


def test_nothing_at_all_is_not_good() -> None:
    rows, lags = rows_of([])
    assert reasons(rows, totals(rows, lags)) == ["not one session came to its end"]


def test_what_a_process_holds() -> None:
    memory, descriptors = footprint(os.getpid())
    assert memory["gateway"] > 10 and descriptors["gateway"] > 2
