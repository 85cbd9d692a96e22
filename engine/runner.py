"""Runs requests on the model: encode, fill a cross-attention slot, decode all rows together.

Owns the caches. A request holds one row (its decoder context) and one slot (its encoded audio) from
`start` to `release`. On a CPU a step is plain eager torch; depth and graphs come later behind the
same calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence as Seq

import numpy as np
import torch
from torch import Tensor

import kernels
from engine.models.whisper import WhisperModel
from engine.models.word_times import token_times
from engine.request import LogitsRow, Phase, Request, Sequence
from engine.rules import TokenRules
from engine.tokenizer import WhisperTokenizer

SAMPLES_PER_POSITION = 320  # of the encoder's output: 50 positions a second at 16 kHz


class NonFiniteLogits(RuntimeError):
    """The model's output for one request is not a number; key: the request's owner."""

    def __init__(self, key: str) -> None:
        super().__init__("the model's output is not finite (NaN weights, or an overflow)")
        self.key = key


class Runner:
    """max_rows: requests decoded together at most."""

    def __init__(self, model: WhisperModel, tokenizer: WhisperTokenizer, max_rows: int) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._max_rows = max_rows
        self._rules = TokenRules(tokenizer, model.dims.vocab, model.device)
        self._filters = kernels.mel_filters(model.dims.num_mels).to(model.device)
        self._alignment_heads = tokenizer.alignment_heads or [
            # Nobody says which heads follow the audio: those of the later layers mostly do.
            (layer, head)
            for layer in range(model.dims.decoder_layers // 2, model.dims.decoder_layers)
            for head in range(model.dims.decoder_heads)
        ]
        self._self_cache = model.new_self_cache(max_rows)
        self._cross_cache = model.new_cross_cache(max_rows)

    # --- encoding --------------------------------------------------------------------------------

    @torch.inference_mode()
    def start(self, requests: Seq[Request]) -> list[Sequence]:
        """Encode the requests' audio, those with equal windows together, and give them rows.

        On an error nothing stays allocated.
        """
        started = [self._place(request) for request in requests]
        by_window: dict[int, list[Sequence]] = defaultdict(list)
        for sequence in started:
            by_window[sequence.request.window_samples].append(sequence)
        try:
            for window, group in by_window.items():
                self._encode(window, group)
        except RuntimeError:
            for sequence in started:
                self.release(sequence)
            raise
        return started

    def _place(self, request: Request) -> Sequence:
        row, slot = self._self_cache.allocate(), self._cross_cache.allocate()
        assert row is not None and slot is not None, "the scheduler admitted more than fits"
        limit = self._model.dims.context
        return Sequence(request, self._tokenizer.eot, limit, row=row, slot=slot)

    def _encode(self, window: int, group: list[Sequence]) -> None:
        samples = np.zeros((len(group), window), np.float32)
        for i, sequence in enumerate(group):
            audio = sequence.request.samples
            samples[i, : len(audio)] = audio
        padded = torch.from_numpy(samples).to(self._model.device)
        log_mel = kernels.log_mel(padded, self._filters)
        encoded = self._model.encode(log_mel.to(self._model.dtype))
        slots = [sequence.slot for sequence in group]
        lengths = [encoded.shape[1]] * len(group)
        self._cross_cache.write(slots, self._model.project_cross(encoded), lengths)

    # --- decoding --------------------------------------------------------------------------------

    @torch.inference_mode()
    def step(self, sequences: Seq[Sequence]) -> None:
        """Feed every sequence its next tokens and take what the model says. Prompts and single
        tokens run apart, so that no decode is padded to the length of somebody's prompt."""
        prompts = [s for s in sequences if s.phase in (Phase.DETECT, Phase.PREFILL)]
        decodes = [s for s in sequences if s.phase is Phase.DECODE]
        for group in (prompts, decodes):
            if group:
                self._forward(group)

    def _forward(self, group: list[Sequence]) -> None:
        device = self._model.device
        queries = [sequence.queries() for sequence in group]
        lengths = [len(q) for q in queries]
        longest = max(lengths)
        tokens = torch.tensor([q + [0] * (longest - len(q)) for q in queries])
        fed = torch.tensor([s.fed for s in group])
        limit = self._model.dims.context - 1
        positions = (fed[:, None] + torch.arange(longest)).clamp_(max=limit)
        hidden = self._model.decode(
            tokens.to(device),
            positions.to(device),
            torch.tensor([s.row for s in group], device=device),
            fed.to(device),
            torch.tensor(lengths, device=device),
            torch.tensor([s.slot for s in group], device=device),
            self._self_cache,
            self._cross_cache,
        )
        wanted = [(i, row) for i, s in enumerate(group) for row in s.logits_rows()]
        rows = torch.tensor([i for i, _ in wanted], device=device)
        columns = torch.tensor([row.index for _, row in wanted], device=device)
        logits = self._model.logits(hidden[rows, columns])
        self._sample(group, wanted, logits)

    def _sample(
        self, group: list[Sequence], wanted: list[tuple[int, LogitsRow]], logits: Tensor
    ) -> None:
        """Rules, choice and log-probability of all rows; one read back to the host."""
        no_speech = self._tokenizer.no_speech
        scores = [self._masked(group[i], row, logits[n]) for n, (i, row) in enumerate(wanted)]
        stacked = torch.stack(scores)
        tokens, logprobs = kernels.greedy(stacked)
        for n, (i, row) in enumerate(wanted):
            if row.purpose == "no_speech":
                logprobs[n] = logits[n].log_softmax(-1)[no_speech]
            elif group[i].request.temperature > 0 and row.purpose == "token":
                tokens[n], logprobs[n] = self._draw(group[i], row, stacked[n])
        chosen: list[list[int]] = [[] for _ in group]
        scored: list[list[float]] = [[] for _ in group]
        for (i, row), token, logprob in zip(
            wanted, tokens.tolist(), logprobs.tolist(), strict=True
        ):
            if logprob != logprob:
                raise NonFiniteLogits(group[i].request.key)
            if row.purpose == "no_speech":
                group[i].no_speech_prob = min(1.0, float(torch.tensor(logprob).exp()))
            else:
                chosen[i].append(token)
                scored[i].append(logprob)
        for sequence, picked, values in zip(group, chosen, scored, strict=True):
            if sequence.phase is Phase.DETECT:
                sequence.absorb_language(picked[0])
                continue
            sequence.absorb(picked, values)
            if sequence.phase is Phase.DONE and sequence.request.align:
                sequence.token_times = self._align(sequence)

    def _masked(self, sequence: Sequence, row: LogitsRow, logits: Tensor) -> Tensor:
        if row.purpose == "no_speech":
            return logits
        if row.purpose == "language":
            return self._rules.language(logits)
        if sequence.request.timestamps:
            return self._rules.timestamps(logits, row.history)
        is_first = not row.history and not sequence.request.prefix
        return self._rules.text(logits, is_first=is_first)

    def _draw(self, sequence: Sequence, row: LogitsRow, logits: Tensor) -> tuple[Tensor, Tensor]:
        request = sequence.request
        position = len(sequence.request.prefix) + len(row.history)
        token, logprob = kernels.sample(
            logits[None],
            torch.tensor([request.temperature]),
            torch.tensor([request.seed]),
            torch.tensor([position]),
        )
        return token[0], logprob[0]

    def _align(self, sequence: Sequence) -> tuple[tuple[float, float], ...]:
        """(start, end) in seconds of the window for every prefix and result token."""
        request, t = sequence.request, self._tokenizer
        text = [*request.prefix, *sequence.tokens]
        language = [] if sequence.language is None else [sequence.language]
        start = [t.sot, *language, *request.tail]
        tokens = torch.tensor([[*start, *text, t.eot]], device=self._model.device)
        weights = self._model.align(
            tokens,
            torch.tensor([tokens.shape[1]], device=self._model.device),
            torch.tensor([sequence.slot], device=self._model.device),
            self._cross_cache,
            heads=self._alignment_heads,
            audio_lengths=torch.tensor(
                [-(-len(request.samples) // SAMPLES_PER_POSITION)], device=self._model.device
            ),
        )
        starts, ends = token_times(weights[0].float().cpu().numpy(), len(start), len(text))
        return tuple(zip(starts.tolist(), ends.tolist(), strict=True))

    # --- ends ------------------------------------------------------------------------------------

    def release(self, sequence: Sequence) -> None:
        """The request is over, whatever the reason: its row and slot are free again."""
        self._self_cache.free(sequence.row)
        self._cross_cache.free(sequence.slot)

    def check(self, num_running: int) -> None:
        """Raise AssertionError if rows or slots leaked."""
        self._self_cache.check()
        self._cross_cache.check()
        assert self._max_rows - self._self_cache.num_free == num_running
        assert self._max_rows - self._cross_cache.num_free == num_running
