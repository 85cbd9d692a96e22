"""Steps that overlap: whatever comes, ends or leaves when, everybody gets the tokens of steps that
wait for each other; and what a launched step still writes to is given to nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.request import Priority
from lookhear.engine.core.scheduler import Scheduler
from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.families.build import build_core
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.paged.runner import PagedRunner
from lookhear.engine.sampling.params import SamplingParams
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.model import WhisperModel
from lookhear.engine.whisper.runner import WhisperRunner
from tests.engine import playing, runners
from tests.engine.traces import (
    Asker,
    NoDesk,
    Visit,
    assert_same,
    once,
    paged_request,
    paged_trace,
    play,
    sound,
    ticks,
    whisper_request,
    whisper_trace,
)
from tools.random_checkpoints.whisper import build_random_whisper

ROWS = 4
FEW = settings(max_examples=15, deadline=None)


@pytest.fixture(scope="module")
def asr(served_asr: Path) -> Qwen3AsrModel:
    return Qwen3AsrModel.from_folder(served_asr)


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> tuple[WhisperModel, WhisperTokenizer]:
    folder = build_random_whisper(tmp_path_factory.mktemp("whisper"), seed=3)
    return WhisperModel.from_folder(folder), WhisperTokenizer.from_folder(folder)


def paged_runner(model: Qwen3AsrModel, overlap: int, num_blocks: int = 120) -> PagedRunner:
    acceleration = Acceleration(overlaps=bool(overlap))
    return runners.paged_runner(model, acceleration, rows=ROWS, num_blocks=num_blocks)


# --- any trace -----------------------------------------------------------------------------------


@st.composite
def samplings(draw: st.DrawFn) -> SamplingParams:
    """Greedy, drawn, penalised, with stops that are often said, and at least so many tokens."""
    fields: dict[str, Any] = {"temperature": draw(st.sampled_from([0.0, 0.0, 1.0]))}
    fields["seed"] = draw(st.integers(0, 9))
    if draw(st.booleans()):
        fields["repetition_penalty"] = 1.5
    if draw(st.booleans()):
        fields["stop_tokens"] = tuple(range(draw(st.integers(1, 60))))
        fields["min_tokens"] = draw(st.integers(0, 3))
    if draw(st.integers(0, 3)) == 0:
        fields["logprobs"] = 2
    return SamplingParams(**fields)


@st.composite
def paged_visits(draw: st.DrawFn, model: Qwen3AsrModel) -> list[Visit]:
    visits = []
    for i in range(draw(st.integers(1, 8))):
        key, comes = f"v{i}", draw(st.integers(0, 12))
        leaves = draw(st.none() | st.integers(comes + 1, comes + 12))
        if draw(st.booleans()):
            make = ticks(model, key, i, draw(st.integers(1, 4)), draw(samplings()))
            visits.append(Visit(key, make, comes, leaves))
            continue
        media = [sound(model, i, frames) for frames in draw(st.lists(st.integers(1, 200)))[:2]]
        request = paged_request(
            model,
            key,
            draw(st.integers(0, 3)),  # few, so that some begin alike and wait for each other
            before=draw(st.integers(1, 70)),
            media=media,
            draft=tuple(draw(st.lists(st.integers(0, 149), max_size=4))),
            max_new_tokens=draw(st.integers(1, 14)),
            sampling=draw(samplings()),
            loop_room=draw(st.sampled_from((0, 6, None))),
        )
        ends_after = draw(st.none() | st.integers(1, 6))
        visits.append(Visit(key, once(request), comes, leaves, ends_after))
    return visits


@FEW
@given(data=st.data(), budget=st.sampled_from([5, 20, 4096]), blocks=st.sampled_from([31, 120]))
def test_any_paged_trace_gives_the_same_tokens(
    asr: Qwen3AsrModel, data: st.DataObject, budget: int, blocks: int
) -> None:
    visits = data.draw(paged_visits(asr))
    played = [
        play(
            paged_runner(asr, overlap, blocks),
            visits,
            max_rows=ROWS,
            token_budget=budget,
            overlap=overlap,
        )
        for overlap in (0, 1)
    ]
    assert_same(played[1], played[0])


@FEW
@given(data=st.data())
def test_any_whisper_trace_gives_the_same_tokens(
    whisper: tuple[WhisperModel, WhisperTokenizer], data: st.DataObject
) -> None:
    model, tokenizer = whisper
    draw = data.draw
    visits = []
    for i in range(draw(st.integers(1, 7))):
        changes: dict[str, Any] = {"max_new_tokens": draw(st.integers(1, 12))}
        if draw(st.booleans()):
            changes |= {"language": None, "detect_language": True}
        if draw(st.integers(0, 3)) == 0:
            changes |= {"timestamps": True, "tail": (tokenizer.transcribe,)}
        if draw(st.booleans()):
            changes |= {"temperature": 1.0, "seed": i}
        changes["prefix"] = tuple(draw(st.lists(st.integers(0, 90), max_size=3)))
        changes["draft"] = tuple(draw(st.lists(st.integers(0, 90), max_size=3)))
        changes["align"] = draw(st.integers(0, 5)) == 0
        request = whisper_request(tokenizer, f"v{i}", i, 1 + i % 2, **changes)
        comes = draw(st.integers(0, 9))
        leaves = draw(st.none() | st.integers(comes + 1, comes + 8))
        visits.append(Visit(f"v{i}", once(request), comes, leaves))
    played = [
        play(
            WhisperRunner(
                model, tokenizer, ROWS, acceleration=Acceleration(overlaps=bool(overlap))
            ),
            visits,
            max_rows=ROWS,
            overlap=overlap,
        )
        for overlap in (0, 1)
    ]
    assert_same(played[1], played[0])


# --- what overlaps, and what does not ------------------------------------------------------------


def test_an_answer_takes_a_step_more_than_without_overlap(asr: Qwen3AsrModel) -> None:
    """A step per token, and one in which only the last is read."""
    request = paged_request(asr, "r", 1, max_new_tokens=9)
    steps = [
        play(paged_runner(asr, overlap), [Visit("r", once(request))], max_rows=1, overlap=overlap)
        for overlap in (0, 1)
    ]
    assert_same(steps[1], steps[0])
    assert steps[1].steps == steps[0].steps + 1


def test_room_is_given_back_when_the_last_step_that_writes_to_it_is_done(
    asr: Qwen3AsrModel,
) -> None:
    runner = paged_runner(asr, 1)
    core = EngineCore(NoDesk(), runner, Scheduler(ROWS, 10**9, 4096), overlap=1)
    request = paged_request(asr, "r", 1, max_new_tokens=40)
    core.add("r", Priority.LIVE, Asker("r", once(request)))
    for _ in range(3):
        core.step()
    held = runner.stats()["free_blocks"]
    core.drop("r")
    assert runner.stats()["free_blocks"] == held, "a launched step still writes there"
    # A new owner of the same name waits for it, and gets nothing of the old one.
    again = Asker("r", once(paged_request(asr, "r", 2, max_new_tokens=3)))
    core.add("r", Priority.LIVE, again)
    while core.has_work:
        core.step()
        core.check()
    assert len(again.results) == 1 and len(again.results[0].tokens) <= 3
    stats = runner.stats()
    assert stats["free_blocks"] + stats["cached_blocks"] == 119


def test_rows_of_requests_that_are_over_are_not_given_to_others(asr: Qwen3AsrModel) -> None:
    """More owners than rows, all of which say the end as late as can be."""
    stops = SamplingParams(stop_tokens=tuple(range(100)))
    visits = [
        Visit(
            f"r{i}",
            once(paged_request(asr, f"r{i}", i, sampling=stops, max_new_tokens=30)),
            comes=i // 2,
        )
        for i in range(12)
    ]
    played = [
        play(paged_runner(asr, overlap), visits, max_rows=2, overlap=overlap) for overlap in (0, 1)
    ]
    assert_same(played[1], played[0])


# --- whole engines -------------------------------------------------------------------------------


def test_traces_of_every_kind(
    asr: Qwen3AsrModel, whisper: tuple[WhisperModel, WhisperTokenizer]
) -> None:
    for overlap in (0, 1):
        paged = play(paged_runner(asr, overlap), paged_trace(asr), max_rows=ROWS, overlap=overlap)
        runner = WhisperRunner(*whisper, ROWS, acceleration=Acceleration(overlaps=bool(overlap)))
        spoken = play(runner, whisper_trace(whisper[1]), max_rows=ROWS, overlap=overlap)
        if overlap == 0:
            expected = paged, spoken
    assert_same(paged, expected[0])
    assert_same(spoken, expected[1])


@pytest.mark.parametrize("kind", ["asr", "whisper"])
def test_sessions_hear_the_same_words(
    kind: str, served_asr: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = served_asr
    if kind == "whisper":
        folder = build_random_whisper(tmp_path, seed=3, context=56)
        (folder / "lookhear.json").write_text('{"short_windows": true}')
    scripts = {
        "a": playing.turn("a", 1, 2.0),
        "b": playing.turn("b", 2, 1.6, 0.7, language="de"),
        "f": playing.file("f", 4, 5.0),
    }
    heard = []
    for overlap in (0, 1):
        config = EngineConfig(
            str(folder), threads=1, max_segment_seconds=6.0, dtype="float32", window="short",
            overlap=overlap,
        )  # fmt: skip
        core = build_core(config, lambda stage, share: None).core
        events = playing.play(core, *scripts.values())
        heard.append({name: playing.outcome(events, name) for name in scripts})
    assert heard[1] == heard[0]
