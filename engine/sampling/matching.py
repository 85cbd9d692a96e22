"""What a running request keeps to, and where it is in that: JSON, a header, anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol, Self

from lookhear.engine.sampling.params import TokenMask


class Matcher(TokenMask, Protocol):
    """Where one answer is. `fill` may raise what an implementation says."""

    def forced(self) -> list[int]:
        """Tokens of the only text that may come now, as it is usually spelt; mostly none."""

    def allowed(self, tokens: Sequence[int]) -> int:
        """How many of the first of them may come, one after the other."""

    def behind(self, token: int) -> Self:
        """Another one, where this one would be behind a token that may come."""

    def accept(self, token: int) -> None:
        """A token that `fill` has let through was chosen."""


class Grammar(Protocol):
    """What answers keep to. Immutable: every request has a matcher of its own. takes_draft: whether
    the beginning of an answer may be guessed together with what nothing keeps to."""

    takes_draft: ClassVar[bool]

    def start(self, budget: int | None = None) -> Matcher:
        """A matcher at the beginning of an answer. budget: tokens that it may have, where it is to
        be ended before they are used up."""
