"""Cores whose requests are remembered, and that neither steps nor company nor caches change what
they answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import AnswerCompleted, ChatMessage, Message
from lookhear.engine.paged.request import PagedSequence
from tests.engine.chat.asking import ask, make_core, outcome, rest

Questions = Mapping[str, list[ChatMessage]]


class Watched:
    """held: what it has seen and heard before it is asked. sequences: by session and answer."""

    def __init__(self, folder: Path, held: Iterable[Message] = (), **changes: object) -> None:
        self.core: EngineCore = make_core(folder, **changes)
        self.sequences: dict[str, PagedSequence] = {}
        place = self.core._runner.place

        def watched(request: Any) -> Any:
            self.sequences[request.key] = sequence = place(request)
            return sequence

        self.core._runner.place = watched  # type: ignore[method-assign]
        for message in held:
            self.core.submit(message)

    def tokens(self, answer: str) -> list[int]:
        """What was answered."""
        return self.sequences[f"s/{answer}"].generated.tokens

    def answers(self, questions: Questions, count: int, again: str = "") -> dict[str, list[int]]:
        """So many tokens at most to each of them, asked at the same time. again: behind the names
        of answers that were given before."""
        for name, messages in questions.items():
            self.core.submit(ask(*messages, max_tokens=count, answer=name + again))
        events = rest(self.core)
        for name in questions:
            assert isinstance(done := outcome(events, name + again), AnswerCompleted), done
        return {name: self.tokens(name + again) for name in questions}


def answered_alone(
    make: Callable[..., Watched], questions: Questions, count: int
) -> dict[str, list[int]]:
    """Each by a core of its own."""
    return {name: make().answers({name: asked}, count)[name] for name, asked in questions.items()}


def answered_together(
    make: Callable[..., Watched], questions: Questions, count: int, budget: int, found: int = 100
) -> dict[str, list[int]]:
    """In steps of so few tokens that prompts are cut inside media; and all of them once more, which
    must be the same. found: tokens that are in the caches then, at least."""
    ours = make(token_budget=budget)
    answers = ours.answers(questions, count)
    assert ours.answers(questions, count, " again") == answers
    assert ours.core.stats()["prompt_tokens_found"] > found
    return answers
