"""What a Parakeet writes of the places of a recording: by a transducer whose tokens say how many
places they take (TDT), or place by place without one (CTC). A plain transducer is
`engine.transducer.predictor`'s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lookhear import kernels
from lookhear.engine.device.staging import Readback
from lookhear.engine.parakeet.dims import ParakeetDims
from lookhear.engine.transducer.predictor import AHEAD, Predictor, PredictorState, Written


@dataclass(slots=True)
class NoState:
    """Nothing is remembered of what was written."""


@dataclass(frozen=True, slots=True)
class CtcWriter:
    """Places are logits."""

    dims: ParakeetDims

    def begin(self) -> NoState:
        """Of a new recording."""
        return NoState()

    @torch.inference_mode()
    def write(self, states: Sequence[NoState], places: Sequence[Tensor]) -> list[Written]:
        """The likeliest token of each place; what comes twice in a row is one."""
        tokens, logprobs = kernels.greedy(torch.cat(list(places)).float())
        told = Readback(torch.cat([tokens.double(), logprobs.double()])).read()
        count, first, texts = len(tokens), 0, []
        for own in places:
            written, last = Written(passes=1), self.dims.blank
            for place in range(len(own)):
                token = int(told[first + place])
                if token not in (last, self.dims.blank):
                    written.tokens.append(token)
                    written.logprobs.append(told[count + first + place])
                    written.places.append(place)
                last = token
            first += len(own)
            texts.append(written)
        return texts


@dataclass(slots=True)
class _Line:
    """One recording. at: the place that is asked next. symbols: tokens it gave so far."""

    state: PredictorState
    places: Tensor
    written: Written
    at: int = 0
    symbols: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class DurationWriter:
    """In float32. predictor: reads what was written; its head has durations behind the tokens."""

    dims: ParakeetDims
    predictor: Predictor

    def begin(self) -> PredictorState:
        """Of a new recording."""
        return self.predictor.begin()

    @torch.inference_mode()
    def write(self, states: Sequence[PredictorState], places: Sequence[Tensor]) -> list[Written]:
        """What each recording says; after each token the host waits for the device."""
        lines = [_Line(s, own, Written()) for s, own in zip(states, places, strict=True)]
        while waiting := [line for line in lines if line.at < len(line.places)]:
            said = self._ask(waiting)
            if said:
                self._go_on(said)
        return [line.written for line in lines]

    def _ask(self, lines: Sequence[_Line]) -> list[_Line]:
        """Of each line some places, to the first that says something; returns those where one
        does."""
        asked = [line.places[line.at : line.at + AHEAD] for line in lines]
        outs = [line.state.out.expand(len(own), -1) for line, own in zip(lines, asked, strict=True)]
        logits = self.predictor.logits(torch.cat(asked), torch.cat(outs))
        vocab = self.dims.vocab
        tokens, logprobs = kernels.greedy(logits[:, :vocab].contiguous())
        longest = logits[:, vocab:].argmax(1)
        packed = torch.cat([tokens.double(), logprobs.double(), longest.double()])
        told, count = Readback(packed).read(), len(tokens)
        said, first = [], 0
        for line, own in zip(lines, asked, strict=True):
            columns = [told[c * count + first : c * count + first + len(own)] for c in range(3)]
            first += len(own)
            line.written.passes += 1
            if self._take(line, *columns):
                said.append(line)
        return said

    def _take(
        self, line: _Line, tokens: list[float], logprobs: list[float], longest: list[float]
    ) -> bool:
        ahead = 0
        while ahead < len(tokens):
            duration = self.dims.durations[int(longest[ahead])]
            if tokens[ahead] == self.dims.blank:
                ahead, line.symbols = ahead + max(1, duration), 0
                continue
            place = line.at + ahead
            line.written.tokens.append(int(tokens[ahead]))
            line.written.logprobs.append(logprobs[ahead])
            line.written.places.append(place)
            line.symbols = 0 if duration else line.symbols + 1
            # As many at one place as may be: what never moves on would never end.
            if line.symbols >= self.dims.most_symbols:
                duration, line.symbols = 1, 0
            line.at = place + duration
            return True
        line.at += ahead
        return False

    def _go_on(self, lines: Sequence[_Line]) -> None:
        """Read what each has just written."""
        states = [line.state for line in lines]
        hidden, cells, outs = self.predictor.read(
            [line.written.tokens[-1] for line in lines],
            torch.stack([state.hidden for state in states]),
            torch.stack([state.cells for state in states]),
        )
        for row, state in enumerate(states):
            state.hidden, state.cells, state.out = hidden[row], cells[row], outs[row]
