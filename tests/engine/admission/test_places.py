"""Places to speak, in a whole core: who has one is heard, who has none is told why."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from lookhear.engine.admission.rehearsal import CROWD, rehearse
from lookhear.engine.admission.tick_cost import Rehearsal
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.build import Built, build_core
from lookhear.engine.messages import (
    CloseSession,
    Event,
    ExpectSpeech,
    TranscribeFile,
    TurnCompleted,
    TurnFailed,
)
from tests.engine.playing import drain, noise, play, turn, wanted
from tools.random_checkpoints.whisper import build_random_whisper

SLOW = Rehearsal(10.0, 10.0, 4)  # one speaker is more than enough


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = build_random_whisper(
        tmp_path_factory.mktemp("whisper"), layers=1, width=32, heads=2, seed=3, context=96
    )
    (made / "lookhear.json").write_text('{"short_windows": true}')
    return made


def built(folder: Path, bound: float = 2.0) -> Built:
    config = EngineConfig(
        model=str(folder), served_name="m", threads=1, dtype="float32", max_lag_seconds=bound
    )
    return build_core(config, lambda stage, share: None)


def completed(events: list[Event]) -> list[str]:
    return [event.session for event in events if isinstance(event, TurnCompleted)]


def refused(events: list[Event]) -> list[tuple[str, str]]:
    return [(e.session, e.code) for e in events if isinstance(e, TurnFailed)]


def test_the_first_is_heard_the_next_is_told_and_may_come_when_there_is_room(folder: Path) -> None:
    whole = built(folder)
    core, admission = whole.core, whole.admission
    assert admission is not None
    admission.rehearsed(SLOW)
    events = play(core, turn("a", 1), turn("b", 2))
    assert completed(events) == ["a"] and refused(events) == [("b", "too_many_speakers")]
    (failed,) = [event for event in events if isinstance(event, TurnFailed)]
    assert "within 2 s" in failed.message and "come back in" in failed.message
    # Who is inside is never asked again, though nobody new would be let in.
    assert completed(play(core, turn("a", 3))) == ["a"]
    core.submit(CloseSession("a"))
    assert completed(play(core, turn("b", 2))) == ["b"]


def test_who_was_announced_has_a_place_and_leaves_it_when_it_closes(folder: Path) -> None:
    whole = built(folder)
    core, admission = whole.core, whole.admission
    assert admission is not None
    admission.rehearsed(SLOW)
    for name in "abc":
        core.submit(ExpectSpeech(name, "m"))
    assert sorted(completed(play(core, turn("a", 1), turn("b", 2)))) == ["a", "b"]
    assert refused(play(core, turn("d", 3))) == [("d", "too_many_speakers")]
    for name in "abc":
        core.submit(CloseSession(name))
    assert admission.load().speakers == 0
    assert completed(play(core, turn("d", 3))) == ["d"]


def test_without_a_bound_everybody_comes(folder: Path) -> None:
    whole = built(folder, bound=0.0)
    assert whole.admission is not None
    whole.admission.rehearsed(SLOW)
    whole.core.submit(ExpectSpeech("a", "m"))
    assert len(completed(play(whole.core, *(turn(f"s{i}", i) for i in range(6))))) == 6


def test_files_need_no_place_and_say_nothing_about_ticks(folder: Path) -> None:
    whole = built(folder)
    core, admission = whole.core, whole.admission
    assert admission is not None
    admission.rehearsed(SLOW)
    core.submit(ExpectSpeech("a", "m"))
    before = admission.cost.cost
    core.submit(TranscribeFile("f", wanted(), noise(1, 2.0)))
    for message in turn("a", 1)[:3]:
        core.submit(message)
    mixed = 0
    while core.has_work:
        core.step()
        step = core.last_step
        if step.mixed and step.live:
            mixed += 1
            admission.stepped(step, 100.0)
    assert mixed, "they should have shared a step"
    assert admission.cost.cost == before


def test_a_step_says_who_took_part(folder: Path) -> None:
    core = built(folder).core
    for message in (*turn("a", 1)[:3], *turn("b", 2)[:3]):
        core.submit(message)
    seen: dict[str, int] = {}
    while core.has_work:
        core.step()
        step = core.last_step
        assert set(step.done) <= set(step.live) and not step.mixed
        for key in step.done:
            seen[key] = seen.get(key, 0) + 1
    assert seen.keys() == {"a/t", "b/t"}
    core.submit(TranscribeFile("f", wanted(), noise(1, 1.0)))
    core.step()
    assert core.last_step.live == [] and core.last_step.mixed
    drain(core)


def test_the_rehearsal_times_ticks_and_leaves_nobody_behind(folder: Path) -> None:
    whole = built(folder)
    core, admission = whole.core, whole.admission
    assert admission is not None
    seconds = count()
    found = rehearse(core, "m", lambda: float(next(seconds)))
    # Every round takes one second by this clock, whoever is in it.
    assert found == Rehearsal(1.0, 1.0 / CROWD, CROWD)
    assert found.cost.each == pytest.approx(0) and found.cost.shared == pytest.approx(1)
    slow = rehearse(core, "m", lambda: 10.0 * next(seconds))
    assert slow == Rehearsal(10.0, 10.0, CROWD), "nobody waits for a crowd of those"
    core.check()
    assert not core.has_work and core.stats()["live_turns"] == 0
    assert admission.load().speakers == 0
    requests = core.stats()["requests"]
    assert requests > 4 * (1 + CROWD) - 1, "all of them were heard, again and again"
