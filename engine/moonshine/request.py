"""One Moonshine request and its progress while it runs. Pure: no tensors.

<s> prefix draft        prefix: text that is settled; draft: to be verified
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import (
    UNREAD,
    Beginning,
    Demand,
    GeneratedTokens,
    Phase,
    Priority,
    RequestProgress,
)


@dataclass(frozen=True, slots=True)
class MoonshineRequest:
    """What to encode and what to decode. samples: mono float32 at 16 kHz. at_least: tokens behind
    the prefix that there are, as is known: before, the text is not over. beginning: of the samples;
    those of requests that have the same one begin alike."""

    key: str
    priority: Priority
    samples: NDArray[np.float32]
    prefix: tuple[int, ...] = ()
    draft: tuple[int, ...] = ()
    max_new_tokens: int = 224
    loop_room: int = 0
    temperature: float = 0.0
    at_least: int = 0
    beginning: Beginning | None = None


@dataclass(slots=True)
class MoonshineSequence(RequestProgress[MoonshineRequest]):
    """A running request. row: of the decoder's cache; slot: of its encoded audio."""

    start: int  # the token that texts begin with
    end_tokens: frozenset[int]
    context_limit: int  # tokens the decoder can hold
    row: int = 0
    slot: int = 0
    is_encoded: bool = False

    def __post_init__(self) -> None:
        self.context = [self.start, *self.request.prefix]
        room = max(1, self.context_limit - len(self.context))
        self.generated = GeneratedTokens(
            end_tokens=self.end_tokens,
            max_tokens=min(self.request.max_new_tokens, room),
            loop_room=self.request.loop_room,
        )

    @property
    def draft(self) -> tuple[int, ...]:
        """Tokens to verify in the next step."""
        if self.phase is not Phase.PREFILL:
            return ()
        return self.request.draft[: max(0, self.generated.max_tokens - 1)]

    def demand(self) -> Demand:
        """A text is short, and goes in one piece."""
        return Demand(self.num_known, len(self.draft), divisible=False, waiting=self._is_held)

    def queries(self) -> list[int]:
        """Token ids to feed in this step, at positions fed, fed+1, ...; UNREAD for what was sampled
        last, if nobody has read it."""
        known = self.context[self.fed :]
        return [*known, *[UNREAD] * (self.num_known - len(known)), *self.draft]

    def may_end(self, count: int) -> bool:
        """Whether the text may be over behind so many tokens of the draft, what is unread
        included."""
        return len(self.generated.tokens) + self.unread + count >= self.request.at_least

    def launch(self) -> None:
        """A step that feeds the queries is on its way."""
        assert not self._depends
        if self.draft:
            self._depends = True
            return
        self.fed += self.num_known
        self.unread += 1
        self.phase = Phase.DECODE

    def absorb(self, sampled: list[int], logprobs: list[float]) -> None:
        """Take what was sampled behind the known tokens and the draft, in the step that was
        launched first of those not read."""
        self._take(sampled, logprobs, self.draft)
        self.phase = Phase.DONE if self.generated.stop else Phase.DECODE
