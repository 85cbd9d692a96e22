"""Whatever a client of Deepgram's turn-based wire does and whenever the engine answers: no word is
lost, told twice or out of order, and events keep to the order that Deepgram publishes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from lookhear.gateway.realtime.deepgram.flux import FluxDialect
from lookhear.gateway.realtime.protocol.commands import Append
from lookhear.media.voice.vad import SpeechStarted
from tests.gateway.realtime.deepgram.flux import FORMAT, SERVED, Flux, check_order, ended
from tests.gateway.realtime.deepgram.test_invariants import JSON

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("talk"), st.integers(1, 30)),
        st.tuples(st.just("pause"), st.integers(0, 10)),
        st.tuples(st.just("stop"), st.just(0)),
        st.tuples(st.just("say"), st.integers(1, 3)),
        st.tuples(st.just("guess"), st.integers(0, 2)),
        st.tuples(st.just("complete"), st.just(0)),
        st.tuples(st.just("force"), st.just(0)),
        st.tuples(st.just("configure"), st.integers(3, 9)),
    ),
    max_size=30,
)


class Play(Flux):
    """A detector that does not contradict itself, and an engine that hears turns in order."""

    def __init__(self, query: str, *, hears_ends: bool) -> None:
        super().__init__(query, hears_ends=hears_ends)
        self.speaking = False
        self.voiced_at = 0
        self.told: list[str] = []  # all that the engine committed
        self.done: set[str] = set()

    @property
    def oldest(self) -> str | None:
        return next((item for item in self.started if item not in self.done), None)

    def step(self, what: str, count: int) -> None:
        item, committed = self.oldest, self.protocol.turns_committed
        silence_ms = (self.position - self.voiced_at) * 1000 // 16_000
        match what:
            case "talk":
                begun = [] if self.speaking else [SpeechStarted(self.position)]
                self.speaking = True
                self.talk(count / 10, *begun)
                self.voiced_at = self.position
            case "pause" if self.speaking and silence_ms < 4800:
                milliseconds = 100 * (silence_ms // 100) + 200
                self.pauses(milliseconds, count / 10 if self.query.endswith("judged") else None)
                self.speaking = self.protocol.turns_committed == committed
            case "stop" if self.speaking:
                self.speaking = False
                self.stops()
            case "say" if item is not None:
                for _ in range(count):
                    word = f"w{len(self.told)}"
                    self.told.append(word)
                    told = self.says(item, f" {word}" if self.text[item] else word, 0.0, 0.1)
                    # What is sure is told as such at once.
                    sure = [w["word"] for w in told[-1]["words"] if w["confidence"]]
                    assert sure == self.text[item].split()
            case "guess" if item is not None:
                self.thinks(item, " maybe" * count, 0.9)
            case "complete" if item in self.ended:
                assert item is not None
                self.done.add(item)
                self.complete(item)
            case "force":
                self.speaking = False
                assert "CONFIGURE" not in json.dumps(self.tell({"type": "ForceEndTurn"}))
            case "configure":
                thresholds = {"eager_eot_threshold": count / 10, "eot_threshold": 0.9}
                told = self.tell({"type": "Configure", "thresholds": thresholds})
                # What is over by these is told at once, too.
                kinds = [frame["type"] for frame in told if frame["type"] != "TurnInfo"]
                assert kinds == ["ConfigureSuccess"]
            case _:
                pass

    def finish(self) -> None:
        self.tell({"type": "CloseStream"})
        while self.oldest is not None:
            self.step("complete", 0)


@given(STEPS, st.sampled_from(["", "eager_eot_threshold=0.3&tag=judged", "tag=judged"]))
def test_what_is_told_is_what_was_said(steps: list[tuple[str, int]], query: str) -> None:
    play = Play(query, hears_ends=query.endswith("judged"))
    for step in steps:
        play.step(*step)
    play.finish()
    check_order(play.frames)
    ends = ended(play.frames)
    assert " ".join(frame["transcript"] for frame in ends).split() == play.told
    assert sum(frame.get("event") == "StartOfTurn" for frame in play.frames) == len(ends)
    for before, after in zip(ends, ends[1:], strict=False):
        assert before["audio_window_end"] <= after["audio_window_start"] + 0.002
    for frame in ends:
        assert " ".join(word["word"] for word in frame["words"]) == frame["transcript"]
    assert [close.code for close in play.closes] == [1000]


MESSAGES = st.fixed_dictionaries(
    {"type": st.sampled_from(["ForceEndTurn", "Configure", "KeepAlive", "Finalize"]) | JSON},
    optional={
        "keyterms": JSON,
        "language_hints": JSON,
        "thresholds": JSON
        | st.dictionaries(
            st.sampled_from(["eot_threshold", "eager_eot_threshold", "eot_timeout_ms"]), JSON
        ),
    },
)


@given(st.text() | MESSAGES.map(json.dumps) | st.binary(min_size=1))
def test_no_message_ends_a_session(message: str | bytes) -> None:
    flux = Flux()
    if isinstance(message, bytes):
        assert flux.spoken.parse(message) == (Append(message),)
        return
    for frame in flux.tell(message):
        assert frame["type"] in ("Warning", "ConfigureSuccess", "ConfigureFailure")
    assert not flux.closes


NAMES = ("eot_threshold", "eager_eot_threshold", "eot_timeout_ms", "keyterm", "language_hint")


@given(st.text(alphabet="0123456789truefals-.&=%einf", max_size=40), st.sampled_from(NAMES))
def test_no_value_of_an_option_is_our_failure(value: str, name: str) -> None:
    """It is refused by its name, or taken."""
    params = QueryParams([*QueryParams(FORMAT).multi_items(), (name, value)])
    problem = FluxDialect(params, lambda prefix: prefix).first_settings(SERVED)[1]
    assert problem is None or problem.message.partition(":")[0] == name
