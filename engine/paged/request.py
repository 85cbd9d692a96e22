"""One request to a decoder with a paged cache, and its progress while it runs. Pure: no tensors.

    tokens:   prompt, with placeholders where media are, and the answer's forced prefix at its end
    draft:    what the answer is guessed to be; verified in the pass that reads the prompt's end
    guess:    the same of a running answer's next tokens, verified in its next step

A request may want no answer but what the decoder makes of its tokens (`PooledTokens`): it is over
with its prompt.

    context   |---- found in the cache ----|---- known, to be read ----|-- draft --|
                                           ^ fed

Chunks may end anywhere, also inside the placeholders of one medium.

A step may be launched before the token that the last one sampled was read: that token is *unread*,
fed from where it lies on the device. A request whose next step depends on what was sampled (how
much of a draft is right, which tokens a penalty is for, where the answer is in its grammar) is
*held* until it is known.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.adapting import Adapter
from lookhear.engine.core.request import (
    UNREAD,
    Demand,
    GeneratedTokens,
    Phase,
    Priority,
    RequestProgress,
    Result,
    StopReason,
)
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.digests import DIGEST_BYTES, MediaSpan, block_digests
from lookhear.engine.paged.mrope import Grid, PromptPositions
from lookhear.engine.paged.sound import Sound, new_digest
from lookhear.engine.paged.wanted.prompts import PooledResult, PooledTokens, Scored
from lookhear.engine.sampling.expected import ExpectedWords
from lookhear.engine.sampling.matching import Grammar, Matcher
from lookhear.engine.sampling.params import GREEDY, Known, SamplingParams


class Medium(NamedTuple):
    """What one encoder pass reads, whole: a window of log-mel [mels, frames], say.

    digest: of the features, so equal digests mean equal embeddings; random if it is not final.
    num_tokens: placeholders that it stands behind. is_final: whether it may be asked for again; a
    window that still grows will not be, and keeping what comes of it would only push out what is.
    grid: of a picture, tokens down and across, if its decoder has M-RoPE. sound: of a window whose
    log-mel is left to the device; then its features are the samples. time: see `Grid`. is_given:
    its features are embeddings already, [num_tokens, width of the decoder, or of several parts].
    """

    features: NDArray[np.float32]
    num_tokens: int
    digest: bytes
    is_final: bool = True
    grid: tuple[int, int] | None = None
    sound: Sound | None = None
    time: int = 0
    is_given: bool = False

    @classmethod
    def given(cls, rows: NDArray[np.float32]) -> Medium:
        """Of embeddings, [tokens, width]. Their name is none that any other medium can have."""
        own = cls.of(rows, len(rows))
        name = hashlib.sha256(b"given" + own.digest).digest()[:DIGEST_BYTES]
        return own._replace(digest=name, is_given=True)

    @classmethod
    def of(
        cls,
        features: NDArray[np.float32],
        num_tokens: int,
        grid: tuple[int, int] | None = None,
        *,
        is_final: bool = True,
    ) -> Medium:
        """With a name of its own if it is not final, else with that of its features."""
        if not is_final:  # nobody asks for it again: any name that nobody else has
            return cls(features, num_tokens, new_digest(), is_final, grid)
        # Twice as fast as BLAKE2 where the processor has instructions for it, which is nearly
        # everywhere: 1.7 ms for a picture of 256 tokens.
        name = hashlib.sha256(repr(features.shape).encode())
        name.update(np.ascontiguousarray(features).data)
        return cls(features, num_tokens, name.digest()[:DIGEST_BYTES], is_final, grid)

    def span(self, start: int) -> MediaSpan:
        """What names blocks that its placeholders are in, the first of them at `start`: keys depend
        on where it is in time, too, which is not told by the tokens."""
        name = self.digest + self.time.to_bytes(8, "little") if self.time else self.digest
        return MediaSpan(name, start, self.num_tokens)


class Expectation(NamedTuple):
    """Words that an answer is expected to hold. before: its text in front of the answer, which the
    prompt ends with. header_end: the token behind which the text of the answer begins; None: it
    does at once. is_open: speech may go on behind it, in the midst of a word."""

    words: ExpectedWords
    before: tuple[int, ...] = ()
    header_end: int | None = None
    is_open: bool = False


class PagedRequest(NamedTuple):
    """What to read and what to decode. Immutable; see the module docstring for the layout.

    media: (first placeholder's place in tokens, medium), in order. final_tokens: of the prompt,
    that will be the same in the owner's next request; their blocks are kept for it (a soft pin).
    salt: separates tenants in the prefix cache. model_ends: whether the checkpoint's end tokens end
    it too, besides those of sampling. grammar: what the answer keeps to; only some
    take a draft of its beginning. is_to_end: it is ended before max_new_tokens are used up, where
    its grammar can. pooled: what is wanted if it is no answer; max_new_tokens are 0 then.
    scored: so many of the likeliest tokens are wanted in the place of each of the prompt's, and how
    probable that one is; None: nothing of the kind. adapter: what changes the model for it; None:
    nothing does. expectation: words that are heard more readily; of such a request no block is
    shared that trials of its answer may write to.
    """

    key: str
    priority: Priority
    tokens: tuple[int, ...]
    media: tuple[tuple[int, Medium], ...] = ()
    draft: tuple[int, ...] = ()
    max_new_tokens: int = 256
    sampling: SamplingParams = GREEDY
    final_tokens: int = 0
    salt: bytes = b""
    loop_room: int | None = 0
    model_ends: bool = True
    grammar: Grammar | None = None
    is_to_end: bool = False
    pooled: PooledTokens = PooledTokens.NONE
    scored: int | None = None
    adapter: Adapter | None = None
    expectation: Expectation | None = None

    @property
    def version(self) -> str:
        """Of the adapter: what is cached is of the same one."""
        return "" if self.adapter is None else self.adapter.version

    @property
    def lasting_tokens(self) -> float:
        """How many of its tokens, and then of its answer's, somebody may ask for again."""
        lasting = next((start for start, medium in self.media if not medium.is_final), math.inf)
        # The prompt's last token is read again with each word that is tried.
        return lasting if self.expectation is None else min(lasting, len(self.tokens) - 1)

    @property
    def reads_all(self) -> bool:
        """Whether all its tokens are read: what is cached of others tells nothing of them."""
        return self.pooled is PooledTokens.ALL or self.scored is not None

    @property
    def reserved_tokens(self) -> int:
        """Places in the cache that it needs at most."""
        return len(self.tokens) + self.max_new_tokens


# What most running requests ask for in most steps.
ONE_MORE = Demand(1)
HELD = Demand(1, waiting=True)


@dataclass(slots=True)
class PagedSequence(RequestProgress[PagedRequest]):
    """A running request. blocks: its block table, reserved for prompt and answer as a whole.
    num_named: leading blocks that the pool knows by digest. num_cached: prompt tokens that were
    found in the cache instead of being read. positions: None where they are the places. is_drafted:
    whether its next tokens are guessed: then no step is launched before the last one was read.
    num_guessed: tokens of guesses that were verified. scores: of the prompt's tokens, but for the
    first, behind which nothing stands."""

    end_tokens: frozenset[int]
    row: int
    blocks: list[int]
    digests: list[bytes] = field(default_factory=list)
    num_named: int = 0
    num_cached: int = 0
    is_waiting: bool = False
    is_drafted: bool = False
    num_guessed: int = 0
    scores: list[Scored] = field(default_factory=list)
    _guess: tuple[int, ...] = field(init=False, default=())
    is_plain: bool = field(init=False)  # whether its tokens are just the best ones
    lasting: float = field(init=False)  # see `PagedRequest.lasting_tokens`
    positions: PromptPositions | None = field(init=False, default=None)
    matcher: Matcher | None = field(init=False, default=None)
    known: Known | None = field(init=False, default=None)  # of the prompt, if a penalty needs it
    _hidden: list[NDArray[np.float32]] = field(init=False, default_factory=list)  # if pooled
    # What is asked of a prompt in every step in which others are fed: as long as it stays the same.
    _prompt_demand: Demand | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        request = self.request
        grids = [Grid(start, *m.grid, m.time) for start, m in request.media if m.grid is not None]
        if grids:
            self.positions = PromptPositions.of(len(request.tokens), grids)
        if request.grammar is not None:
            assert request.grammar.takes_draft or not request.draft
            budget = request.max_new_tokens if request.is_to_end else None
            self.matcher = request.grammar.start(budget)
        self.is_plain = request.grammar is None and request.sampling.is_plain
        self.lasting = request.lasting_tokens
        self.context = list(request.tokens)
        self.generated = GeneratedTokens(
            end_tokens=_end_tokens(request, self.end_tokens),
            max_tokens=max(1, request.max_new_tokens),
            loop_room=request.loop_room,
        )

    @property
    def _draft(self) -> tuple[int, ...]:
        # The last place of the answer is for the token after the draft.
        if self._is_prompt:
            return self.request.draft[: self.request.max_new_tokens - 1]
        return self._guess

    @property
    def num_drafted(self) -> int:
        """Tokens that were guessed."""
        return len(self.request.draft) + self.num_guessed

    @property
    def may_guess(self) -> bool:
        """Whether what comes next may be guessed: all that was launched for it has been read."""
        at_end = not (self.unread or self._depends) and len(self.context) - self.fed == 1
        return at_end and self.phase is Phase.DECODE

    def guess(self, tokens: Sequence[int]) -> None:
        """What may come next; up to what surely does not."""
        assert self.may_guess
        guess = tuple(tokens[: self.generated.room])
        end = next((i for i, t in enumerate(guess) if t in self.generated.end_tokens), len(guess))
        if self.matcher is not None:
            end = min(end, self.matcher.allowed(guess[:end]))
        self._guess = guess[:end]

    @property
    def _is_prompt(self) -> bool:
        return self.phase is Phase.PREFILL

    def demand(self) -> Demand:
        """What it could be fed next."""
        if self._prompt_demand is not None:
            return self._prompt_demand
        # A guess stands behind all that was sampled, so that is read first.
        waiting = self.is_waiting or self._is_held or (self.is_drafted and self.unread > 0)
        known = len(self.context) + self.unread - self.fed
        if self.phase is Phase.DECODE and known == 1 and not self._guess:
            return HELD if waiting else ONE_MORE
        demand = Demand(known, len(self._draft), waiting=waiting)
        if self._is_prompt and not waiting:  # who has waited for others does so no more
            self._prompt_demand = demand
        return demand

    def queries(self, count: int) -> list[int]:
        """The next count tokens to feed, at places fed, fed+1, ...; UNREAD for what was sampled
        last, if nobody has read it."""
        known = self.context[self.fed : self.fed + count]
        if len(known) == count:
            return known
        known += [UNREAD] * min(count - len(known), self.num_known - len(known))
        return known + list(self._draft[: count - len(known)])

    def num_logits(self, count: int) -> int:
        """How many of the last of count queries have a successor to be sampled."""
        if self.is_pooled:
            return 0
        return max(0, count - (len(self.context) + self.unread - self.fed) + 1)

    @property
    def is_pooled(self) -> bool:
        """Whether hidden states are wanted, and no answer."""
        return self.request.pooled is not PooledTokens.NONE

    def num_pooled(self, count: int) -> int:
        """Of how many of the last of count queries the hidden states are wanted."""
        match self.request.pooled:
            case PooledTokens.NONE:
                return 0
            case PooledTokens.LAST:
                return int(self.fed + count == len(self.context))
            case PooledTokens.ALL:
                return count

    def num_scored(self, count: int) -> int:
        """Behind how many of the first of count queries stands a token whose score is wanted."""
        if self.request.scored is None:
            return 0
        return max(0, min(count, len(self.request.tokens) - 1 - self.fed))

    def launch(self, count: int) -> None:
        """A step that feeds count tokens is on its way."""
        assert not self._is_held
        self._prompt_demand = None
        wanted = self.num_logits(count)
        looks_back = self.request.sampling.penalises or self.matcher is not None or self.is_drafted
        if wanted > 1 or (wanted == 1 and looks_back):
            self._depends = True
            return
        self.fed += count
        if wanted == 1:
            self.unread += 1
            self.phase = Phase.DECODE

    def absorb(
        self,
        sampled: list[int],
        logprobs: list[float],
        tops: list[list[tuple[int, float]]] | None = None,
    ) -> None:
        """Take the tokens sampled behind the last known token and the draft's, in the step that
        was launched first of those not read."""
        self._prompt_demand = None
        draft = self._draft[: len(sampled) - 1]
        if self._guess:
            self.num_guessed += len(draft)
            self._guess = ()
        taken = self._take(sampled, logprobs, draft, tops)
        if self.matcher is not None:
            for token in taken:
                self.matcher.accept(token)
        self.phase = Phase.DONE if self.generated.stop else Phase.DECODE

    def keep(self, hidden: NDArray[np.float32]) -> bool:
        """hidden: [n, width], those of the step that was launched first of those not read. Returns
        whether they were the last."""
        self.generated.num_passes += 1
        if len(hidden):
            self._hidden.append(hidden)
        wanted = len(self.context) if self.request.pooled is PooledTokens.ALL else 1
        if sum(map(len, self._hidden)) < wanted:
            return False
        self.generated.stop = StopReason.END
        self.phase = Phase.DONE
        return True

    def result(self) -> Result:
        """What came of the request. Only when done."""
        if not self.is_pooled:
            return RequestProgress.result(self)
        assert self.phase is Phase.DONE
        return PooledResult(
            key=self.key,
            tokens=(),
            logprobs=(),
            num_accepted=0,
            stop=StopReason.END,
            num_passes=self.generated.num_passes,
            hidden=np.concatenate(self._hidden),
            num_cached=self.num_cached,
        )

    def end(self) -> None:
        """The owner has what it wants."""
        self.generated.stop = self.generated.stop or StopReason.STOPPED
        self.phase = Phase.DONE

    def name_blocks(self, written: int) -> list[tuple[int, bytes]]:
        """(block, digest) of the blocks that have become full since the last call, and may be
        asked for again. written: tokens whose keys and values are in the blocks.

        Only after execution: a block that was named when it was scheduled could be read by others
        before it was written.
        """
        if written // BLOCK_TOKENS <= self.num_named:
            return []
        full = int(min(written, self.lasting)) // BLOCK_TOKENS
        if full <= self.num_named:
            return []
        if full > len(self.digests):
            spans = [medium.span(start) for start, medium in self.request.media]
            self.digests = block_digests(
                self.context[:written],
                spans,
                salt=self.request.salt,
                adapter=self.request.version,
                known=self.digests,
            )
        fresh = range(self.num_named, full)
        self.num_named = full
        return [(self.blocks[i], self.digests[i]) for i in fresh]


def _end_tokens(request: PagedRequest, models: frozenset[int]) -> frozenset[int]:
    ends = models if request.model_ends else frozenset()
    return ends.union(request.sampling.stop_tokens) if request.sampling.stop_tokens else ends
