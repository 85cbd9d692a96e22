"""Drafts by a network: it goes on a few tokens ahead of the large model, which verifies them.

It has a cache of its own with the same blocks: the block tables are those of the running requests,
and what is found in the prefix cache is found for both. Two kinds: a smaller model of the same
vocabulary, which reads what the large one reads (pictures it does not see: it reads their
placeholders); and a head, which reads what the large one made of a token (`engine.eagle3`).

What a grammar forces needs no network, and where an answer quotes what was said before, looking it
up may be worth more: then nobody asks the network (`Quotes`).

Where an answer is drawn, it draws with the same noise at the same places, so that two models that
think alike draw alike; and it keeps to the same grammar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch

from lookhear.engine.core.request import Phase
from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.drafts.lookup import Lookup
from lookhear.engine.drafts.pace import Experience, Pace, PassCosts
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.choosing import known_of
from lookhear.engine.paged.decoder import PagedDecoder
from lookhear.engine.paged.drafter import LEAST_ANSWER, Progress
from lookhear.engine.paged.passes import PagedLogits, PagedPasses
from lookhear.engine.paged.request import PagedRequest, PagedSequence
from lookhear.engine.paged.rows import Rows
from lookhear.engine.sampling.matching import Matcher
from lookhear.engine.sampling.sampler import Sampler, SamplingRow

CHUNK = 512  # tokens of one context that a pass reads at most


@dataclass(slots=True)
class Quotes:
    """What can be guessed for nothing. progress: of such guesses. is_last: whether the last guess
    was one."""

    progress: Progress
    lookup: Lookup = field(default_factory=Lookup)
    is_last: bool = False

    def draft(self, sequence: PagedSequence, rows: int, rate: float) -> tuple[int, ...]:
        """What comes next, if it is forced, or if more tokens a second come of it than rate, those
        with the network; else ()."""
        most, mine = self.progress.best(sequence, rows)
        if most == 0:
            return ()
        self.lookup.extend(sequence.context)
        forced = [] if sequence.matcher is None else sequence.matcher.forced()
        return self.lookup.draft(most, forced) if forced or mine > rate else ()


@dataclass(slots=True)
class Reader:
    """How far the network is with one request. ahead: see `DraftNetwork`. fed: places of context
    and draft that are in its cache; None: it has not read anything. length: of the context behind
    which the draft stands. most: tokens that the draft is to have. quotes: None: nothing is guessed
    but by the network."""

    sequence: PagedSequence
    progress: Progress
    ahead: int = 0
    quotes: Quotes | None = None
    fed: int | None = None
    length: int = 0
    most: int = 0
    draft: list[int] = field(default_factory=list)
    matcher: Matcher | None = None

    def quoted(self, rows: int) -> tuple[int, ...]:
        """After a step: what is guessed without the network, if that is better. rows: requests that
        go on."""
        is_quoted = self.quotes is not None and self.quotes.is_last
        self.progress.look(self.sequence, is_mine=not is_quoted)
        if self.quotes is None:
            return ()
        self.quotes.progress.look(self.sequence, is_mine=is_quoted)
        rate = self.progress.best(self.sequence, rows)[1]
        draft = self.quotes.draft(self.sequence, rows, rate)
        self.quotes.is_last = bool(draft)
        return draft

    @property
    def num_left(self) -> int:
        """Tokens that were not fed."""
        assert self.fed is not None
        return self.length - self.ahead + len(self.draft) - self.fed

    def begin(self, most: int, held: int) -> None:
        """A new draft behind what is known now. held: tokens of its beginning that the cache holds,
        if it has not read anything."""
        context, old = self.sequence.context, self.draft
        same = 0
        if not self.ahead:
            behind = zip(old, context[self.length :], strict=False)
            same = next((i for i, (guess, said) in enumerate(behind) if guess != said), len(old))
            same = min(same, len(context) - self.length)
        # What a head read of its own guesses it reads again, now that there are true features.
        true = self.length - self.ahead + same
        self.fed = held if self.fed is None else min(self.fed, true)
        self.length, self.most, self.draft = len(context), most, []
        self.matcher = self.sequence.matcher

    def row(self) -> SamplingRow:
        """How the next token of the draft is chosen: as the large model would."""
        request, said = self.sequence.request, self.length - len(self.sequence.request.tokens)
        ahead, params = len(self.draft), request.sampling
        answer = self.sequence.context[len(request.tokens) :] if params.penalises else ()
        history = (*answer, *self.draft) if params.penalises else ()
        place, known = self.length + ahead, known_of(self.sequence)
        return SamplingRow(params, place, history, said + ahead, self.matcher, known)

    def take(self, token: int) -> None:
        """It was chosen; an end ends the draft, too."""
        self.draft.append(token)
        if token in self.sequence.generated.end_tokens:
            self.most = len(self.draft)
        elif self.matcher is not None and len(self.draft) < self.most:
            self.matcher = self.matcher.behind(token)


@dataclass(frozen=True, slots=True)
class Feed:
    """What a pass asks of a sequence. count: tokens that it reads."""

    reader: Reader
    count: int
    phase = Phase.DECODE  # no media are put into it
    unread = 0
    positions = None

    @property
    def key(self) -> str:
        """The owner's."""
        return self.reader.sequence.key

    @property
    def row(self) -> int:
        """Whose block table it is."""
        return self.reader.sequence.row

    @property
    def fed(self) -> int:
        """Tokens in front."""
        assert self.reader.fed is not None
        return self.reader.fed

    @property
    def request(self) -> PagedRequest:
        """The large model's."""
        return self.reader.sequence.request

    def queries(self, count: int) -> list[int]:
        """The tokens."""
        context, start = self.reader.sequence.context, self.fed + self.reader.ahead
        if start >= len(context):
            return self.reader.draft[start - len(context) :][:count]
        return [*context[start : start + count], *self.reader.draft][:count]


class DraftNetwork(Protocol):
    """What drafts are made with. ahead: how far behind a place the token stands that it reads
    there: 0, a model; 1, a head, which reads of the place itself what the large model made of it.
    vocab: logits per token, of the large model's tokens."""

    ahead: int
    vocab: int
    device: torch.device

    def run(self, work: Sequence[tuple[Feed, int]], wanted: Sequence[int]) -> PagedLogits:
        """One pass over so many tokens of each. wanted: 1 where the last one's successor is."""


class SmallModel:
    """A smaller model. decoder: of the large one's vocabulary, on its device. rows, num_blocks: the
    runner's."""

    ahead = 0

    def __init__(self, decoder: PagedDecoder, rows: Rows, num_blocks: int) -> None:
        self.vocab = decoder.vocab
        self.device = decoder.device
        # Eager: copies of the block tables on the device are the large model's.
        self._passes = PagedPasses(
            decoder,
            decoder.new_cache(num_blocks),
            rows,
            media_parts=0,
            acceleration=Acceleration.on(decoder.device, graphs=False),
        )

    def run(self, work: Sequence[tuple[Feed, int]], wanted: Sequence[int]) -> PagedLogits:
        """See `DraftNetwork`."""
        return self._passes.run(work, wanted, {})


class ModelDrafter:
    """See `Drafter`. num_blocks: the runner's."""

    def __init__(self, network: DraftNetwork, num_blocks: int) -> None:
        self.costs: PassCosts | None = None
        self._experience = Experience()
        self._network = network
        self._sampler = Sampler(network.vocab, network.device)
        self._is_read = np.zeros(num_blocks, bool)  # blocks, by the network
        self._readers: dict[str, Reader] = {}
        self.num_passes = self.num_read = 0

    def begin(self, sequence: PagedSequence) -> None:
        """See `Drafter`."""
        self._is_read[sequence.blocks[sequence.num_named :]] = False
        if sequence.request.max_new_tokens >= LEAST_ANSWER:
            progress = Progress(Pace(self.costs, self._experience))
            quotes = None
            if self.costs is not None:
                quotes = Quotes(Progress(Pace(replace(self.costs, draft=None))))
            reader = Reader(sequence, progress, self._network.ahead, quotes)
            self._readers[sequence.key] = reader

    @torch.inference_mode()
    def draft(self, sequences: Sequence[PagedSequence]) -> None:
        """See `Drafter`."""
        begun: list[Reader] = []
        for sequence in sequences:
            if (reader := self._readers.get(sequence.key)) is None:
                continue
            quoted = reader.quoted(len(sequences))
            most = 0 if quoted else reader.progress.best(sequence, len(sequences))[0]
            sequence.is_drafted = bool(quoted) or most > 0
            if not sequence.may_guess:
                continue
            if quoted:
                sequence.guess(quoted)
            elif most > 0:
                reader.begin(most, self._held(sequence))
                begun.append(reader)
        going = begun
        while going:
            self._step(going)
            going = [reader for reader in going if len(reader.draft) < reader.most]
        for reader in begun:
            reader.sequence.guess(reader.draft)
            self._keep(reader)

    def _held(self, sequence: PagedSequence) -> int:
        """Tokens of its beginning that somebody has had read. Of a head, the last place of a block
        may have been read with somebody else's next token: others read it, so it stays."""
        full = (len(sequence.context) - 1 - self._network.ahead) // BLOCK_TOKENS
        is_read = self._is_read[sequence.blocks[:full]]
        return BLOCK_TOKENS * (full if is_read.all() else int(is_read.argmin()))

    def _keep(self, reader: Reader) -> None:
        assert reader.fed is not None
        full = min(reader.fed, reader.length - reader.ahead) // BLOCK_TOKENS
        self._is_read[reader.sequence.blocks[:full]] = True

    def _step(self, going: Sequence[Reader]) -> None:
        """One pass: a token more for each draft whose context has been read."""
        feeds = [Feed(reader, min(reader.num_left, CHUNK)) for reader in going]
        ready = [feed.reader for feed in feeds if feed.count == feed.reader.num_left]
        wanted = [int(feed.count == feed.reader.num_left) for feed in feeds]
        logits = self._network.run([(feed, feed.count) for feed in feeds], wanted)
        rows = [reader.row() for reader in ready]
        sampled = self._sampler.launch(logits.values, rows, logits.greedy).read()
        self.num_passes += 1
        for feed in feeds:
            self.num_read += feed.count
            feed.reader.fed = feed.fed + feed.count
        for number, (reader, token) in enumerate(zip(ready, sampled.tokens, strict=True)):
            if number in sampled.bad:
                reader.most = 0
            else:
                reader.take(token)

    @torch.inference_mode()
    def read_alone(self, sequence: PagedSequence, size: int) -> None:
        """A pass over so many tokens behind its context, whatever they are: to be timed."""
        reader = Reader(sequence, Progress(Pace(None)), self._network.ahead)
        reader.begin(size, 0)
        reader.fed, reader.draft = reader.length - reader.ahead, [0] * size
        self._step([reader])
        self.num_passes = self.num_read = 0

    def end(self, sequence: PagedSequence) -> None:
        """See `Drafter`."""
        self._readers.pop(sequence.key, None)

    def stats(self) -> dict[str, int]:
        """draft_tokens_read: tokens that the network read, its own among them."""
        return {"draft_passes": self.num_passes, "draft_tokens_read": self.num_read}
