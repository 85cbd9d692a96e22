"""Turns of Deepgram's turn-based wire: what is told of one, and when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lookhear.gateway.checks.checks import shown, wrong
from lookhear.gateway.deepgram import shapes
from lookhear.gateway.realtime.deepgram.pieces import Turn
from lookhear.gateway.realtime.patience import PATIENCE, Patience
from lookhear.gateway.realtime.protocol.dialect import Json
from lookhear.gateway.realtime.settings import SessionSettings, TurnDetection

TIMEOUT_MS = 5000
THRESHOLDS = ("eot_threshold", "eager_eot_threshold", "eot_timeout_ms")  # as they are asked for


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a turn is over. eot: so probable, it is; None: as usual here. eager: so probable, the
    client wants to know; None: it does not. timeout_ms: of silence, after which it is over."""

    eot: float | None = None
    eager: float | None = None
    timeout_ms: int = TIMEOUT_MS

    def changed(self, given: Mapping[str, object], code: str, path: str = "") -> Thresholds:
        """With those that are given: numbers, also written as text. Raises ProtocolError."""

        def number(name: str, low: float, high: float, what: str = "a number") -> float | None:
            value = given.get(name)
            if value is None or value == "":
                return None
            try:
                found = float(value) if isinstance(value, (str, int, float)) else -1.0
            except (ValueError, OverflowError):
                found = -1.0
            if isinstance(value, bool) or not low <= found <= high:
                raise wrong(f"{path}{name}", f"{what} from {low:g} to {high:g}", shown(value), code)
            return found

        eot, eager = number("eot_threshold", 0.5, 1.0), number("eager_eot_threshold", 0.3, 0.9)
        timeout = number("eot_timeout_ms", 500, 60_000, "milliseconds")
        new = Thresholds(
            self.eot if eot is None else eot,
            self.eager if eager is None else eager,
            self.timeout_ms if timeout is None else int(timeout),
        )
        if new.eager is not None and new.eot is not None and new.eager > new.eot:
            expected = f"at most eot_threshold ({new.eot:g})"
            raise wrong(f"{path}eager_eot_threshold", expected, f"{new.eager:g}", code)
        return new

    @property
    def patience(self) -> Patience:
        """For the session."""
        usual = PATIENCE["auto"]
        told: dict[str, Any] = {"cap_ms": self.timeout_ms}
        if self.eager is not None:
            told["guess"] = self.eager
        if self.eot is not None:
            told |= {"sure": self.eot, "likely": self.eot}
        # Who wants no end but their own is not ended by a shorter silence either.
        is_own = self.eot is not None and self.eot >= 1.0
        silence = self.timeout_ms if is_own else min(usual.silence_ms, self.timeout_ms)
        return replace(usual, silence_ms=silence, **told)

    def told(self) -> Json:
        """As the client is told of them."""
        told = {"eot_threshold": self.patience.sure, "eot_timeout_ms": self.timeout_ms}
        return told if self.eager is None else {"eager_eot_threshold": self.eager, **told}

    def apply(self, settings: SessionSettings) -> SessionSettings:
        """The settings with these."""
        detection = TurnDetection(type="semantic_vad", own_patience=self.patience)
        is_eager = True if self.eager is not None else None
        return replace(settings, turn_detection=detection, eager=is_eager)


@dataclass(slots=True)
class FluxTurn(Turn):
    """index: among those of which something was told, None: nothing was. told: the text that was
    told last, and how much of it was settled. eager: that behind which the turn was said to be
    over, while it is."""

    index: int | None = None
    told: tuple[str, int] = ("", 0)
    eager: str | None = None
    over: float = 0.0  # how probably it is over
    trigger: str = "manual"  # what ended it

    @property
    def said(self) -> str:
        """All of its text, as far as it is known."""
        return (self.text + self.guess).strip()

    @property
    def news(self) -> tuple[str, int]:
        """What `told` would be now."""
        return self.said, len(self.text.strip())

    def all_words(self) -> list[Json]:
        """Those that are settled, then those that may still change: their confidence is 0. A sign
        behind the last settled one may change, too, and is told with it."""
        told: list[Json] = []
        for word in shapes.whole(self.words, self.text):
            times = {"start": self.start + word.start, "end": self.start + word.end}
            rounded = {name: round(seconds, 3) for name, seconds in times.items()}
            told.append(
                {"word": word.word.strip(), "confidence": round(word.probability, 4), **rounded}
            )
        settled = "" if self.words else self.text
        sure = round(self.confidence or 0.0, 4)
        told += [{"word": word, "confidence": sure} for word in settled.split()]
        begun = self._begins(self.guess) if self.words else ""
        guess = begun + self.guess
        if told and not begun and guess[:1].strip():  # it goes on with the last of them
            more = shapes.behind(self.text, guess)
            told[-1]["word"] += more
            if any(char.isalnum() for char in more):
                told[-1]["confidence"] = 0.0
            guess = guess[len(more) :]
        told += [{"word": word, "confidence": 0.0} for word in guess.split()]
        return told
