"""All that one `StartPooling` asks for, prompt by prompt, and what becomes of it. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.chat.prompt import ChatPrompt
from lookhear.engine.core.adapting import Adapter
from lookhear.engine.messages import Event, Pooled, StartPooling
from lookhear.engine.paged.wanted.prompts import PooledResult, PooledTokens
from lookhear.engine.pooling.prompt import PoolingPrompter
from lookhear.engine.pooling.vectors import Vectors, cosine, finished, max_similarity, probability


class Scoring(Enum):
    """How a checkpoint says that two texts belong together."""

    JUDGE = 0  # it reads both, and what it says next is as much "yes" as it is not "no"
    COSINE = 1  # a vector of each
    MAX_SIMILARITY = 2  # a vector of each token of each


@dataclass(frozen=True, slots=True)
class Reading:
    """How a checkpoint is read. width: of a vector. normalises: whether vectors have length 1 where
    nobody says. judge: [width], what hidden states are multiplied with, if it judges."""

    scoring: Scoring
    width: int
    normalises: bool = True
    judge: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """One prompt of a job. side: "query", "document", or "pair", which is both of that index."""

    side: str
    index: int


class _Read(NamedTuple):
    vectors: Vectors
    tokens: int
    cached: int


class PoolingJob:
    """Hands out its units in order, and takes what came of them in any. num_running, num_tokens: of
    those that are under way, and about so many that they do not begin alike with others."""

    def __init__(
        self,
        message: StartPooling,
        reading: Reading,
        prompter: PoolingPrompter,
        adapter: Adapter | None = None,
    ) -> None:
        """adapter: see `PagedRequest`; one for all of its units."""
        self.adapter = adapter
        self._message = message
        self._reading = reading
        self._prompter = prompter
        self._units = deque(self._all_units())
        self.num_running = self.num_tokens = 0
        self._counted: dict[Unit, int] = {}  # of num_tokens
        self._cached = 0  # tokens of the last one that were: others begin with them, too
        self._queries: dict[int, _Read] = {}
        self._documents: dict[int, _Read] = {}  # whose queries are not read yet

    def _all_units(self) -> list[Unit]:
        message = self._message
        count = len(message.documents)
        if message.settings.kind != "score":
            return [Unit("document", i) for i in range(count)]
        if self._reading.scoring is Scoring.JUDGE:
            return [Unit("pair", i) for i in range(count)]
        several = len(message.queries) > 1  # what belongs together is read together
        units: list[Unit] = []
        for i in range(count):
            if several or i == 0:
                units.append(Unit("query", i))
            units.append(Unit("document", i))
        return units

    @property
    def num_waiting(self) -> int:
        """Units that have not begun."""
        return len(self._units)

    @property
    def salt(self) -> bytes:
        """See `PagedRequest`."""
        return self._message.settings.cache_salt.encode()

    @property
    def pooled(self) -> PooledTokens:
        """What is wanted of each prompt."""
        kind = self._message.settings.kind
        is_late = kind == "score" and self._reading.scoring is Scoring.MAX_SIMILARITY
        return PooledTokens.ALL if is_late or kind == "tokens" else PooledTokens.LAST

    def begin(self) -> Unit:
        """The next one; it is under way."""
        self.num_running += 1
        return self._units.popleft()

    def _query_of(self, document: int) -> int:
        return document if len(self._message.queries) > 1 else 0

    def prompt(self, unit: Unit) -> ChatPrompt:
        """Its tokens are under way from now on. Raises `RequestError`."""
        prompt = self._prompt_of(unit)
        self._counted[unit] = max(1, len(prompt.tokens) - self._cached)
        self.num_tokens += self._counted[unit]
        return prompt

    def _prompt_of(self, unit: Unit) -> ChatPrompt:
        message = self._message
        session, settings = message.session, message.settings
        if unit.side == "pair":
            query = message.queries[self._query_of(unit.index)]
            document = message.documents[unit.index]
            return self._prompter.judged(session, query, document, settings)
        given = (message.queries if unit.side == "query" else message.documents)[unit.index]
        if settings.kind != "score":
            return self._prompter.embedded(session, given, settings, settings.role)
        return self._prompter.embedded(session, given, settings, unit.side)

    def take(self, unit: Unit, result: PooledResult, num_tokens: int) -> list[Event]:
        """What is complete now."""
        self.num_running -= 1
        self.num_tokens -= self._counted.pop(unit)
        self._cached = result.num_cached
        read = _Read(result.hidden, num_tokens, result.num_cached)
        settings = self._message.settings
        if settings.kind != "score":
            normalise = settings.normalise
            vectors = finished(
                read.vectors,
                dimensions=settings.dimensions,
                normalise=self._reading.normalises if normalise is None else normalise,
            )
            return [self._event(unit.index, vectors, [read])]
        if unit.side == "pair":
            assert self._reading.judge is not None
            score = probability(float(read.vectors[0] @ self._reading.judge))
            return [self._event(unit.index, _one(score), [read])]
        if unit.side == "query":
            self._queries[unit.index] = read
        else:
            self._documents[unit.index] = read
        return self._scored()

    def _scored(self) -> list[Event]:
        """Of all documents that are read, and whose queries are."""
        compare = cosine if self._reading.scoring is Scoring.COSINE else max_similarity
        events: list[Event] = []
        for i in [i for i in self._documents if self._query_of(i) in self._queries]:
            at = self._query_of(i)
            document, query = self._documents.pop(i), self._queries[at]
            events.append(
                self._event(i, _one(compare(query.vectors, document.vectors)), [document, query])
            )
            # Counted once, and needed no more if it is this one's own.
            self._queries[at] = query._replace(tokens=0, cached=0)
            if len(self._message.queries) > 1:
                del self._queries[at]
        return events

    def _event(self, index: int, vectors: Vectors, reads: list[_Read]) -> Event:
        tokens, cached = sum(r.tokens for r in reads), sum(r.cached for r in reads)
        return Pooled(self._message.session, index, vectors, tokens, cached)


def _one(score: float) -> Vectors:
    return np.array([[score]], np.float32)
