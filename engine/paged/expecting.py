"""A request to a paged decoder of whose answer words are expected. Pure: no tensors.

    prompt | header | text             decoded as any other, drafts verified
    prompt | header | text on trial    from some place on, with such a word in it; what is guessed
                                       behind it is verified like a draft

What is told of each token is read before the next step is launched, and what a trial writes to the
cache no other request ever finds: see `PagedRequest.lasting_tokens`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lookhear.engine.core.request import Demand, Phase, StopReason
from lookhear.engine.paged.request import Expectation, PagedSequence
from lookhear.engine.sampling.expected import Told
from lookhear.engine.sampling.expecting import Expecting, OnTrial, rejoined


@dataclass(slots=True)
class ExpectingSequence(PagedSequence):
    """A running request. See `PagedSequence`."""

    expectation: Expectation = field(init=False)
    expecting: Expecting = field(init=False)
    _num_header: int = field(init=False, default=0)  # tokens of the answer in front of its text

    def __post_init__(self) -> None:
        PagedSequence.__post_init__(self)
        request = self.request
        sampling = request.sampling
        assert request.expectation is not None
        # Words are tried behind the header, where nothing else keeps to anything.
        assert request.grammar is None or request.expectation.header_end is not None
        assert not (sampling.edits or sampling.penalises or sampling.logprobs)
        self.expectation = request.expectation
        self.expecting = Expecting(self.expectation.words)

    @property
    def may_guess(self) -> bool:
        """Nobody else guesses what comes next: what is told would be of another text."""
        return False

    def demand(self) -> Demand:
        """What it could be fed next. A word is tried in one piece."""
        demand = PagedSequence.demand(self)
        return demand if self.expecting.trials is None else demand._replace(divisible=False)

    def launch(self, count: int) -> None:
        """A step that feeds count tokens is on its way; what it says decides what comes next."""
        if not self.num_logits(count):
            PagedSequence.launch(self, count)
            return
        assert not self._is_held
        self._prompt_demand = None
        self._depends = True

    def absorb_told(self, sampled: list[int], logprobs: list[float], told: Sequence[Told]) -> None:
        """`absorb`, with what is told of each token that was sampled or forced."""
        self._prompt_demand = None
        generated, expecting = self.generated, self.expecting
        draft = self._draft[: len(sampled) - 1]
        if self._guess:
            self.num_guessed += len(draft)
        self._guess = ()
        expecting.read([*self.context, *draft])
        if expecting.trials is not None:
            self._depends = False
            generated.num_passes += 1
            forced = expecting.forced
            expecting.trials.take([*forced, *sampled[len(forced) :]], told)
            self._go_on_trial(expecting.trials)
            return
        taken = self._take(sampled, logprobs, draft)
        if self.matcher is not None:
            for token in taken:
                self.matcher.accept(token)
        ends = generated.stop is StopReason.END
        expecting.tell(told[: len(taken) + ends])
        self.phase = Phase.DONE if generated.stop else Phase.DECODE
        if not generated.stop:
            self._guess = rejoined(self.request.draft, generated.tokens)[: generated.room]
        elif ends and self._has_text():
            expectation = self.expectation
            trials = expecting.begin(
                (*generated.tokens[self._num_header :], sampled[len(taken)]),
                expectation.before,
                generated.end_tokens,
                self.request.max_new_tokens - self._num_header,
                is_open=expectation.is_open,
            )
            self._go_on_trial(trials)

    def _has_text(self) -> bool:
        """Whether the answer has any; if so, it is known where that begins."""
        end, said = self.expectation.header_end, self.generated.tokens
        if end is None:
            return True
        if end not in said:
            return False
        self._num_header = said.index(end) + 1
        return True

    def _go_on_trial(self, trials: OnTrial) -> None:
        generated, request = self.generated, self.request
        header = generated.tokens[: self._num_header]
        if trials.is_over:
            tokens, logprobs = trials.result()
            generated.tokens[:] = [*header, *tokens]
            generated.logprobs[self._num_header :] = logprobs
            self.context = [*request.tokens, *generated.tokens]
            self.phase = Phase.DONE
            return
        self.context = [*request.tokens, *header, *trials.context]
        self.fed, self.phase = self.expecting.num_cached(self.context), Phase.DECODE
        self._guess = trials.guess
