"""Runs requests on a decoder with a paged cache: place, launch, wait, release.

    place    prompt -> digests -> blocks found in the cache + blocks reserved for all the rest
    launch   missing media -> encoder (batched over requests) -> embeddings of the step's tokens
             -> one decoder pass -> logits where a successor is wanted
    wait     sampled tokens -> sequences; blocks that are full and written get their names

Nothing here is particular to a model: what is, is behind `PagedModel`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice

import numpy as np
import torch

from lookhear.engine.core.adapting import BatchAdapters
from lookhear.engine.core.request import Phase, RequestError
from lookhear.engine.core.runner import NOT_FINITE, Failure, Finish, isolated, warm_up
from lookhear.engine.device.acceleration import CPU, Acceleration
from lookhear.engine.device.graphs import Graphs
from lookhear.engine.device.staging import Readback
from lookhear.engine.paged.blocks import BLOCK_TOKENS, BlockPool
from lookhear.engine.paged.choosing import PagedPass, Share, sampling_rows, telling
from lookhear.engine.paged.digests import OwnersDigests, block_digests
from lookhear.engine.paged.drafter import Drafter
from lookhear.engine.paged.expecting import ExpectingSequence
from lookhear.engine.paged.media import MediaEmbeddings, MediaEncoder, PagedModel
from lookhear.engine.paged.passes import PagedPasses
from lookhear.engine.paged.request import PagedRequest, PagedSequence
from lookhear.engine.paged.rows import Rows
from lookhear.engine.paged.wanted.prompts import PooledTokens
from lookhear.engine.paged.warm_up import paged_requests, warm_up_mask
from lookhear.engine.sampling.sampler import Sampler, SamplingRow

log = logging.getLogger(__name__)


class PagedRunner:
    """max_rows: requests at once. num_blocks: of the paged cache, the trash block included.
    max_context: tokens of one request, prompt and answer. encoder_bytes: of cached embeddings.
    media_parts, adapters: see `PagedPasses`."""

    def __init__(
        self,
        model: PagedModel,
        *,
        max_rows: int,
        num_blocks: int,
        max_context: int,
        encoder_bytes: int,
        media_parts: int = 1,
        media_encoder: MediaEncoder | None = None,
        acceleration: Acceleration = CPU,
        adapters: BatchAdapters | None = None,
    ) -> None:
        self._model = model
        self._encoder = media_encoder
        self._decoder = model.decoder
        self._device = model.decoder.device
        self._max_context = min(max_context, (num_blocks - 1) * BLOCK_TOKENS)
        self._pool = BlockPool(num_blocks)
        self._digests = OwnersDigests()
        self.cache = self._decoder.new_cache(num_blocks)
        self.rows = Rows(max_rows, -(-self._max_context // BLOCK_TOKENS))
        self.passes = PagedPasses(
            self._decoder,
            self.cache,
            self.rows,
            media_parts=media_parts,
            acceleration=acceleration,
            adapters=adapters,
        )
        self._media = MediaEmbeddings(
            model,
            media_encoder,
            encoder_bytes,
            self.passes.graphs.num_runs,
            adapters,
            media_parts,
        )
        self._sampler = Sampler(self._decoder.vocab, self._device)
        self._end_tokens = frozenset(model.end_tokens)
        self._computing: dict[bytes, str] = {}  # digest of a block that a request is about to write
        self._waiting: dict[str, PagedSequence] = {}
        self.num_read = self.num_found = 0
        self.drafter: Drafter | None = None

    @torch.inference_mode()
    def capture(self, progress: Callable[[float], None]) -> None:
        """The graphs, if there are any, before the first step. progress: the share that is done."""
        for graphs in self._graphs:
            graphs.capture(progress)
        if self._device.type == "cuda":
            warm_up(self, paged_requests())
            warm_up_mask(self._sampler, self._decoder.vocab, self._device)
            self.reset_counters()

    def reset_counters(self) -> None:
        """What was tried before the first request was nobody's."""
        for graphs in self._graphs:
            graphs.num_runs.clear()
        self.num_read = self.num_found = 0

    @property
    def _graphs(self) -> list[Graphs]:
        passes = self.passes.graphs
        return [passes] if self._encoder is None else [passes, self._encoder.graphs]

    # --- room ------------------------------------------------------------------------------------

    @property
    def free_tokens(self) -> int:
        """Places of the paged cache that a new request could reserve now."""
        return self._pool.available() * BLOCK_TOKENS

    def place(self, request: PagedRequest) -> PagedSequence:
        """Find what is cached, reserve the rest. The scheduler has seen to it that there is room.

        Raises `RequestError` if the request is longer than the engine can ever hold, or has a token
        that the model does not know.
        """
        size = request.reserved_tokens
        if size > self._max_context:
            raise RequestError(
                "context_length_exceeded",
                f"expected at most {self._max_context} tokens of prompt and answer, got {size}"
                f" ({len(request.tokens)} + {request.max_new_tokens})",
            )
        assert request.tokens and (request.max_new_tokens > 0) is (
            request.pooled is PooledTokens.NONE
        )
        # Many a checkpoint's tokenizer was given tokens for which its model has no rows. Most are
        # never asked for; one that is must not reach the device, where it would end everybody's.
        if (token := max(request.tokens)) >= self._decoder.dims.vocab:
            known = f"expected tokens that the model has, below {self._decoder.dims.vocab}"
            raise RequestError("invalid_value", f"prompt: {known}; its tokenizer makes {token}")
        digests = self._digests_of(request)
        found = [] if request.reads_all else self._pool.match(digests, len(request.tokens))
        fresh = self._pool.allocate(-(-size // BLOCK_TOKENS) - len(found))
        if fresh is None:
            self._pool.release(found)
            raise RequestError("out_of_memory", f"no room for {size} tokens; try again later")
        row = self.rows.allocate()
        cached = len(found) * BLOCK_TOKENS
        kind = PagedSequence if request.expectation is None else ExpectingSequence
        try:
            sequence = kind(
                request,
                self._end_tokens,
                row,
                [*found, *fresh],
                fed=cached,
                digests=digests,
                num_named=len(found),
                num_cached=cached,
            )
        except Exception:
            self._pool.release([*found, *fresh])
            self.rows.free(row)
            raise
        self.rows.write(row, sequence.blocks)
        if not request.reads_all:
            self._await_or_claim(sequence)
        if self.drafter is not None:
            self.drafter.begin(sequence)
        return sequence

    def _digests_of(self, request: PagedRequest) -> list[bytes]:
        """Names of its full blocks, up to what nobody asks for again."""
        tokens, lasting = request.tokens, request.lasting_tokens
        if lasting < len(tokens):
            tokens = tokens[: int(lasting)]
        spans = [medium.span(start) for start, medium in request.media if start < lasting]
        if not request.final_tokens:
            return block_digests(tokens, spans, salt=request.salt, adapter=request.version)
        return self._digests.of(
            request.key, tokens, spans, salt=request.salt, adapter=request.version
        )

    def _await_or_claim(self, sequence: PagedSequence) -> None:
        """Wait for a running request that is about to write the next block this one needs, so that
        a prefix shared by many is read once; else claim the blocks, so that others may wait."""
        request = sequence.request
        # One token is always computed, and what may not be asked for again gets no name.
        usable = int(min(len(request.tokens) - 1, sequence.lasting)) // BLOCK_TOKENS
        ahead = sequence.digests[sequence.num_named : usable]
        if ahead and self._computing.get(ahead[0], sequence.key) != sequence.key:
            sequence.is_waiting = True
            self._waiting[sequence.key] = sequence
            return
        sequence.is_waiting = False
        self._waiting.pop(sequence.key, None)
        for digest in ahead:
            self._computing.setdefault(digest, sequence.key)

    def _wake(self) -> None:
        """Give those who waited what has been written meanwhile."""
        for sequence in list(self._waiting.values()):
            found = self._pool.match(sequence.digests, len(sequence.request.tokens))
            known = sequence.num_named
            if len(found) > known:
                self._pool.release(sequence.blocks[: len(found)])
                sequence.blocks[: len(found)] = found
                self.rows.write(sequence.row, sequence.blocks)
                sequence.num_named = len(found)
                sequence.fed = sequence.num_cached = len(found) * BLOCK_TOKENS
            else:
                self._pool.release(found)
            self._await_or_claim(sequence)

    def release(self, sequence: PagedSequence) -> None:
        """The request is over, whatever the reason. What its owner's next request will begin with
        stays pinned; the rest can be found until the room is needed."""
        request, blocks = sequence.request, sequence.blocks
        final = min(request.final_tokens // BLOCK_TOKENS, sequence.num_named)
        if final:
            self._pool.pin(request.key, blocks[:final])
        self._pool.release(blocks)
        self.rows.free(sequence.row)
        self._media.release(sequence.key)
        self._waiting.pop(sequence.key, None)
        if self.drafter is not None:
            self.drafter.end(sequence)
        for digest in sequence.digests[sequence.num_cached // BLOCK_TOKENS :]:
            if self._computing.get(digest) == sequence.key:
                del self._computing[digest]
        self._wake()

    def forget(self, key: str) -> None:
        """The owner is gone: its pinned blocks may go, and their names."""
        self._pool.unpin(key)
        self._digests.forget(key)

    # --- steps -----------------------------------------------------------------------------------

    @torch.inference_mode()
    def launch(self, work: Sequence[tuple[PagedSequence, int]]) -> Finish:
        """Encode what is missing, run one decoder pass over all the work, and choose."""
        failures: list[Failure] = []
        self._media.begin_step()
        for (sequence, _), error in isolated(work, self._media.encode):
            failures.append(
                Failure.of(sequence.key, error, "the audio or picture could not be encoded")
            )
        gone = {failure.key for failure in failures}
        ready = [(s, n) for s, n in work if s.key not in gone] if gone else work
        passes: list[PagedPass] = []

        def run(part: Sequence[tuple[PagedSequence, int]]) -> None:
            if part:
                passes.append(self._forward(part))

        for (sequence, _), error in isolated(ready, run):
            failures.append(Failure.of(sequence.key, error, "the step could not be carried out"))
        return partial(self._finish, passes, failures, self._media.unread())

    def _forward(self, work: Sequence[tuple[PagedSequence, int]]) -> PagedPass:
        wanted = [sequence.num_logits(count) for sequence, count in work]
        pooled = [sequence.num_pooled(count) for sequence, count in work]
        scored = [sequence.num_scored(count) for sequence, count in work]
        logits = self.passes.run(work, wanted, self._media.held, pooled, scored)
        rows: list[SamplingRow] = []
        for (sequence, count), number in zip(work, wanted, strict=True):
            rows += sampling_rows(sequence, count, number)
        choice = self._sampler.launch(logits.values, rows, logits.greedy)
        self.passes.keep(choice.tokens)
        shares = []
        for (sequence, count), number, *prompts in zip(work, wanted, pooled, scored, strict=True):
            known = min(count, sequence.num_known)
            is_prompt = sequence.phase is Phase.PREFILL
            if is_prompt:
                self.num_read += known
            shares.append(Share(sequence, number, is_prompt, sequence.fed + known, *prompts))
        told = telling(shares, logits.values, choice.tokens)
        found = None if logits.pooled is None else Readback(logits.pooled)
        for sequence, count in work:  # behind all that may fail, or it would be done twice
            sequence.launch(count)
        return PagedPass(shares, choice, found, logits.scores, told)

    @torch.inference_mode()
    def _finish(
        self,
        passes: Sequence[PagedPass],
        launched: list[Failure],
        unread: Sequence[Callable[[], None]],
    ) -> list[Failure]:
        """Read what was chosen, move the sequences on, name their full blocks. launched: those that
        failed before. unread: of the encoder."""
        failures: list[Failure] = []
        for read in unread:
            read()
        for done in passes:
            sampled = done.choice.read()
            bad = set(sampled.bad)
            hidden = None if done.pooled is None else done.pooled.array()
            told = iter(() if done.told is None else done.told.read())
            scores = iter(() if done.scores is None else done.scores.read())
            at = behind = 0
            for share in done.shares:
                part = slice(at, at + share.wanted)
                at += share.wanted
                states = slice(behind, behind + share.pooled)
                behind += share.pooled
                mine = list(islice(told, share.wanted)) if share.is_told else []
                scored = list(islice(scores, share.scored))
                sequence = share.sequence
                if sequence.phase is Phase.DONE:
                    continue  # it ended while this step was on its way
                if bad and bad.intersection(range(part.start, part.stop)):
                    failures.append(Failure(sequence.key, "model_error", NOT_FINITE))
                    continue
                sequence.scores += scored
                if sequence.is_pooled:
                    own = np.zeros((0, 0), np.float32) if hidden is None else hidden[states]
                    if not np.isfinite(own).all():
                        failures.append(Failure(sequence.key, "model_error", NOT_FINITE))
                        continue
                    if sequence.keep(own):
                        self.num_found += sequence.num_cached
                written = share.written
                if share.wanted:
                    tops = None
                    if sampled.top is not None and sequence.request.sampling.logprobs:
                        tops = sampled.top[part]
                    chosen = sampled.tokens[part], sampled.logprobs[part]
                    if isinstance(sequence, ExpectingSequence):
                        sequence.absorb_told(*chosen, mine)
                    else:
                        sequence.absorb(*chosen, tops)
                    if share.is_prompt:
                        self.num_found += sequence.num_cached
                    if share.wanted > 1:
                        written = len(sequence.context) - 1
                self._name(sequence, min(written, len(sequence.context) - 1))
        if failures or self._waiting:
            self._wake()
        if self.drafter is not None:
            self._guess(self.drafter, passes)
        return launched + failures

    def _guess(self, drafter: Drafter, passes: Sequence[PagedPass]) -> None:
        shares = [share for done in passes for share in done.shares]
        going = [s.sequence for s in shares if s.sequence.phase is Phase.DECODE]
        for sequence, error in isolated(going, drafter.draft):
            log.warning("drafts: of %s there are no more: %s", sequence.key, error)
            drafter.end(sequence)

    def _name(self, sequence: PagedSequence, written: int) -> None:
        for block, digest in sequence.name_blocks(written):
            self._pool.commit(block, digest)
            if self._computing.get(digest) == sequence.key:
                del self._computing[digest]

    # --- checks ----------------------------------------------------------------------------------

    def stats(self) -> dict[str, int]:
        """read, found: prompt tokens that were computed, or found in the cache. encoded: tokens of
        media. Blocks are those of the paged cache."""
        return {
            "prompt_tokens_read": self.num_read,
            "prompt_tokens_found": self.num_found,
            "media_tokens_encoded": self._media.num_encoded,
            "free_blocks": self._pool.num_free,
            "cached_blocks": self._pool.num_cached,
            "evicted_blocks": self._pool.num_evicted,
            "dropped_pins": self._pool.num_pins_dropped,
            **self._media.stats(),
            **({} if self.drafter is None else self.drafter.stats()),
            **{
                name: sum(graphs.stats()[name] for graphs in self._graphs)
                for name in self.passes.graphs.stats()
            },
        }

    def check(self, num_running: int) -> None:
        """Raise AssertionError if rows or blocks leaked."""
        self._pool.check()
        self.rows.check()
        self._media.check()
        assert self.rows.max_rows - self.rows.num_free == num_running
        if num_running == 0:
            assert not self._computing and not self._media.held and not self._waiting
