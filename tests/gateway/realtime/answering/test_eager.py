"""Eager answers: whatever is guessed, said and thrown away, the client sees what it would see
without, and the conversation is the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.messages import AnswerCall, CancelAnswer
from lookhear.gateway.realtime.protocol.outputs import Send, Submit
from lookhear.media.voice.vad import SpeechStarted, SpeechStopped
from tests.gateway.conversing import Talk, readable, said
from tests.gateway.scripted import SESSION

TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]


class Spoken(Talk):
    """Somebody speaks with a model whose answer is what it was asked. eager: as the client says."""

    def __init__(self, eager: bool | None, **session: Any) -> None:
        super().__init__()
        self.update({**session, "lookhear": {"eager": eager}})
        self.setup = len(self.frames)
        self.open: str | None = None  # the turn that is
        self.waiting: str | None = None  # the turn that is committed and not transcribed
        self.spoken_until = 0
        self.told: dict[str, int] = {}  # words of each answer that came

    @property
    def seen(self) -> list[dict[str, Any]]:
        return self.frames[self.setup :]

    def go_on(self, text: str = "") -> None:
        """The voice is heard, and words of it are sure."""
        if self.open is None:
            self.transcribe()
            self.hear(0.5, [SpeechStarted(self.position)], speaking=True)
            self.open = list(self.started)[-1]
        else:
            self.hear(0.3, speaking=True)
        self.spoken_until = self.position
        if text:
            self.say(self.open, text)

    def pause(self) -> None:
        if self.open is not None:
            self.hear(0.25, voiced_until=self.spoken_until, speaking=True)

    def suppose(self, text: str) -> None:
        if self.open is not None:
            self.guess(self.open, text)

    def stop(self) -> None:
        if self.open is not None:
            stopped = SpeechStopped(self.position + 1600)
            self.hear(0.1, [stopped], voiced_until=self.spoken_until)
            self.open, self.waiting = None, self.open

    def transcribe(self, text: str = "") -> None:
        """What was committed is, and is answered to the end."""
        if self.waiting is None:
            return
        waiting, self.waiting = self.waiting, None
        if text:
            self.say(waiting, text)
        self.complete(waiting)
        while self.running:
            self.advance()

    def advance(self) -> None:
        """The engine says a little more."""
        if not self.running:
            return
        answer = self.answer
        words = [" ".join(message) for message in readable(self.running[answer].messages)]
        count = self.told.get(answer, -1)
        self.told[answer] = count + 1
        if count < 0:
            self.begin(answer)
        elif count < len(words):
            self.speak(words[count], answer)
        else:
            self.end(answer)

    def give_up(self) -> None:
        if self.running:
            self.break_off("too_many_answers")

    def conversation(self) -> list[Any]:
        ids = [f["item"]["id"] for f in self.seen if f["type"] == "conversation.item.added"]
        return [self.client("conversation.item.retrieve", item_id=id) for id in ids]


WORDS = st.sampled_from([" one", " two.", " three,", " 四。"])
OTHERS = ["pause", "pause", "stop", "advance", "advance", "give_up", "clear", "write", "frame"]
ACTS = st.one_of(
    st.tuples(st.sampled_from(["go_on", "suppose", "transcribe"]), WORDS),
    st.tuples(st.sampled_from(OTHERS)),
)


def act(talk: Spoken, name: str, *arguments: str, at: int) -> None:
    match name:
        case "clear":
            talk.client("input_audio_buffer.clear")
            talk.open = None
        case "write":
            talk.create(said("meanwhile"))
        case "frame":
            talk.frame("abcdef"[at % 6], at * 1000)
        case _:
            getattr(talk, name)(*arguments)


@settings(max_examples=300)
@given(acts=st.lists(ACTS, max_size=40), tools=st.booleans())
def test_nothing_of_a_discarded_answer_is_visible_and_the_conversation_is_the_same(
    acts: list[tuple[str, ...]], tools: bool
) -> None:
    session = {"tools": TOOLS} if tools else {}
    eager, plain = Spoken(None, **session), Spoken(False, **session)
    for at, (name, *arguments) in enumerate(acts):
        for talk in (eager, plain):
            act(talk, name, *arguments, at=at)
        assert eager.seen == plain.seen
    for talk in (eager, plain):
        talk.stop()
        talk.transcribe()
    assert eager.seen == plain.seen
    assert eager.conversation() == plain.conversation()
    assert not eager.running  # each was taken over or cancelled
    assert len(plain.asked) <= len(eager.asked)


def paused(eager: bool | None = None) -> Spoken:
    talk = Spoken(eager)
    talk.go_on(" What is")
    talk.suppose(" this?")
    talk.pause()
    return talk


def test_it_is_asked_in_the_pause_and_told_when_the_turn_is_transcribed() -> None:
    talk = paused()
    assert [asked.is_eager for asked in talk.asked] == [True]
    assert talk.prompt() == [("user", " What is this?")]
    before = len(talk.frames)
    talk.begin()
    talk.speak("A cup")
    assert len(talk.frames) == before
    assert talk.open is not None
    talk.say(talk.open, " this?")
    talk.stop()
    assert talk.waiting is not None
    talk.complete(talk.waiting)
    deltas = [f["delta"] for f in talk.last if f["type"] == "response.output_text.delta"]
    assert deltas == ["A cup"] and len(talk.asked) == 1
    talk.speak(".")
    talk.end()
    assert talk.done[-1]["output"][0]["content"][0]["text"] == "A cup."


def test_who_goes_on_ends_it() -> None:
    talk = paused()
    talk.begin()
    talk.speak("A cup")
    talk.go_on()
    assert not talk.running and not talk.done


def test_other_words_are_another_question() -> None:
    talk = paused()
    talk.suppose(" that?")
    assert talk.prompt() == [("user", " What is that?")]
    assert len(talk.running) == 1 and len(talk.asked) == 2


def test_a_call_of_a_tool_is_not_announced_before() -> None:
    talk = Spoken(None, tools=TOOLS)
    talk.go_on(" Look.")
    talk.pause()
    before = len(talk.frames)
    talk.begin()
    talk.engine(AnswerCall(SESSION, talk.answer, 0, "look", "{}"))
    assert len(talk.frames) == before
    talk.stop()
    assert talk.waiting is not None
    talk.complete(talk.waiting)
    talk.end(reason="tool_calls")
    assert [item["type"] for item in talk.done[-1]["output"]] == ["function_call"]


def test_off_by_the_client_and_where_nobody_is_to_answer() -> None:
    assert not paused(eager=False).asked
    detection = {"type": "server_vad", "create_response": False}
    talk = Spoken(None, audio={"input": {"turn_detection": detection}})
    talk.go_on(" What is this?")
    talk.pause()
    assert not talk.asked


def test_who_is_behind_makes_no_guesses() -> None:
    talk = Spoken(None)
    talk.go_on(" One.")
    talk.stop()
    talk.now += 1.5  # until it is transcribed
    talk.transcribe()
    count = len(talk.asked)
    talk.go_on(" Two.")
    talk.pause()
    assert len(talk.asked) == count


def test_eager_events_are_for_those_who_ask() -> None:
    talk = paused(eager=True)
    talk.go_on()
    talk.pause()
    told = [f for f in talk.seen if f["type"] == "lookhear.eager"]
    assert [frame["status"] for frame in told] == ["end", "resumed", "end"]
    assert told[0]["text"] == " What is this?"
    assert not [f for f in paused().seen if f["type"].startswith("lookhear.")]


def test_what_is_said_is_read_while_it_is_said() -> None:
    talk = Spoken(None, instructions="Be short.")
    talk.go_on()
    assert readable(talk.ahead[-1].messages) == [("system", "Be short.")]
    talk.go_on(" word" * 6)
    assert len(talk.ahead) == 1  # too few to fill a block
    talk.go_on(" word" * 10)
    assert readable(talk.ahead[-1].messages)[-1] == ("user", " word" * 16)


def test_speech_cancels_the_answer_in_the_step_that_hears_it() -> None:
    """So a barge-in waits for nothing but the detector."""
    talk = Spoken(None)
    talk.go_on(" Tell me more.")
    talk.stop()
    assert talk.waiting is not None
    talk.complete(talk.waiting)
    talk.waiting = None
    talk.begin()
    before = len(talk.outputs)
    talk.hear(0.05, [SpeechStarted(talk.position)], speaking=True)
    out = talk.outputs[before:]
    assert any(isinstance(o, Submit) and isinstance(o.message, CancelAnswer) for o in out)
    types = [o.event["type"] for o in out if isinstance(o, Send)]
    assert "response.done" in types
