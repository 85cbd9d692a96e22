"""An answer that is begun before the turn is surely over, and that nobody knows of until it is.

While somebody pauses, the engine is asked what the session would ask it if the turn ended here,
with what was heard so far. What it says is kept. The response that asks the same question takes it
over, with all that was said; whoever asks another question never sees it. So what a client gets
does not depend on guesses: they only make it come sooner. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lookhear.engine.messages import (
    AnswerCall,
    AnswerCompleted,
    AnswerFailed,
    AnswerSettings,
    AnswerStarted,
    AnswerText,
    CancelAnswer,
    StartAnswer,
)
from lookhear.gateway.realtime.pictures.media_store import MediaStore
from lookhear.gateway.realtime.pictures.prompts import Prompt
from lookhear.gateway.realtime.protocol.outputs import Emitter
from lookhear.gateway.realtime.settings import ConverseSettings

AnswerEvent = AnswerStarted | AnswerText | AnswerCall | AnswerCompleted | AnswerFailed


@dataclass(slots=True)
class EagerAnswer:
    """name: as the engine calls it. said: what it said so far."""

    name: str
    settings: AnswerSettings
    prompt: Prompt
    said: list[AnswerEvent] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether the engine has nothing to add."""
        return bool(self.said) and isinstance(self.said[-1], AnswerCompleted)


class Eager:
    """The eager answer of one session, if there is one. seeds: draws one for who named none."""

    def __init__(self, emitter: Emitter, store: MediaStore, seeds: Callable[[], int]) -> None:
        self._emitter = emitter
        self._store = store
        self._seeds = seeds
        self._answer: EagerAnswer | None = None
        self._count = 0

    @property
    def is_under_way(self) -> bool:
        """Whether there is one."""
        return self._answer is not None

    def begin(self, converse: ConverseSettings, prompt: Prompt) -> None:
        """Ask this instead of what was asked before, unless it is the same."""
        held = self._answer
        if held is not None and _is_same(held, converse, prompt):
            return
        self.drop()
        self._count += 1
        name = f"eager.{self._count}"  # no response's: they are made of ids
        self._answer = EagerAnswer(name, converse.answer(self._seeds()), prompt)
        self._store.keep(prompt.media)
        self._store.show(prompt.media, converse.model)
        answer = self._answer
        session = self._emitter.session
        self._emitter.submit(
            StartAnswer(session, name, answer.settings, prompt.messages, is_eager=True)
        )

    def drop(self) -> None:
        """Nobody will ask this."""
        if (answer := self._let_go()) is not None and not answer.is_complete:
            self._emitter.submit(CancelAnswer(self._emitter.session, answer.name))

    def engine(self, event: AnswerEvent) -> bool:
        """Whether the event is of this answer: then it is kept. One that failed is forgotten; who
        really asks is told why."""
        if self._answer is None or self._answer.name != event.answer:
            return False
        if isinstance(event, AnswerFailed):
            self._let_go()
        else:
            self._answer.said.append(event)
        return True

    def claim(self, converse: ConverseSettings, prompt: Prompt) -> EagerAnswer | None:
        """The answer to this very question, which is the caller's from now on. None: another one
        was asked, and is given up, or none was."""
        if self._answer is not None and _is_same(self._answer, converse, prompt):
            return self._let_go()
        self.drop()
        return None

    def _let_go(self) -> EagerAnswer | None:
        answer, self._answer = self._answer, None
        if answer is not None:
            self._store.release(answer.prompt.media)
        return answer


def _is_same(answer: EagerAnswer, converse: ConverseSettings, prompt: Prompt) -> bool:
    """Whatever the seed is that was drawn for it."""
    asked = converse.answer(answer.settings.seed)
    return answer.settings == asked and answer.prompt.messages == prompt.messages
