"""What a transducer writes: at each place a token, or nothing, given what it has written so far.

An LSTM reads the tokens (the predictor); its output and a place, added up, give the logits (the
joint network). A place gives tokens until the next one is nothing (the blank), or they are as many
as may be. Nothing that was written is ever taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from lookhear import kernels
from lookhear.engine.device.staging import Readback, to_device
from lookhear.engine.transducer.dims import TransducerDims
from lookhear.engine.transducer.weights import PredictorWeights
from lookhear.kernels import linear

AHEAD = 8  # places that are asked at once: most of them say nothing


@dataclass(slots=True)
class PredictorState:
    """Of one recording. hidden, cells: [layers, width]. out: [width], what is added to places."""

    hidden: Tensor
    cells: Tensor
    out: Tensor


@dataclass(slots=True)
class Written:
    """tokens, their natural-log probabilities, and at which place of the piece each was written.
    passes: of the joint network."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    passes: int = 0


@dataclass(slots=True)
class _Line:
    """One recording. at: the place that is asked next. symbols: tokens it gave so far."""

    state: PredictorState
    places: Tensor
    written: Written = field(default_factory=Written)
    at: int = 0
    symbols: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Predictor:
    """In float32."""

    dims: TransducerDims
    weights: PredictorWeights

    @torch.inference_mode()
    def begin(self) -> PredictorState:
        """Of a new recording: nothing was written."""
        dims = self.dims
        hidden, cells = (
            torch.zeros(1, dims.layers, dims.width, device=self.weights.tokens.device)
            for _ in range(2)
        )
        hidden, cells, out = self.read([dims.blank], hidden, cells)
        return PredictorState(hidden[0], cells[0], out[0])

    @torch.inference_mode()
    def logits(self, places: Tensor, out: Tensor) -> Tensor:
        """places, out: [..., width] -> [..., vocab]."""
        return linear((places + out).relu(), self.weights.head)

    @torch.inference_mode()
    def write(self, states: Sequence[PredictorState], places: Sequence[Tensor]) -> list[Written]:
        """What each recording says at more of its places, [n, width]; the states go on. After each
        token the host waits for the device."""
        lines = [_Line(state, own) for state, own in zip(states, places, strict=True)]
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
        logits = self.logits(torch.cat(asked), torch.cat(outs))
        tokens, logprobs = kernels.greedy(logits)
        told = Readback(torch.cat([tokens.double(), logprobs.double()])).read()
        chosen = told[: len(tokens)], told[len(tokens) :]
        said, first = [], 0
        for line, own in zip(lines, asked, strict=True):
            here = slice(first, first + len(own))
            first += len(own)
            line.written.passes += 1
            if self._take(line, chosen[0][here], chosen[1][here]):
                said.append(line)
        return said

    def _take(self, line: _Line, tokens: list[float], logprobs: list[float]) -> bool:
        for ahead, (token, logprob) in enumerate(zip(tokens, logprobs, strict=True)):
            if token == self.dims.blank:
                continue
            if ahead:
                line.at, line.symbols = line.at + ahead, 0
            line.symbols += 1
            line.written.tokens.append(int(token))
            line.written.logprobs.append(logprob)
            line.written.places.append(line.at)
            if line.symbols >= self.dims.most_symbols:
                line.at, line.symbols = line.at + 1, 0
            return True
        line.at, line.symbols = line.at + len(tokens), 0
        return False

    def _go_on(self, lines: Sequence[_Line]) -> None:
        """Read what each has just written."""
        states = [line.state for line in lines]
        hidden, cells, outs = self.read(
            [line.written.tokens[-1] for line in lines],
            torch.stack([state.hidden for state in states]),
            torch.stack([state.cells for state in states]),
        )
        for row, state in enumerate(states):
            state.hidden, state.cells, state.out = hidden[row], cells[row], outs[row]

    def read(
        self, tokens: Sequence[int], hidden: Tensor, cells: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One token of each. hidden, cells: [n, layers, width]. Returns both, and [n, width]."""
        w = self.weights
        x = w.tokens[to_device(tokens, torch.int64, w.tokens.device)]
        new_hidden, new_cells = [], []
        for layer, cell in enumerate(w.cells):
            gates = linear(torch.cat([x, hidden[:, layer]], 1), cell)
            let_in, keep, fresh, show = gates.chunk(4, 1)
            kept = keep.sigmoid() * cells[:, layer] + let_in.sigmoid() * fresh.tanh()
            x = show.sigmoid() * kept.tanh()
            new_cells.append(kept)
            new_hidden.append(x)
        return torch.stack(new_hidden, 1), torch.stack(new_cells, 1), linear(x, w.out)
