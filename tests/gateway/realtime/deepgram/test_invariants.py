"""Whatever a client of Deepgram's wire does and whenever the engine answers: no word is lost, told
twice or out of order, final results follow one another in time, and every Finalize is answered."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from lookhear.engine.messages import TextCommitted, Word
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.deepgram.options import live_options
from lookhear.gateway.realtime.protocol.commands import Append
from lookhear.media.voice.vad import SpeechStarted, SpeechStopped
from tests.gateway.deepgram.frames import text_of
from tests.gateway.realtime.deepgram.listening import FORMAT, Listen
from tests.gateway.scripted import SESSION

NAMES = (
    *("model", "language", "encoding", "sample_rate", "channels", "endpointing", "interim_results"),
    *("utterance_end_ms", "vad_events", "keyterm", "keywords", "detect_language", "diarize"),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("talk"), st.integers(1, 80)),
        st.tuples(st.just("stop"), st.integers(5, 30)),
        st.tuples(st.just("say"), st.integers(1, 3)),
        st.tuples(st.just("guess"), st.integers(0, 2)),
        st.tuples(st.just("complete"), st.just(0)),
        st.tuples(st.just("finalize"), st.just(0)),
        st.tuples(st.just("keep"), st.just(0)),
    ),
    max_size=30,
)


class Play(Listen):
    """A detector that does not contradict itself, and an engine that hears turns in order."""

    def __init__(self, query: str) -> None:
        super().__init__(query)
        self.shows = "interim_results" in query
        self.speaking = False
        self.told: list[str] = []  # all that the engine committed
        self.finalizes = 0
        self.done: set[str] = set()

    @property
    def oldest(self) -> str | None:
        return next((item for item in self.started if item not in self.done), None)

    def step(self, what: str, count: int) -> None:
        item = self.oldest
        match what:
            case "talk":
                begun = [] if self.speaking else [SpeechStarted(self.position)]
                self.speaking = True
                self.talk(count / 10, *begun, speaking=True)
            case "stop" if self.speaking:
                voiced, self.speaking = self.position, False
                stopped = SpeechStopped(voiced + 8000)
                self.talk(count / 10, stopped, voiced_until=voiced)
            case "say" if item is not None:
                for _ in range(count):
                    self.say_word(item)
            case "guess" if item is not None:
                self.guess(item, " maybe" * count)
            case "complete" if item in self.ended:
                assert item is not None
                self.done.add(item)
                self.complete(item)
            case "finalize":
                self.speaking = False
                self.finalizes += 1
                self.tell({"type": "Finalize"})
            case "keep":
                assert self.tell({"type": "KeepAlive"}) == []
            case _:
                pass

    def say_word(self, item: str) -> None:
        """The next word, at the end of what the turn has."""
        text = f"w{len(self.told)}"
        self.told.append(text)
        if self.text[item]:
            text = f" {text}"
        self.text[item] += text
        end = len(self.samples(item)) / 16_000
        words = [Word(text, max(0.0, end - 0.2), end, 0.5)]
        frames = self.engine(TextCommitted(SESSION, item, text, None, words))
        if self.shows:  # what is sure is told as such at once
            settled = frames[-1]["channel"]["alternatives"][0]["words"]
            final = " ".join(self.finals).split()
            assert [*final, *(word["word"] for word in settled)] == self.told

    def finish(self) -> None:
        self.tell({"type": "CloseStream"})
        while self.oldest is not None:
            self.step("complete", 0)


def answers(results: list[dict[str, Any]]) -> int:
    return sum(frame["from_finalize"] for frame in results)


@given(STEPS, st.sampled_from(["", "interim_results=true&utterance_end_ms=1000&vad_events=true"]))
def test_what_is_told_is_what_was_said(steps: list[tuple[str, int]], query: str) -> None:
    play = Play(query)
    for step in steps:
        play.step(*step)
    play.finish()
    assert " ".join(play.finals).split() == play.told
    finals = [frame for frame in play.results if frame["is_final"]]
    ends = [0.0, *(round(frame["start"] + frame["duration"], 3) for frame in finals)]
    for end, frame in zip(ends, finals, strict=False):
        assert frame["start"] >= end - 0.002, "results overlap"
    assert answers(play.results) <= play.finalizes
    assert (answers(play.results) > 0) == (play.finalizes > 0)
    assert play.frames[-1]["type"] == "Metadata"
    assert [close.code for close in play.closes] == [1000]
    ended = [i for i, frame in enumerate(play.frames) if frame["type"] == "UtteranceEnd"]
    for before, after in zip(ended, ended[1:], strict=False):
        between = play.frames[before:after]
        assert any(f["type"] == "Results" and text_of(f) for f in between), "nothing was said"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
MESSAGES = st.fixed_dictionaries(
    {"type": st.sampled_from(["Finalize", "Configure", "KeepAlive", "Stop"]) | JSON},
    optional={"channel": JSON, "keyterms": JSON, "features": JSON},
)


@given(st.text() | MESSAGES.map(json.dumps) | st.binary(min_size=1))
def test_no_message_ends_a_session(message: str | bytes) -> None:
    listen = Listen()
    if isinstance(message, bytes):
        assert listen.spoken.parse(message) == (Append(message),)
        return
    for frame in listen.tell(message):
        assert frame["type"] in ("Error", "ConfigureSuccess", "ConfigureFailure", "Results")
    assert not listen.closes


@given(st.text(alphabet="0123456789truefals-.&=%", max_size=40), st.sampled_from(NAMES))
def test_no_value_of_an_option_is_our_failure(value: str, name: str) -> None:
    """It is refused by its name, or taken."""
    params = QueryParams([*QueryParams(FORMAT).multi_items(), (name, value)])
    try:
        live_options(params)
    except ProtocolError as problem:
        assert problem.message.partition(":")[0] in (name, "sample_rate")
