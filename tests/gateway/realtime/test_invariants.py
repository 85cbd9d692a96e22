"""Whatever a client of a realtime session sends, and whenever the engine answers."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.gateway.realtime.answering.limits import DialogueLimits
from lookhear.media.voice.vad import SpeechStarted, SpeechStopped
from tests.gateway.conversing import MODELS, Talk, image, said, shown
from tests.gateway.fake_chat import OMNI, VISION

NAMES = st.sampled_from(["a", "c", "e", "g"])
AUDIO = base64.b64encode(bytes(4800)).decode()

STEPS = st.one_of(
    st.tuples(st.just("text"), st.sampled_from(["user", "system", "assistant"])),
    st.tuples(st.just("picture"), NAMES),
    st.tuples(st.just("spoken"), NAMES),
    st.tuples(st.just("delete"), st.integers(0, 10)),
    st.tuples(st.just("respond")),
    st.tuples(st.just("beside"), NAMES),
    st.tuples(st.just("cancel")),
    st.tuples(st.just("begin"), st.integers(0, 3)),
    st.tuples(st.just("word"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("end"), st.integers(0, 3), st.sampled_from(["stop", "length"])),
    st.tuples(
        st.just("break"),
        st.integers(0, 3),
        st.sampled_from(["server_error", "context_length_exceeded"]),
    ),
    st.tuples(st.just("speech")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("clear")),
    st.tuples(st.just("heard"), st.integers(0, 3), st.sampled_from(["", "what"])),
    st.tuples(st.just("unheard"), st.integers(0, 3)),
    st.tuples(st.just("frame"), NAMES),
    st.tuples(st.just("frames gone")),
    st.tuples(st.just("model"), st.sampled_from([VISION.id, OMNI.id])),
    st.tuples(st.just("mode"), st.booleans(), st.booleans()),
)


class Play(Talk):
    """A talk with an engine that keeps its promises: events in order, one end of each."""

    def __init__(self) -> None:
        limits = DialogueLimits(max_spoken_seconds=0.3)  # three turns
        super().__init__(models=[*MODELS, OMNI], max_items=6, limits=limits)
        self.update({"lookhear": {"camera": {"max_frames": 2}}})
        self.speaking = False
        self.clock = 0
        self.settled: set[str] = set()

    @property
    def turns(self) -> list[str]:
        """Ended and not settled."""
        return [turn for turn in self.ended if turn not in self.settled]

    def step(self, step: tuple[Any, ...]) -> None:
        waiting = [answer for answer in self.running if answer not in self.begun]
        begun = [answer for answer in self.running if answer in self.begun]
        match step:
            case ("text", role):
                self.create(said("x", role))
            case ("picture", name):
                self.create(shown(name, "x"))
            case ("spoken", name):
                content = [image(name), {"type": "input_audio", "audio": AUDIO}]
                self.create({"type": "message", "role": "user", "content": content})
            case ("delete", number) if items := self.items():
                self.client("conversation.item.delete", item_id=items[number % len(items)])
            case ("respond",):
                self.respond()
            case ("beside", name):
                self.respond({"conversation": "none", "input": [shown(name)]})
            case ("cancel",):
                self.client("response.cancel")
            case ("begin", number) if waiting:
                self.begin(waiting[number % len(waiting)])
            case ("word", number, is_reasoning) if begun:
                self.speak("y", begun[number % len(begun)], is_reasoning=is_reasoning)
            case ("end", number, reason) if begun:
                self.end(begun[number % len(begun)], reason)
            case ("break", number, code) if self.running:
                answers = list(self.running)
                self.break_off(code, answers[number % len(answers)])
            case ("speech",):
                end = SpeechStopped(self.position + 1600)
                start = SpeechStarted(self.position)
                self.hear(0.1, [end if self.speaking else start], speaking=not self.speaking)
                self.speaking = not self.speaking
            case ("commit",):
                self.client("input_audio_buffer.commit")
                self.speaking = False
            case ("clear",):
                self.client("input_audio_buffer.clear")
                self.speaking = False
            case ("heard", number, text) if self.turns:
                self.settle(self.turns[number % len(self.turns)], text)
            case ("unheard", number) if self.turns:
                turn = self.turns[number % len(self.turns)]
                self.settled.add(turn)
                self.fail(turn)
            case ("frame", name):
                self.clock += 1000
                self.frame(name, self.clock)
            case ("frames gone",):
                self.client("lookhear.input_video_frame.clear")
                self.clock = 0
            case ("model", name):
                self.update({"model": name})
            case ("mode", create, interrupt):
                detection = {
                    "type": "server_vad",
                    "create_response": create,
                    "interrupt_response": interrupt,
                }
                self.update({"audio": {"input": {"turn_detection": detection}}})
            case _:
                pass

    def settle(self, turn: str, text: str) -> None:
        self.settled.add(turn)
        if text:
            self.say(turn, text)
        self.complete(turn)

    def items(self) -> list[str]:
        ids = [f["item"]["id"] for f in self.frames if f["type"] == "conversation.item.added"]
        gone = {f["item_id"] for f in self.frames if f["type"] == "conversation.item.deleted"}
        return [item for item in ids if item not in gone]

    def finish(self) -> None:
        """Nobody speaks any more, and the engine does all that it owes."""
        self.client("input_audio_buffer.clear")
        while self.turns or self.running:
            for turn in self.turns:
                self.settle(turn, "what")
            for answer in list(self.running):
                if answer not in self.begun:
                    self.begin(answer)
                self.end(answer)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_every_story_keeps_the_promises(steps: list[tuple[Any, ...]]) -> None:
    play = Play()
    for step in steps:
        play.step(step)
    play.finish()

    created = [f["response"]["id"] for f in play.frames if f["type"] == "response.created"]
    assert len(set(created)) == len(created)
    for response in created:
        check_story(play, response)
    assert len(play.done) == len(created)
    assert len(play.protocol._dialogue.responses) == 0

    # The session's own answers came one after the other.
    open_ones = 0
    for frame in play.frames:
        if "conversation_id" in frame.get("response", {}):
            open_ones += 1 if frame["type"] == "response.created" else -1
            assert open_ones in (0, 1)

    # Items are announced once, with what they follow, and each is done once.
    for kind in ("added", "done"):
        of_kind = [f for f in play.frames if f["type"] == f"conversation.item.{kind}"]
        ids = [f["item"]["id"] for f in of_kind]
        assert len(set(ids)) == len(ids)
        assert all(f["previous_item_id"] != f["item"]["id"] for f in of_kind)

    # With all items and frames gone nothing is left in the engine or in the session.
    play.client("lookhear.input_video_frame.clear")
    for item in play.items():
        play.client("conversation.item.delete", item_id=item)
    assert not play.held and not play.recordings, (play.held, play.recordings)
    assert not play.protocol._dialogue._store._media


def check_story(play: Play, response: str) -> None:
    mine = [
        f["type"].removeprefix("response.")
        for f in play.frames
        if response in (f.get("response_id"), f.get("response", {}).get("id"))
    ]
    assert mine[0] == "created" and mine[-1] == "done"
    if mine == ["created", "done"]:
        return
    words = [name for name in mine if name == "output_text.delta"]
    assert mine == [
        "created",
        "output_item.added",
        "content_part.added",
        *words,
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "done",
    ]
    frames = [f for f in play.frames if f.get("response_id") == response]
    text = "".join(f["delta"] for f in frames if f["type"] == "response.output_text.delta")
    done = next(r for r in play.done if r["id"] == response)
    (item,) = done["output"]
    assert item["content"] == [{"type": "output_text", "text": text}]
    assert item["status"] == ("completed" if done["status"] == "completed" else "incomplete")
    # In the conversation, if it is of it, between the same two events.
    inside = [f["type"] for f in play.frames if f.get("item", {}).get("id") == item["id"]]
    added, ended = "conversation.item.added", "conversation.item.done"
    assert (added in inside, ended in inside) == ("conversation_id" in done,) * 2


@settings(max_examples=25, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_the_same_script_gives_the_same_frames(steps: list[tuple[Any, ...]]) -> None:
    plays = Play(), Play()
    for play in plays:
        for step in steps:
            play.step(step)
    assert plays[0].frames == plays[1].frames
    assert plays[0].asked == plays[1].asked
