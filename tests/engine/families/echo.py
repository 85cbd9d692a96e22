"""A family that nobody has: it answers what is said to it, letter by letter, without a tensor.

The one file that a new family needs; `test_families` registers it in one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.request import Cost, Demand, Phase, Priority, Result, StopReason
from lookhear.engine.core.runner import Failure, Finish
from lookhear.engine.families.family import Family, Parts
from lookhear.engine.messages import (
    AnswerCompleted,
    AnswerFailed,
    AnswerText,
    AnswerUsage,
    Event,
    Message,
    StartAnswer,
    TextPart,
)


class EchoSequence:
    """One letter a step."""

    def __init__(self, key: str, text: str) -> None:
        self.key, self.text = key, text
        self.phase = Phase.DECODE
        self.num_drafted = self.num_said = 0

    def demand(self) -> Demand:
        return Demand(1)

    def result(self) -> Result:
        said = tuple(map(ord, self.text))
        return Result(self.key, said, (0.0,) * len(said), 0, StopReason.END, self.num_said)


class EchoRunner:
    """Satisfies `ServingRunner`."""

    free_tokens = 0

    def capture(self, progress: Callable[[float], None]) -> None: ...

    def place(self, request: tuple[str, str]) -> EchoSequence:
        return EchoSequence(*request)

    def launch(self, work: Sequence[tuple[EchoSequence, int]]) -> Finish:
        for sequence, count in work:
            sequence.num_said += count
            if sequence.num_said == len(sequence.text):
                sequence.phase = Phase.DONE
        return list[Failure]

    def release(self, sequence: EchoSequence) -> None: ...

    def forget(self, key: str) -> None: ...

    def stats(self) -> dict[str, int]:
        return {}

    def check(self, num_running: int) -> None: ...


class EchoAnswer:
    """Satisfies `Owner`."""

    is_urgent = True

    def __init__(self, key: str, message: StartAnswer) -> None:
        self._key, self._message = key, message
        self._has_request = self.is_done = False

    def wants_request(self) -> bool:
        return not self._has_request

    def cost(self) -> Cost:
        return Cost(1)

    def make_request(self) -> tuple[str, str]:
        self._has_request = True
        parts = self._message.messages[-1].parts
        return self._key, "".join(part.text for part in parts if isinstance(part, TextPart))

    def absorb(self, result: Result) -> list[Event]:
        self.is_done = True
        session, answer = self._message.session, self._message.answer
        usage = AnswerUsage(output=len(result.tokens))
        text = "".join(map(chr, result.tokens))
        return [
            AnswerText(session, answer, text),
            AnswerCompleted(session, answer, "stop", usage),
        ]

    def settle(self) -> list[Event]:
        return []

    def fail(self, code: str, message: str) -> list[Event]:
        return [AnswerFailed(self._message.session, self._message.answer, code, message)]


class EchoDesk:
    """Satisfies `Desk`."""

    def take(self, message: Message, core: EngineCore) -> list[Event]:
        if isinstance(message, StartAnswer):
            key = f"{message.session}/{message.answer}"
            core.add(key, Priority.LIVE, EchoAnswer(key, message), message.session)
        return []

    def close(self, session: str) -> None: ...

    def left(self, key: str, session: str, core: EngineCore) -> list[Event]:
        return []

    def stats(self, core: EngineCore) -> dict[str, int]:
        return {"answers": core.count(EchoAnswer)}


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    return Parts(EchoDesk(), EchoRunner(), 0, torch.float32, encoder_budget=16)


FAMILY = Family(
    name="Echo",
    architectures=("EchoForConditionalGeneration",),
    build=build,
    abilities=("chat",),
)


def checkpoint(folder: Path) -> Path:
    """A folder that holds one."""
    config = {"architectures": list(FAMILY.architectures)}
    (folder / "config.json").write_text(json.dumps(config))
    return folder
