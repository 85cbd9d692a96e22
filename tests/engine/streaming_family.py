"""What every natively streaming family promises of its turns and files, whatever its weights are:
a test module of one is a `StreamingFamily` that says whose it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    CancelTurn,
    EndTurn,
    Event,
    FileTranscribed,
    Message,
    StartTurn,
    TextCommitted,
    TurnCompleted,
    TurnFailed,
    TurnSettled,
)
from lookhear.engine.speech.streaming import LATE, TOLD
from tests.engine.playing import (
    drain,
    file,
    make_core,
    noise,
    outcome,
    play,
    speech_between_silence,
    turn,
    wanted,
)


def make(folder: Path, **changes: object) -> EngineCore:
    """An engine as it is served: a streaming family has no segments."""
    return make_core(folder, max_segment_seconds=None, **changes)


class StreamingFamily(ABC):
    """scripts: turns "a", "b" and "c" and a file "f". kept: counters that are 0 once nobody speaks,
    the first of them one for each who does. seconds: of turns that are long enough to write more
    than ten tokens. late: seconds between what is heard and what is written of it. between: where
    no word of `speech_between_silence` may begin."""

    architecture: ClassVar[str]
    scripts: ClassVar[Mapping[str, list[Message]]]
    kept: ClassVar[tuple[str, ...]]
    seconds: ClassVar[float]
    late: ClassVar[float]
    between: ClassVar[tuple[float, float]]

    @abstractmethod
    def num_written(self, folder: Path, samples: NDArray[np.float32]) -> int:
        """Tokens that the model writes of all of it at once. samples: [n] float32, 16 kHz."""

    def assert_nothing_is_kept(self, core: EngineCore) -> None:
        stats = core.stats()
        assert {name: stats[name] for name in self.kept} == dict.fromkeys(self.kept, 0)

    def test_side_by_side_as_alone(self, folder: Path) -> None:
        """Also where a step is launched before the last one was read."""
        scripts = self.scripts
        alone = {
            name: outcome(play(make(folder), script), name) for name, script in scripts.items()
        }
        assert all(texts[-1] for texts in alone.values())
        for changes in ({}, {"overlap": 1}, {"max_rows": 2}):
            core = make(folder, **changes)
            events = play(core, *scripts.values())
            assert outcome(events, "f") == alone["f"]
            for name in "abc":
                assert outcome(events, name)[-1] == alone[name][-1]
            self.assert_nothing_is_kept(core)

    @pytest.mark.parametrize("piece", [0.02, 0.11, 1.7, 9.0])
    def test_a_turn_is_the_whole_recording(self, folder: Path, piece: float) -> None:
        """However its audio comes, its text is what the model writes of all of it at once."""
        events = play(make(folder), turn("a", 4, self.seconds, piece=piece))
        (done,) = [event for event in events if isinstance(event, TurnCompleted)]
        assert done.num_tokens == self.num_written(folder, noise(4, self.seconds)) > 10

    def test_silence_is_not_heard(self, folder: Path) -> None:
        """What no voice detector heard, but for half a second in front and a long pause behind."""
        core = make(folder)
        events = play(core, speech_between_silence("a", words=True))
        words = [w for e in events if isinstance(e, TextCommitted) for w in e.words or ()]
        last, first = self.between
        assert {word.start < last for word in words} == {True, False}
        for word in words:
            assert 3.4 <= word.start <= last or word.start >= first
        joined = "".join(e.text for e in events if isinstance(e, TextCommitted))
        assert joined == outcome(events, "a")[-1]
        nobody: list[Message] = [
            StartTurn("b", "t", wanted()), AppendAudio("b", "t", noise(1, 8.0), 0),
            EndTurn("b", "t"),
        ]  # fmt: skip
        before = core.stats()["requests"]
        assert outcome(play(core, nobody), "b") == ("",)
        assert core.stats()["requests"] == before

    def test_silence_is_forgotten(self, folder: Path) -> None:
        """But for the last seconds, as the voice detector may be late."""
        core, events = make(folder), list[Event]()
        core.submit(StartTurn("a", "t", wanted(), tells_state=True))
        for number in range(40):
            core.submit(AppendAudio("a", "t", noise(number, 0.5), 0))
            events += drain(core)
        told = [event.state.start for event in events if isinstance(event, TurnSettled)]
        assert 20 * SAMPLE_RATE - LATE - TOLD <= told[-1] <= 20 * SAMPLE_RATE - LATE

    def test_what_comes_while_the_end_is_heard_is_not_lost(self, folder: Path) -> None:
        """With a step for each message, one comes before a recording's last request is over."""
        core, events = make(folder), list[Event]()
        for message in speech_between_silence("a", words=True):
            core.submit(message)
            events += core.step()
        events += drain(core)
        assert outcome(events, "a")[-1]
        words = [w for e in events if isinstance(e, TextCommitted) for w in e.words or ()]
        assert any(word.end < 10.0 for word in words) and any(word.start > 13.0 for word in words)

    def test_words_are_told_whole_and_timed(self, folder: Path) -> None:
        plain = outcome(play(make(folder), turn("a", 8, 8.0)), "a")
        events = play(make(folder), turn("a", 8, 8.0, words=True, logprobs=True))
        assert outcome(events, "a")[-1] == plain[-1]
        told = [event for event in events if isinstance(event, TextCommitted)]
        assert len(told) > 3
        for event in told:
            assert event.logprobs and "".join(one.token for one in event.logprobs) == event.text
        words = [word for event in told for word in event.words or ()]
        starts = [word.start for word in words]
        assert len(words) > 3 and starts == sorted(starts)
        assert words[-1].end <= 8.1 + self.late

    def test_another_engine_goes_on(self, folder: Path) -> None:
        """From the state that an event brought, with the audio from there on: as a recording that
        begins there. What was heard and is not written yet is heard again."""
        core, script = make(folder), turn("a", 9, 10.0, piece=0.2)
        first = script[0]
        assert isinstance(first, StartTurn)
        core.submit(StartTurn("a", "t", first.settings, tells_state=True))
        events: list[Event] = []
        for message in script[1:34]:
            core.submit(message)
            events += drain(core)
        told = [e for e in events if isinstance(e, TextCommitted | TurnSettled) and e.state]
        state = told[-1].state
        assert state is not None and 0 < state.start <= (33 * 0.2 - self.late) * 16_000
        said = "".join(event.text for event in told if isinstance(event, TextCommitted))
        other = make(folder)
        other.submit(StartTurn("a", "t", first.settings, resume=replace(state, text=said)))
        samples = noise(9, 10.0)
        other.submit(AppendAudio("a", "t", samples[state.start :], len(samples)))
        other.submit(EndTurn("a", "t"))
        (done,) = [event for event in drain(other) if isinstance(event, TurnCompleted)]
        assert done.text.startswith(said) and len(done.text) > len(said) > 0
        assert done.duration == pytest.approx(10.0)
        rest = self.num_written(folder, samples[state.start :])
        assert done.num_tokens - state.num_tokens == rest

    def test_a_turn_that_is_given_up_leaves_nothing(self, folder: Path) -> None:
        core, script = make(folder, overlap=1), self.scripts["a"]
        for message in turn("a", 1, 3.0)[:-1]:
            core.submit(message)
            core.step()
        assert core.stats()[self.kept[0]] == 1
        core.submit(CancelTurn("a", "t"))
        drain(core)
        self.assert_nothing_is_kept(core)
        assert outcome(play(core, script), "a") == outcome(play(make(folder), script), "a")

    def test_words_of_a_file(self, folder: Path) -> None:
        events = play(make(folder), file("f", 6, 20.0, words=True))
        (done,) = [event for event in events if isinstance(event, FileTranscribed)]
        assert done.words
        assert all(0 <= word.start <= word.end <= 20.1 + self.late for word in done.words)

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"task": "translate"}, "task"),
            ({"prompt": "earlier"}, "prompt"),
            ({"keywords": ("Moon",)}, "keywords"),
        ],
    )
    def test_what_it_cannot_do_is_refused_by_name(
        self, folder: Path, changes: dict[str, Any], field: str
    ) -> None:
        events = play(make(folder), turn("a", 0, 1.0, **changes))
        (failed,) = [event for event in events if isinstance(event, TurnFailed)]
        assert failed.message.startswith(f"{field}: expected")

    def test_its_card(self, folder: Path) -> None:
        built = build_core(EngineConfig(model=str(folder), threads=1), lambda stage, share: None)
        assert built.card.architecture == self.architecture
        assert built.card.abilities == ["transcribe"] and built.card.languages == []
        assert built.card.has_word_times

    def test_numbers_that_are_none_end_one_turn(self, folder: Path) -> None:
        core, other = make(folder), self.scripts["c"]
        script = turn("a", 0, 2.0)
        script[1] = AppendAudio("a", "t", np.full(8000, np.nan, np.float32), 8000)
        events = play(core, script, other)
        (failed,) = [event for event in events if isinstance(event, TurnFailed)]
        assert failed.code == "model_error" and "finite" in failed.message
        assert outcome(events, "c")[-1] == outcome(play(make(folder), other), "c")[-1]
        self.assert_nothing_is_kept(core)
