"""What is chosen behind a launched decoder pass, and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from lookhear.engine.device.staging import Readback, to_device
from lookhear.engine.paged.expecting import ExpectingSequence
from lookhear.engine.paged.request import PagedSequence
from lookhear.engine.paged.wanted.scores import Scores
from lookhear.engine.sampling.params import NOTHING, Known
from lookhear.engine.sampling.sampler import PLAIN, Choice, SamplingRow
from lookhear.engine.sampling.telling import Telling, with_forced


class Share(NamedTuple):
    """One request's part of a launched pass. wanted: logits of it. is_prompt: whether the prompt
    was being read. written: tokens, guesses apart, that are in the cache when the pass is done.
    pooled: hidden states of it. scored: tokens of its prompt."""

    sequence: PagedSequence
    wanted: int
    is_prompt: bool
    written: int
    pooled: int
    scored: int

    @property
    def is_told(self) -> bool:
        """Whether words are expected."""
        return isinstance(self.sequence, ExpectingSequence)


@dataclass(frozen=True, slots=True)
class PagedPass:
    """One launched decoder pass, and what was chosen behind it. pooled: hidden states that are
    wanted, on their way to the host. scores: of tokens of prompts. told: of the shares of which
    words are expected."""

    shares: list[Share]
    choice: Choice
    pooled: Readback | None
    scores: Scores | None
    told: Telling | None


def sampling_rows(sequence: PagedSequence, count: int, wanted: int) -> list[SamplingRow]:
    """One per position that wants a successor; histories include the draft before it, and the place
    in a grammar is the one behind it."""
    is_on_trial = isinstance(sequence, ExpectingSequence) and sequence.expecting.trials is not None
    if sequence.is_plain or is_on_trial:  # a trial draws nothing
        return [PLAIN] * wanted
    request, answer, matcher = sequence.request, sequence.generated, sequence.matcher
    params = request.sampling
    said = len(answer.tokens) + sequence.unread
    place = len(request.tokens) + said
    draft = sequence.queries(count)[count - wanted + 1 :] if wanted > 1 else []
    history, prompt = answer.tokens if params.penalises else (), known_of(sequence)
    rows: list[SamplingRow] = []
    for i in range(wanted):
        if i and matcher is not None:
            matcher = matcher.behind(draft[i - 1])
        before = (*history, *draft[:i]) if params.penalises else ()
        rows.append(SamplingRow(params, place + i, before, said + i, matcher, prompt))
    return rows


def known_of(sequence: PagedSequence) -> Known:
    """What penalties need of its prompt, found out once."""
    if sequence.request.sampling.repetition_penalty == 1.0:
        return NOTHING
    if sequence.known is None:
        sequence.known = Known.of(sequence.request.tokens)
    return sequence.known


def telling(shares: Sequence[Share], logits: Tensor, tokens: Tensor) -> Telling | None:
    """What is to be told of a pass, before its sequences move on. logits: [wanted of all, vocab];
    tokens: chosen there. None: nobody expects words."""
    places: list[int] = []
    forced: list[int | None] = []
    firsts: list[Sequence[int]] = []
    at = 0
    for share in shares:
        if isinstance(share.sequence, ExpectingSequence):
            expecting = share.sequence.expecting
            own: list[int | None] = [*expecting.forced]
            places += range(at, at + share.wanted)
            forced += (own + [None] * share.wanted)[: share.wanted]
            firsts += [expecting.firsts] * share.wanted
        at += share.wanted
    if not places:
        return None
    index = to_device(places, torch.int64, logits.device)
    return Telling(logits[index], with_forced(tokens[index], forced), firsts)
