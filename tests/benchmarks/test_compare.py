"""The comparison: what is kept of traces, and what is shown of results."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from benchmarks.peers import compare, compare_table, plots
from lookhear.bench import prober
from lookhear.bench.capacity import Bounds, Probe, search, verdict
from lookhear.bench.generator import Target
from lookhear.bench.measures.metrics import retracted
from lookhear.bench.measures.trace import RATE, SpokenWord, Trace
from lookhear.bench.numbers import MOST_POINTS, lags_of, live_numbers
from lookhear.bench.offline import Answer, Run, numbers
from lookhear.bench.prober import as_json
from lookhear.bench.recordings.session import Session
from lookhear.commands import main as cli
from lookhear.errors import ConnectionFailed, LookhearError

KIND = "conversation.item.input_audio_transcription."
USED = {"cpu_seconds": 3.0, "peak_rss_mib": 500.0}


def session(count: int = 40) -> Session:
    words = tuple(SpokenWord(f"w{n}", n + 0.1, n + 0.6) for n in range(count))
    pcm = np.zeros((count + 1) * RATE, "<i2")
    return Session("s", pcm, " ".join(word.word for word in words), words, "en")


def trace(said: Session, lag: float, name: str = "s") -> Trace:
    """Every word committed `lag` after its end, and shown right at its end."""
    samples = len(said.pcm) + RATE
    packets = [(n / 10, n * RATE // 10) for n in range(1, samples * 10 // RATE + 1)]
    found = Trace(name, packets, [], 1000)
    for word in said.words:
        end = found.sent_at(word.end)
        open_words = [w for w in said.words if w.end <= word.end < w.end + lag]
        text = "".join(f"{w.word} " for w in open_words)
        shown = {"type": "lookhear.input_audio_transcription.provisional", "text": text}
        found.events.append((end, {"item_id": "a", **shown}))
        delta = {"type": KIND + "delta", "item_id": "a", "delta": f"{word.word} "}
        found.events.append((end + lag, delta))
    found.events.sort(key=lambda event: event[0])
    last = found.packets[-1][0] + lag
    found.events.append((last, {"type": "input_audio_buffer.committed", "item_id": "a"}))
    done = {"type": KIND + "completed", "item_id": "a", "transcript": said.text + " "}
    found.events.append((last, done))
    return found


def live(lag: float) -> dict[str, Any]:
    said = session()
    traces = [trace(said, lag)]
    return live_numbers([said], traces) | USED | {"lags": lags_of([said], traces)}


def result() -> dict[str, Any]:
    def probe(sessions: int) -> Probe:
        return verdict(sessions, live(sessions * 0.25), 0.0, Bounds())

    held = as_json(search(probe, 16), Bounds())
    said = session()
    whole = numbers([said], Run([Answer(said.text.replace("w3 ", ""), None, 0.5)], 0.5, USED))
    found: dict[str, Any] = {
        "scenario": "compare",
        "seconds": 40.0,
        "threads": 2,
        "offline": {"lookhear": whole, "broken": {"failed": "not installed"}},
        "servers": {
            "lookhear": {
                "live": {"1": live(0.5)},
                "capacity": held,
            },
            "other": {
                "live": {"1": live(3.0), "4": live(6.0)},
                "broken": {"8": "closed early"},
            },
            "absent": {"failed": "nothing there"},
        },
    }
    compare.add_gaps(found)
    return found


def test_the_numbers_of_a_trace_are_those_that_were_put_in() -> None:
    found = live(0.5)
    assert found["wer_all"] == 0.0 and found["drops"] == found["violation_count"] == 0
    assert found["commit_lag_s"]["p50"] == found["commit_lag_s"]["p95"] == 0.5
    assert found["utterance"]["final_s"]["max"] == 0.5
    assert found["utterance"]["final_shown_s"]["max"] == 0.0
    assert found["commit_lag_growth_s_per_minute"] == pytest.approx(0.0, abs=1e-6)
    assert found["finish_s"]["max"] == 0.5 and found["erasure"] == 0.0
    assert [row[1:] for row in found["lags"]] == [[0.5, 0.0]] * 40
    short = live_numbers([session(5)], [trace(session(5), 0.5)])
    assert short["commit_lag_growth_s_per_minute"] is None  # five seconds tell nothing


def test_a_session_that_broke_off_is_a_drop_without_latencies() -> None:
    said = session()
    broken = trace(said, 0.5)
    broken.packets = broken.packets[:50]
    broken.close_code, broken.problem = 1011, "closed early"
    found = live_numbers([said], [broken])
    assert found["drops"] == 1 and found["commit_lag_s"] == {"n": 0}
    assert lags_of([said], [broken]) == []


def test_committed_words_that_are_taken_back_are_counted() -> None:
    said = session(3)
    changed = trace(said, 0.5)
    assert retracted(changed) == 0
    changed.events[-1][1]["transcript"] = "w0 other"
    assert retracted(changed) == 2


def test_lags_are_thinned_evenly() -> None:
    said = session()
    many = [replace(said, name=f"s{n}") for n in range(50)]
    rows = lags_of(many, [trace(said, 0.5, s.name) for s in many])
    assert len(rows) == MOST_POINTS
    assert rows[0][0] == 0.6 and rows[-1][0] == 39.6


def test_the_streaming_gap_is_live_less_offline() -> None:
    found = result()["servers"]
    assert found["lookhear"]["live"]["1"]["streaming_gap"] == -0.025  # offline missed 1 of 40
    assert "streaming_gap" not in found["other"]["live"]["1"]  # its engine was not measured


def test_tables_show_every_server_that_was_measured() -> None:
    output = Console(file=io.StringIO(), width=160)
    for table in compare_table.tables(result()):
        output.print(table)
    text = output.file.getvalue()  # type: ignore[attr-defined]
    for wanted in ("one session, 40 s each, 2 threads", "4 sessions at once", "3.00/3.00"):
        assert wanted in text
    assert "9 sessions:" in text and "p95 commit lag 2.25 s > 2 s" in text  # 8 hold
    assert "16 sessions:" not in text
    assert "other, 8 sessions" in text and "closed early" in text
    assert "nothing there" in text and "not installed" in text


def test_what_was_measured_for_one_bound_serves_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def generate(target: Any, sessions: list[Session], count: int, *rest: Any, **_: Any) -> Any:
        asked.append(count)
        if count > 6:
            raise ConnectionFailed("all refused")
        return [trace(s, 0.45 * count, s.name) for s in sessions]

    monkeypatch.setattr(prober, "generate", generate)
    monkeypatch.setattr(prober, "PAUSE_SECONDS", 0.0)
    console = Console(file=io.StringIO())

    def measure(sessions: int) -> dict[str, Any]:
        return prober.measure(Target("ws://a.example"), session(), sessions, console)

    one = prober.Prober(measure, console)
    committed = search(one.by(Bounds()), 16)
    assert committed.sessions == 4 and sorted(asked) == [1, 2, 4, 5, 6, 8]
    settled = search(one.by(Bounds(settled=True)), 16)
    assert settled.sessions == 6 and sorted(asked) == [1, 2, 4, 5, 6, 7, 8]
    assert settled.probes[-1].reasons == ("all refused",)
    assert one.numbers(4)["lags"] and len(asked) == 7
    kept = as_json(settled, Bounds())["probes"]
    assert not any("lags" in probe["numbers"] for probe in kept)


def test_plots_are_drawn_and_repeatable(tmp_path: Path) -> None:
    names = {"compare-latency.svg", "compare-lag.svg", "compare-capacity.svg"}
    assert {path.name for path in plots.draw(result(), tmp_path)} == names
    assert plots.draw({"servers": {"a": {"failed": "x"}}}, tmp_path) == []


def test_a_result_is_shown_again_without_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "compare.json"
    path.write_text(json.dumps(result()))
    options = "--read", str(path), "--images", str(tmp_path)
    assert cli.main(["bench", "compare", *options]) == 1  # one was not measured
    assert "capacity" in capsys.readouterr().out
    path.write_text('{"scenario": "live"}')
    assert cli.main(["bench", "compare", *options]) == 1
    assert "expected a result of bench compare" in capsys.readouterr().err
    assert cli.main(["bench", "compare", "nobody"]) == 2


def test_one_server_that_fails_does_not_cost_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(name: str, *rest: Any) -> dict[str, Any]:
        if name == "whisperlive":
            raise LookhearError("it is not installed\nand more")
        return {"live": {"1": live(0.5)}}

    monkeypatch.setattr(compare, "measure_server", measure)
    options = "--seconds", "5", "--out", str(tmp_path), "--images", str(tmp_path)
    assert compare.main(["whisperlive", "lookhear", *options]) == 1
    found = json.loads((tmp_path / "compare.json").read_text())
    assert found["servers"]["whisperlive"] == {"failed": "it is not installed"}
    assert compare.main(["whisperlivekit-alignatt", *options, "--keep"]) == 1
    found = json.loads((tmp_path / "compare.json").read_text())
    assert list(found["servers"]) == ["whisperlive", "lookhear", "whisperlivekit-alignatt"]
