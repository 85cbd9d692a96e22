"""What a tick heard beyond the committed text: tokens with their probabilities and times."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import NamedTuple

from lookhear.engine.core.request import Result, StopReason
from lookhear.engine.messages import SAMPLE_RATE, TokenLogprob, Word
from lookhear.engine.speech.text.agreement import trim_loop
from lookhear.engine.speech.text.words import SPOKEN, UNSPACED_LANGUAGES, group_words

DecodeBytes = Callable[[Sequence[int]], bytes]

# Thresholds of openai/whisper (transcribe.py): both must speak for silence.
NO_SPEECH_PROB = 0.6
NO_SPEECH_LOGPROB = -1.0
# Mean log-probability of the tokens of a text, below that of what was heard a moment before.
LESS_PROBABLE = 0.25


def is_loop(result: Result) -> bool:
    """Whether it says one phrase over and over: until that was noticed, or until its audio had no
    room for more (of answers that have so much), which a long phrase fills when it comes twice."""
    return result.stop is StopReason.REPETITION or _num_before_loop(result) < len(result.tokens)


def _num_before_loop(result: Result) -> int:
    if result.stop not in (StopReason.REPETITION, StopReason.LENGTH):
        return len(result.tokens)
    return len(trim_loop(result.tokens, 4 if result.stop is StopReason.REPETITION else 2))


def way_out(result: Result) -> tuple[int, int] | None:
    """Where a text that is a loop is best left: where the model was least sure of going on with it.
    Behind how many tokens that is, and which token came there; None if it is no loop."""
    tokens = result.tokens
    count, n = _repeated(tokens)
    if not (count and is_loop(result)):
        return None
    inside = range(len(tokens) - count + n, len(tokens))
    place = min(inside, key=lambda at: result.logprobs[at])
    return place, tokens[place]


def _ends_in_loop(result: Result) -> bool:
    """Whether its last tokens, but for a sign behind them, are one phrase at least four times."""
    tokens = result.tokens
    return any(count >= 4 * n > 0 for count, n in map(_repeated, (tokens, tokens[:-1])))


def parting(result: Result, before: Hypothesis, marks: Set[int]) -> tuple[int, int] | None:
    """Where a text, less probable than what was heard before, parts from that: behind how many
    tokens, and which token came there. marks: tokens that are no text."""
    if not (result.tokens and before.tokens):
        return None
    if _mean(result.logprobs) > _mean(before.logprobs) - LESS_PROBABLE:
        return None
    told = [(i, token) for i, token in enumerate(result.tokens) if token not in marks]
    pairs = zip(told, before.tokens, strict=False)
    return next(((i, token) for (i, token), other in pairs if token != other), None)


def better(first: Result, second: Result) -> Result:
    """Of two texts of the same audio: what leaves a loop, else the more probable one. What ends in
    a loop again is not better: somebody may well say something over and over."""
    if is_loop(first):
        return first if _ends_in_loop(second) else second
    is_more = bool(second.logprobs) and _mean(second.logprobs) > _mean(first.logprobs)
    return second if is_more else first


def _mean(logprobs: Sequence[float]) -> float:
    return sum(logprobs) / len(logprobs)


def _repeated(tokens: Sequence[int]) -> tuple[int, int]:
    """How many of the last tokens repeat a phrase, its first saying included, and its length. The
    shortest phrase of the most tokens; (0, 0) if they repeat none."""
    found = (0, 0)
    for n in range(1, min(24, len(tokens) // 2) + 1):
        count = n
        while count < len(tokens) and tokens[-1 - count] == tokens[-1 - count + n]:
            count += 1
        found = max(found, (count, -n)) if count >= 2 * n else found
    return found[0], -found[1]


def token_logprob(data: bytes, logprob: float) -> TokenLogprob:
    """data: UTF-8 of one token, perhaps no whole characters."""
    return TokenLogprob(data.decode("utf-8", errors="replace"), logprob, list(data))


def told_logprobs(tokens: Sequence[TokenLogprob], text: str) -> list[TokenLogprob]:
    """The tokens of a text as it is told: their bytes joined are the text's. What a model writes
    begins with a blank, a transcript does not; a later segment's may have been given one."""
    pieces = [(bytes(token.bytes), token.logprob) for token in tokens]
    joined = b"".join(data for data, _ in pieces)
    # Bytes too many in front (or too few), and behind.
    front = len(joined) - len(joined.lstrip()) - (len(text) - len(text.lstrip()))
    back = len(joined) - len(joined.rstrip()) - (len(text) - len(text.rstrip()))
    told: list[TokenLogprob] = []
    at = 0
    for data, logprob in pieces:
        kept = data[max(0, front - at) : max(0, len(joined) - back - at)]
        at += len(data)
        if kept:
            told.append(token_logprob(b" " * -front + kept if not told else kept, logprob))
    return told


class Hypothesis(NamedTuple):
    """tokens: ids. logprobs: one per token. spans: (start, end) seconds from the turn's beginning,
    one per token, or empty when times were not asked for. language: ISO code, None if not known.
    language_logprob: how sure it is; 0 where that is not known. languages: log-probability of each
    by the audio alone, where a checkpoint says so. marks: tokens that are no text, and before which
    of `tokens` the model wrote them; of the first ones to come, in a draft. closing: how probable
    it was behind the last word that no other comes, None if not known. is_endless: the model said
    one phrase over and over, or more than its audio had room for, so nothing of it is sure."""

    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    spans: tuple[tuple[float, float], ...] = ()
    language: str | None = None
    language_logprob: float = 0.0
    languages: Mapping[str, float] = MappingProxyType({})
    marks: tuple[tuple[int, int], ...] = ()
    closing: float | None = None
    is_endless: bool = False

    @classmethod
    def of(
        cls,
        result: Result,
        num_prefix: int,
        start: int,
        language: str | None = None,
        *,
        is_bounded: bool = False,
    ) -> Hypothesis:
        """What a tick heard, less what a model says about silence or says in a loop.

        num_prefix: forced tokens in front, which carry times too. start: where in the turn the
        tick's audio began, in samples; negative if silence was put in front. language: heard.
        is_bounded: the answer had room for no more than can be said in its audio.
        """
        count = len(result.tokens)
        is_checked = is_bounded or result.stop is StopReason.REPETITION
        told = _num_before_loop(result) if is_checked else count
        if told < count:
            count = told
        elif count and result.no_speech_prob > NO_SPEECH_PROB:
            if sum(result.logprobs) / count < NO_SPEECH_LOGPROB:
                count = 0
        spans: tuple[tuple[float, float], ...] = ()
        if result.token_times is not None:
            offset = start / SAMPLE_RATE
            times = result.token_times[num_prefix : num_prefix + count]
            spans = tuple((max(0.0, offset + a), max(0.0, offset + b)) for a, b in times)
        is_over = result.stop is StopReason.LENGTH and is_bounded
        return cls(
            result.tokens[:count],
            result.logprobs[:count],
            spans,
            language,
            is_endless=is_over or result.stop is StopReason.REPETITION,
        )

    def split(self, count: int) -> tuple[Hypothesis, Hypothesis]:
        """The first count tokens, and the rest."""
        return self._part(0, count), self.behind(count)

    def behind(self, count: int) -> Hypothesis:
        """What follows the first count tokens."""
        return self if count == 0 else self._part(count, len(self.tokens))

    def _part(self, first: int, last: int) -> Hypothesis:
        last = min(last, len(self.tokens))
        return Hypothesis(
            self.tokens[first:last],
            self.logprobs[first:last],
            self.spans[first:last],
            self.language,
            self.language_logprob,
            self.languages,
            self.marks
            and tuple((i - first, token) for i, token in self.marks if first <= i < last),
            self.closing,
            self.is_endless,
        )

    def without(self, is_mark: Callable[[int], bool]) -> Hypothesis:
        """The text alone; what is no text becomes `marks`. is_mark: of a token, asked in order."""
        flags = [is_mark(token) for token in self.tokens]
        if not any(flags):
            return self
        text = [i for i, flag in enumerate(flags) if not flag]
        marks = [(i, token) for i, token in enumerate(self.tokens) if flags[i]]
        return self._replace(
            tokens=tuple(self.tokens[i] for i in text),
            logprobs=tuple(self.logprobs[i] for i in text),
            spans=tuple(self.spans[i] for i in text) if self.spans else (),
            marks=tuple((i - n, token) for n, (i, token) in enumerate(marks)),
        )

    @property
    def written(self) -> tuple[int, ...]:
        """All tokens as the model wrote them, marks among them."""
        written, marks = [], list(self.marks)
        for i, token in enumerate(self.tokens):
            while marks and marks[0][0] <= i:
                written.append(marks.pop(0)[1])
            written.append(token)
        return tuple(written)

    def num_confident(self, least: float) -> int:
        """Leading tokens that are all at least that probable (natural log)."""
        if self.language_logprob < least:
            return 0
        for i, logprob in enumerate(self.logprobs):
            if logprob < least:
                return i
        return len(self.tokens)

    def token_logprobs(self, token_bytes: Callable[[int], bytes]) -> list[TokenLogprob]:
        """The tokens as they go on the wire."""
        return [
            token_logprob(token_bytes(token), logprob)
            for token, logprob in zip(self.tokens, self.logprobs, strict=True)
        ]

    def words(self, decode_bytes: DecodeBytes, language: str | None) -> list[Word]:
        """Tokens joined to words with their times. language: ISO code (some have no spaces)."""
        if not self.spans:
            return []
        words = []
        for text, first, last in group_words(self.tokens, decode_bytes, language):
            # What was committed after its word is none of its own: a full stop, the % of "50%".
            is_apart = text[:1].isspace() or language in UNSPACED_LANGUAGES
            if not any(c.isalnum() or (c in SPOKEN and is_apart) for c in text):
                continue
            mean = sum(self.logprobs[first:last]) / (last - first)
            start, end = self.spans[first][0], self.spans[last - 1][1]
            words.append(Word(text.strip(), start, end, math.exp(mean)))
        return words
