"""Whatever a client sends, whatever the detector hears and whenever the engine answers."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.media.voice.vad import SpeechStarted, SpeechStopped, VadEvent
from tests.gateway.scripted import Script

MODES: dict[str, Any] = {
    "null": None,
    "vad": {"type": "server_vad", "prefix_padding_ms": 100},
    "semantic": {"type": "semantic_vad", "eagerness": "high"},
}

STEPS = st.one_of(
    st.tuples(st.just("mode"), st.sampled_from(sorted(MODES))),
    st.tuples(st.just("hear"), st.integers(1, 40), st.lists(st.integers(0, 39), max_size=3)),
    st.tuples(st.just("commit")),
    st.tuples(st.just("clear")),
    st.tuples(st.just("say"), st.integers(0, 5), st.sampled_from(["a", " bc", "ä", "", "\n"])),
    st.tuples(st.just("guess"), st.integers(0, 5)),
    st.tuples(st.just("complete"), st.integers(0, 5)),
    st.tuples(st.just("fail"), st.integers(0, 5)),
    st.tuples(st.just("retrieve"), st.integers(1, 6)),
    st.tuples(st.just("delete"), st.integers(1, 6)),
    st.tuples(st.just("extend"), st.booleans()),
)


class Play(Script):
    """A script with a consistent detector and an engine that keeps its promises."""

    def __init__(self) -> None:
        super().__init__(max_turn=3)
        self.speaking = False
        self.turn_end = 0
        self.voiced_end = 0  # on the session's clock
        self.done: set[str] = set()
        self.cleared: set[str] = set()

    @property
    def live(self) -> list[str]:
        return [i for i in self.started if i not in self.done and i not in self.cancelled]

    def step(self, step: tuple[Any, ...]) -> None:
        match step:
            case ("mode", mode):
                self.update({"audio": {"input": {"turn_detection": MODES[mode]}}})
            case ("hear", tenths, flips):
                events = self._flips(tenths, flips)
                end = self.position + tenths * 1600 if self.speaking else self.voiced_end
                self.hear(tenths / 10, events, voiced_until=end, speaking=self.speaking)
                self.voiced_end = end
            case ("commit",):
                self.client("input_audio_buffer.commit")
                self._end_turn()
            case ("clear",):
                before = set(self.cancelled)
                self.client("input_audio_buffer.clear")
                self.cleared |= set(self.cancelled) - before
                self._end_turn()
            case ("say", index, text) if self.live:
                self.say(self.live[index % len(self.live)], text)
            case ("guess", index) if self.live:
                self.guess(self.live[index % len(self.live)], "x")
            case ("complete", index) if ended := [i for i in self.live if i in self.ended]:
                self._finish(ended[index % len(ended)])
            case ("fail", index) if self.live:
                item = self.live[index % len(self.live)]
                self.done.add(item)
                self.fail(item)
            case ("retrieve", index):
                self.client("conversation.item.retrieve", item_id=f"item_{index}")
            case ("delete", index):
                self.client("conversation.item.delete", item_id=f"item_{index}")
            case ("extend", on):
                self.update({"lookhear": {"provisional": on, "words": on}})
            case _:
                pass

    def finish(self) -> None:
        """The end of the story: everything that was committed gets its answer."""
        self.client("input_audio_buffer.commit")
        for item in [i for i in self.live if i in self.ended]:
            self._finish(item)

    def _finish(self, item: str) -> None:
        self.done.add(item)
        self.complete(item)

    def _end_turn(self) -> None:
        self.speaking = False
        self.turn_end = self.position

    def _flips(self, tenths: int, flips: list[int]) -> list[VadEvent]:
        """Speech boundaries inside the coming audio, as the detector would report them."""
        events: list[VadEvent] = []
        for flip in sorted({flip for flip in flips if flip < tenths}):
            sample = self.position + flip * 1600 + 1
            if self.speaking:
                events.append(SpeechStopped(sample))
                self.turn_end = self.voiced_end = sample
            else:
                events.append(SpeechStarted(max(sample - 1600, self.turn_end)))
            self.speaking = not self.speaking
        return events


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_every_story_keeps_the_promises(steps: list[tuple[Any, ...]]) -> None:
    play = Play()
    for step in steps:
        play.step(step)
    play.finish()
    frames = play.frames
    committed = [f["item_id"] for f in frames if f["type"].endswith("committed")]

    # One id throughout, in the order of section "event order" of the protocol.
    assert len(set(committed)) == len(committed)
    for item in committed:
        mine = [f for f in frames if item in (f.get("item_id"), f.get("item", {}).get("id"))]
        story = [
            f["type"].rsplit(".", 1)[-1]
            for f in mine
            if not f["type"].endswith(("provisional", "words", "retrieved", "deleted", "delta"))
        ]
        spoken = ["speech_started", "speech_stopped"] if "speech_started" in story else []
        assert story[:-1] == [*spoken, "committed", "added", "done"], story
        assert story[-1] in ("completed", "failed")
        texts = [f for f in mine if f["type"].endswith((".delta", ".completed", ".failed"))]
        last = texts[-1]
        assert last["type"].endswith((".completed", ".failed"))  # nothing after it
        if last["type"].endswith(".completed"):
            deltas = [f["delta"] for f in texts[:-1]]
            assert "".join(deltas) == last["transcript"] == play.text[item]
            assert "" not in deltas

    # Items that were never committed were cleared, and nothing ended them.
    for item in set(play.started) - set(committed):
        assert item not in play.ended

    # The chain of previous ids, unless items were deleted from it.
    if not any(f["type"].endswith("deleted") for f in frames):
        chain = [f["previous_item_id"] for f in frames if f["type"].endswith("committed")]
        assert chain == [None, *committed][: len(chain)]

    # No sample is transcribed twice, and the samples of a turn are in one piece. One in which
    # nobody had spoken when voice detection was switched on was none.
    heard: set[int] = set()
    for item in [i for i in play.started if i not in play.cancelled or i in play.cleared]:
        samples = play.samples(item)
        if samples:
            assert samples == list(range(samples[0], samples[-1] + 1))
            assert heard.isdisjoint(samples)
            heard.update(samples)

    # Ids of events are unique and the protocol is left with nothing pending.
    ids = [f["event_id"] for f in frames]
    assert len(set(ids)) == len(ids)
    assert play.protocol.pending_turns == 0


@settings(max_examples=50, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_the_same_script_gives_the_same_frames(steps: list[tuple[Any, ...]]) -> None:
    plays = Play(), Play()
    for play in plays:
        for step in steps:
            play.step(step)
    assert plays[0].frames == plays[1].frames
