"""The text of a turn in pieces: each is an interim result that is replaced, and then a final one.

A piece becomes final when it is some seconds long and more text has come, and at the end of the
turn; so the result that ends a turn has words in it, if anything was said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lookhear.engine.messages import TokenLogprob, Word
from lookhear.gateway.deepgram import shapes
from lookhear.gateway.realtime.protocol.dialect import Json
from lookhear.gateway.who_speaks import LiveSpeakers

_MARKS = re.compile(r"[^\w\s]+")
_BEGUN = re.compile(r"(?:^|\s)([^\w\s]+)\Z")  # signs behind a blank: a word begins with them
_GOES_ON = re.compile(r"[^\w\s]*[^\W_]")
_OPENING = re.compile("[([{“‘«‹„‚¿¡「『（［｛《〈【〔]")
PIECE_SECONDS = 3.0  # from which on a piece is final once more text has come


@dataclass(slots=True)
class Turn:
    """Times are seconds on the session's clock. start: of its audio. begin: of the open piece. end:
    of its audio, once it is committed."""

    start: float
    begin: float
    end: float | None = None
    by_voice: bool = False
    from_finalize: bool = False
    text: str = ""  # of the open piece, for sure
    words: list[Word] = field(default_factory=list)  # of it
    logprobs: list[float] = field(default_factory=list)  # of its tokens
    guess: str = ""  # what may still change behind it
    shown: tuple[str, int] = ("", 0)  # text and number of words of the last interim result
    speakers: LiveSpeakers | None = None  # who says its words, if that is wanted
    _rest: str = ""  # of the last word, in the text that was added last
    _marks: str = ""  # at its head, that were given to the last word and may be the next one's
    _begun: str = ""  # signs in front of it with which its first word begins

    def commit(self, start: float, seconds: float) -> None:
        """It is known where it begins, and that it ends."""
        if self.begin == self.start:
            self.begin = start
        self.start, self.end = start, start + seconds

    def add(self, text: str, logprobs: Sequence[TokenLogprob] | None) -> None:
        """More of it is sure. The guess is what is left of it."""
        self._begun = self._begins(text)
        is_apart = not self.words or bool(self._begun)
        self._rest = "" if is_apart else shapes.rest(self.text, text)
        marks = _MARKS.match(text)
        self._marks = ""
        if marks is not None and not is_apart and not self._rest:  # of a word told before them
            last, signs = self.words[-1], marks[0]
            follows = text[marks.end() :][:1]
            if follows.strip() or (not follows and shapes.is_unspaced(last.word)):
                signs = _OPENING.split(signs, maxsplit=1)[0]  # the others are of what follows
            self._marks = "" if follows.isspace() else signs
            self.words[-1] = replace(last, word=last.word + signs)
        self.text += text
        self.logprobs += [token.logprob for token in logprobs or ()]
        self.guess = self.guess[len(text) :] if self.guess.startswith(text) else ""

    def _begins(self, text: str) -> str:
        """Signs at the end of what is there with which the first word of a text begins. Where words
        have no blanks between them, none does."""
        begun = _BEGUN.search(self.text)
        if begun is None or not _GOES_ON.match(text) or shapes.is_unspaced(text[:1]):
            return ""
        is_told = bool(self.words) and self.words[-1].word == begun[1]  # as a word of its own
        return "" if is_told else begun[1]

    def hear(self, words: Sequence[Word]) -> None:
        """Those of the text that was added last."""
        new = list(words)
        if self._begun and new:
            new[0] = replace(new[0], word=self._begun + new[0].word)
        if self._marks and new and (at := self._marks.find(new[0].word[:1])) >= 0:
            # Some are words, as the % of "50%" where words have no blanks between them.
            last, kept = self.words[-1], len(self.words[-1].word) - len(self._marks) + at
            self.words[-1] = replace(last, word=last.word[:kept])
        if self._rest and new:
            rest: list[
                Word
            ] = []  # one word of the text may be several with times: "www", ".example", ".org"
            while new and shapes.letters(word.word for word in rest) < shapes.letters([self._rest]):
                rest.append(new.pop(0))
            self.words[-1] = replace(
                self.words[-1],
                word=self.words[-1].word + self._rest,
                end=rest[-1].end,
                probability=min(word.probability for word in [self.words[-1], *rest]),
            )
        self._rest = self._marks = self._begun = ""
        self.words += new

    @property
    def confidence(self) -> float | None:
        """Of the open piece, by its tokens; None: they are not known."""
        sure = self.logprobs
        return math.exp(sum(sure) / len(sure)) if sure else None

    def is_full(self, more: str, came: float) -> bool:
        """Whether the open piece is over before `more`. came: where the audio ends that came."""
        is_apart = more[:1].isspace() or self.text[-1:].isspace()
        return bool(self.text) and is_apart and self.said_until(came) - self.begin >= PIECE_SECONDS

    def said_until(self, came: float) -> float:
        """Where its last word ends; without words, as much as came of it."""
        if self.words:
            return self.start + self.words[-1].end
        return self.heard_until(came)

    def heard_until(self, came: float) -> float:
        """As much as came of it."""
        return max(self.begin, came if self.end is None else min(came, self.end))

    def interim(self, came: float) -> Json | None:
        """The open piece, as far as it is known; None if there is nothing new."""
        text = (self.text + self.guess).strip()
        if not text or (text, len(self.words)) == self.shown:
            return None
        self.shown = text, len(self.words)
        return self._result(text, max(self.said_until(came), self.heard_until(came)))

    def final(self, end: float, *, speech_final: bool = False) -> Json:
        """The open piece, which ends there; the next one begins."""
        result = self._result(self.text.strip(), end)
        result |= {"is_final": True, "speech_final": speech_final}
        self.text, self.shown, self.words, self.logprobs = "", ("", 0), [], []
        self.begin = max(self.begin, end)
        return result

    def _result(self, text: str, end: float) -> Json:
        words = self.words
        if self.speakers is not None:
            words = self.speakers.named(words, self.start)
        return {
            "type": "Results",
            "channel_index": [0, 1],
            "duration": round(max(end - self.begin, 0.0), 3),
            "start": round(self.begin, 3),
            "is_final": False,
            "speech_final": False,
            "channel": {
                "alternatives": [shapes.alternative(text, words, self.start, self.confidence)]
            },
            "from_finalize": False,
        }
