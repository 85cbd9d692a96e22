"""The load generator and the data set: what is sent is what was planned, on time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lookhear.bench import load
from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import RATE, SpokenWord, Trace
from lookhear.bench.recordings.dataset import Audio, Utterance, held_out, long_recordings, looped
from lookhear.bench.wires.job import Job, SessionPlan
from tests.benchmarks.recordings import write_recordings
from tests.clients.counting_server import CountingServer, Drop, said, speech

QUICK = 20.0  # times the speed of speech


def plan(tmp_path: Path, url: str, sessions: int) -> Job:
    pcm = speech([101, 102], [103])
    (tmp_path / "pcm").write_bytes(pcm * sessions)
    size = len(pcm) // 2
    plans = [SessionPlan(f"s{n}", n * size, (n + 1) * size) for n in range(sessions)]
    wire = url.replace("http", "ws") + "/v1/realtime?intent=transcription"
    return Job(wire, str(tmp_path / "pcm"), plans, sessions, 0.05, QUICK)


async def test_sessions_are_streamed_whole(tmp_path: Path) -> None:
    async with CountingServer().running() as server:
        job = plan(tmp_path, server.url, 3)
        assert Job.from_json(job.to_json()) == job
        traces = await load.run(job)
    assert sorted(trace.name for trace in traces) == ["s0", "s1", "s2"]
    for trace in traces:
        assert metrics.invariant_violations(trace) == [] and not metrics.dropped(trace)
        assert metrics.hypothesis(trace).split() == said([101, 102], [103])
        assert trace.packets[-1][1] == len(speech([101, 102], [103])) // 2 + int(1.2 * RATE)
        assert all(when >= end / RATE / QUICK for when, end in trace.packets)
    assert server.updates[0]["lookhear"] == {"provisional": True}


async def test_a_lost_session_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    async with CountingServer([Drop(after_events=4, code=1011)]).running() as server:
        traces = await load.run(plan(tmp_path, server.url, 2))
    assert sorted(metrics.dropped(trace) for trace in traces) == [False, True]
    (lost,) = [trace for trace in traces if metrics.dropped(trace)]
    assert lost.close_code == 1011 and lost.problem is not None


async def test_a_server_that_is_not_there_is_a_problem_not_a_crash(tmp_path: Path) -> None:
    async with CountingServer().running() as server:
        job = plan(tmp_path, server.url, 1)
    (trace,) = await load.run(job)
    assert trace.problem is not None and metrics.dropped(trace)


def test_ctrl_c_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(job: Job) -> list[Trace]:
        raise KeyboardInterrupt

    monkeypatch.setattr(load, "run", interrupted)
    hurries = list[int]()  # the tests behind this one do not
    monkeypatch.setattr(os, "nice", hurries.append)
    (tmp_path / "job").write_text(plan(tmp_path, "http://127.0.0.1:1", 1).to_json())
    assert load.main([str(tmp_path / "job"), str(tmp_path / "results")]) == 130
    assert hurries == [-10]


def test_utterances_come_with_their_own_clock(tmp_path: Path) -> None:
    write_recordings(tmp_path)
    (utterance,) = held_out(tmp_path)
    assert utterance.split == "unseen" and utterance.name == "en_seen/0"
    assert utterance.words[0] == SpokenWord("w1", 0.25, 0.75)
    samples = Audio(tmp_path).of(utterance)
    assert len(samples) == 2 * RATE
    assert samples[RATE // 2] == pytest.approx(4096, abs=80)  # level 1 / 8


def test_long_recordings_are_looped_and_cut_between_words(tmp_path: Path) -> None:
    write_recordings(tmp_path)
    (recording,) = long_recordings(tmp_path)
    assert isinstance(recording, Utterance) and recording.text == "w0 w1 w2 w3"
    pcm, text, words = looped([recording], Audio(tmp_path), 6.5)
    assert text == "w0 w1 w2 w3 w0 w1" and words[-1].end == 5.75
    assert len(pcm) == int(6.0 * RATE)  # between 5.75 and 6.25
