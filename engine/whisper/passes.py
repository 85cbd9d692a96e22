"""Whisper's passes, from sequences to logits and from audio to slots: eager, or captured graphs.

Three kinds. "decode": a token per row, text that goes on. "prompt": anything else that is decoded,
drafts to be verified among it, padded to the longest. "encode": windows of one length.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from lookhear import kernels
from lookhear.engine.core.adapting import Adapter, BatchAdapters
from lookhear.engine.core.request import UNREAD
from lookhear.engine.device.acceleration import CPU, Acceleration
from lookhear.engine.device.graphs import Fields, Shape, row_buckets
from lookhear.engine.device.staging import Integers, to_device
from lookhear.engine.models.caches import TRASH_ROW, TRASH_SLOT, CrossCache, SelfCache
from lookhear.engine.whisper.alignment import SAMPLES_PER_POSITION
from lookhear.engine.whisper.encoder import KeysValues
from lookhear.engine.whisper.model import WhisperModel
from lookhear.engine.whisper.positions import LogitsRow
from lookhear.engine.whisper.request import WhisperRequest, WhisperSequence
from lookhear.engine.whisper.rules import Rule, TokenRules
from lookhear.engine.whisper.settled import OVERLAP, SettledAudio, SettledStore
from lookhear.engine.whisper.silence import GROUP, EncodedSilence
from lookhear.kernels.log_mel import HOP

Wanted = Sequence[tuple[int, LogitsRow]]  # index into the group, position

# Of a prompt with a draft. Those of many rows and many tokens keep a GPU busy without a graph.
PROMPT_TOKENS = (4, 8, 16, 32, 64, 96)
PROMPT_ROWS = 16
ENCODER_ROWS = (1, 2, 4, 8)
SETTLED_BYTES = 1 << 30  # of what sessions heard before; 14 s of Whisper base are 17 to 34 MB


class WhisperLogits(NamedTuple):
    """values: [wanted, vocab] float32. text: the best text tokens [wanted] under the rules of text
    that goes on, and their log probabilities, where they were computed on the way."""

    values: Tensor
    text: tuple[Tensor, Tensor] | None = None


class WhisperPasses:
    """windows: lengths in samples that the encoder is captured for. pads: whether what is missing
    to a full window is heard as silence."""

    def __init__(
        self,
        model: WhisperModel,
        rules: TokenRules,
        self_cache: SelfCache,
        cross_cache: CrossCache,
        *,
        windows: Sequence[int] = (),
        pads: bool = False,
        acceleration: Acceleration = CPU,
        adapters: BatchAdapters | None = None,
    ) -> None:
        """adapters: change the model for requests that have one; passes with such are eager."""
        self._model = model
        self._adapters = adapters
        self._group = GROUP if model.device.type == "cpu" else 1
        self._silence = model.encode_silence(self._group) if pads else None
        self._silences: WeakKeyDictionary[Adapter, EncodedSilence] = WeakKeyDictionary()
        # On a GPU all is read at once, in captured passes.
        is_short = pads and model.device.type == "cpu"
        self._settled = SettledStore(SETTLED_BYTES) if is_short else None
        self._rules = rules
        self._self_cache = self_cache
        self._cross_cache = cross_cache
        self.windows = tuple(sorted(set(windows)))
        self._filters = kernels.mel_filters(model.dims.num_mels).to(model.device)
        # The token that each row sampled last, for steps that are launched before it is read.
        self._last: Tensor | None = None
        rows = self_cache.num_rows
        if acceleration.overlaps:
            self._last = torch.zeros(rows + 1, dtype=torch.int64, device=model.device)
        capacity = 4 * PROMPT_ROWS * PROMPT_TOKENS[-1] + 16 * rows + 256
        self.graphs = acceleration.new_graphs(capacity)
        if self.graphs.is_on:
            assert acceleration.memory is not None
            # One for all graphs: each would keep its own, of vocab numbers a row.
            self._logits = acceleration.memory.persistent((rows, model.dims.vocab), torch.float32)
            if windows:
                frames = ENCODER_ROWS[-1] * max(windows) // HOP
                size = frames * model.dims.num_mels
                self._mel = acceleration.memory.persistent([size], model.dtype)
            self._plan(rows)

    def _plan(self, rows: int) -> None:
        fill = partial(self._integers, [])
        decode: list[Shape] = [(size, 1) for size in row_buckets(rows)]
        self.graphs.plan("decode", decode, self._decode_region, fill)
        longest = self._model.dims.context
        prompts: list[Shape] = [
            (size, length)
            for size in row_buckets(min(rows, PROMPT_ROWS))
            for length in sorted({min(length, longest) for length in PROMPT_TOKENS})
        ]
        self.graphs.plan("prompt", prompts, self._hidden, fill)
        for window in self.windows:
            batches: list[Shape] = [(size,) for size in ENCODER_ROWS if size <= rows] or [(1,)]
            self.graphs.plan(
                f"encode {window}",
                batches,
                partial(self._encode_region, window),
                lambda shape: {"slots": np.full(shape, TRASH_SLOT, np.int64)},
            )

    # --- encoding --------------------------------------------------------------------------------

    def encode(self, group: Sequence[WhisperSequence]) -> None:
        """Audio of one `shape_of` into the slots of its sequences."""
        most = ENCODER_ROWS[-1] if self.graphs.is_on else len(group)
        for first in range(0, len(group), most):
            self._encode(group[first : first + most])

    def shape_of(self, request: WhisperRequest) -> tuple[int, bool, int | None]:
        """Samples to be encoded, whether others stand in front of them that were, and the slot of
        the adapter."""
        settled = self._settled_of(request)
        known = settled.positions * SAMPLES_PER_POSITION if settled else 0
        slot = None if request.adapter is None else request.adapter.slot
        return request.window_samples - known, known > 0, slot

    def _settled_of(self, request: WhisperRequest) -> SettledAudio | None:
        if self._settled is None:
            return None
        for beginning, num_samples in reversed(request.settled):
            held = self._settled.get(beginning, num_samples // SAMPLES_PER_POSITION)
            if held is not None:
                return held
        return None

    def _encode(self, group: Sequence[WhisperSequence]) -> None:
        adapter = group[0].request.adapter
        if adapter is None or self._adapters is None:
            self._encode_with(group, self._silence)
            return
        with self._adapters.encoding(adapter.slot):
            # Behind a full window nothing is heard.
            is_full = group[0].request.window_samples >= self._model.dims.max_frames * HOP
            silence = None if is_full else self._silence_of(adapter)
            self._encode_with(group, silence, is_captured=False)

    def _silence_of(self, adapter: Adapter) -> EncodedSilence | None:
        """As that adapter hears it."""
        if self._silence is None:
            return None
        if (found := self._silences.get(adapter)) is None:
            found = self._silences[adapter] = self._model.encode_silence(self._group)
        return found

    def _encode_with(
        self,
        group: Sequence[WhisperSequence],
        silence: EncodedSilence | None,
        *,
        is_captured: bool = True,
    ) -> None:
        if self._settled is not None and silence is not None:
            self._encode_behind(group, self._settled, silence)
            return
        model, window = self._model, group[0].request.window_samples
        # Most of a long window is silence: the device has that already.
        spoken = max(len(sequence.request.samples) for sequence in group)
        samples = np.empty((len(group), spoken), np.float32)
        for row, sequence in zip(samples, group, strict=True):
            count = len(sequence.request.samples)
            row[:count], row[count:] = sequence.request.samples, 0.0
        audio = torch.zeros((len(group), window), device=model.device)
        audio[:, :spoken] = to_device(samples, torch.float32, model.device)
        log_mel = kernels.log_mel(audio, self._filters)
        slots = [sequence.slot for sequence in group]
        kind = f"encode {window}"
        shape = self.graphs.fit(kind, len(group)) if is_captured else None
        if shape is None:
            encoded = self.graphs.run(kind, None, lambda: model.encode(log_mel, silence))
            lengths = [encoded.shape[1]] * len(group)
            rest = (None, None) if silence is None else silence.cross_rest(encoded.shape[1])
            self._cross_cache.write(slots, model.project_cross(encoded), lengths, *rest)
            return
        padding = [TRASH_SLOT] * (shape[0] - len(group))
        fields = self.graphs.staging.put(
            {"slots": np.array(slots + padding, np.int64)}, is_fixed=True
        )
        self._mel_of(window, shape[0])[: len(group)] = log_mel
        self.graphs.run(kind, shape, lambda: None)
        positions = window // HOP // 2
        if self._silence is not None:
            positions = self._model.dims.audio_positions
        self._cross_cache.lengths.index_fill_(0, fields["slots"][: len(group)], positions)

    def _encode_behind(
        self, group: Sequence[WhisperSequence], store: SettledStore, silence: EncodedSilence
    ) -> None:
        """Short windows behind what was settled of them before, if all have something of the kind;
        what has become so since is kept."""
        model = self._model
        befores = [self._settled_of(sequence.request) for sequence in group]
        settled = [before for before in befores if before is not None]
        assert len(settled) in (0, len(group)), "grouped by `shape_of`"
        places = [s.positions - OVERLAP for s in settled] or [0] * len(group)
        [size] = (
            {s.request.window_samples for s in group}
            if not settled
            else {
                sequence.request.window_samples - place * SAMPLES_PER_POSITION
                for sequence, place in zip(group, places, strict=True)
            }
        )
        audio = torch.zeros((len(group), size))
        for row, sequence, place in zip(audio, group, places, strict=True):
            samples = sequence.request.samples[place * SAMPLES_PER_POSITION :]
            row.numpy()[: len(samples)] = samples  # torch warns of arrays that are read-only
        kept: KeysValues = []
        encoded = model.encode(kernels.log_mel(audio, self._filters), silence, settled, kept)
        projected = model.project_cross(encoded)
        half = model.cache_dtype == torch.float16
        for row, (sequence, before) in enumerate(zip(group, befores, strict=True)):
            request = sequence.request
            own = [x[row : row + 1] for x in projected]
            if before is not None:
                pairs = zip(before.cross, own, strict=True)
                own = [torch.cat([old, x.to(old.dtype)], dim=3) for old, x in pairs]
            length = own[0].shape[3]
            self._cross_cache.write([sequence.slot], own, [length], *silence.cross_rest(length))
            for beginning, num_samples in request.settled:
                count = num_samples // SAMPLES_PER_POSITION
                if count > (before.positions if before else 0):
                    new = SettledAudio.of(before, kept, projected, row, count, half=half)
                    store.put(beginning, new)

    def _mel_of(self, window: int, batch: int) -> Tensor:
        """Where the graphs of that window read log-mel: [batch, mels, frames]."""
        mels, frames = self._model.dims.num_mels, window // HOP
        return self._mel[: batch * mels * frames].view(batch, mels, frames)

    def _encode_region(self, window: int, fields: Fields) -> Tensor:
        log_mel = self._mel_of(window, len(fields["slots"]))
        encoded = self._model.encode(log_mel, self._silence)
        projected = self._model.project_cross(encoded)
        if self._silence is not None:
            projected = self._silence.cross_behind(projected)
        self._cross_cache.fill(fields["slots"], projected)
        return encoded[0, 0].clone()  # nobody's; the whole would stay in memory for every graph

    # --- decoding --------------------------------------------------------------------------------

    def decode(self, group: Sequence[WhisperSequence], wanted: Wanted) -> WhisperLogits:
        """One pass over all queries of the group. The logits lie in memory that the next pass may
        write."""
        longest = max(sequence.num_queries for sequence in group)
        is_decode = longest == 1 and len(wanted) == len(group)
        kind = "decode" if is_decode else "prompt"
        slots = self._slots(group)
        shape = None if slots else self.graphs.fit(kind, len(group), longest)
        integers = self._integers(group, shape or (len(group), longest))
        if not is_decode:
            integers["wanted_rows"] = np.array([i for i, _ in wanted], np.int64)
            integers["wanted_columns"] = np.array([row.index for _, row in wanted], np.int64)
        if self._last is not None:
            # A row's last logits are those behind all its tokens.
            ends = {group[i].row: place for place, (i, _) in enumerate(wanted)}
            integers["ending_rows"] = np.array(list(ends), np.int64)
            integers["endings"] = np.array(list(ends.values()), np.int64)
        self._fields = fields = self.graphs.staging.put(integers, is_fixed=shape is not None)
        with self.adapting(group):
            return self._decoded(kind, shape, fields, len(group))

    def _slots(self, group: Sequence[WhisperSequence]) -> list[int | None]:
        """Of the adapters of requests, [] if none has one."""
        adapters = [sequence.request.adapter for sequence in group]
        if self._adapters is None or all(adapter is None for adapter in adapters):
            return []
        return [None if adapter is None else adapter.slot for adapter in adapters]

    def adapting(self, group: Sequence[WhisperSequence]) -> AbstractContextManager[None]:
        """While the decoder reads a row of queries of each."""
        slots = self._slots(group)
        if not slots or self._adapters is None:
            return nullcontext()
        return self._adapters.decoding(slots, [1] * len(group), len(group), is_padded=True)

    def _decoded(self, kind: str, shape: Shape | None, fields: Fields, count: int) -> WhisperLogits:
        if kind == "prompt":
            hidden = self.graphs.run(kind, shape, lambda: self._hidden(fields))
            picked = hidden[fields["wanted_rows"], fields["wanted_columns"]]
            return WhisperLogits(self._model.logits(picked))

        def eager() -> tuple[Tensor]:
            return (self._model.logits(self._hidden(fields)[:, 0]),)

        values, *text = self.graphs.run(kind, shape, eager)
        if not text:
            return WhisperLogits(values)
        return WhisperLogits(values[:count], (text[0][:count], text[1][:count]))

    def keep(self, tokens: Tensor) -> None:
        """The tokens chosen for the last pass's logits, [wanted]: rows may be fed them unread."""
        if self._last is not None:
            fields = self._fields
            self._last.index_copy_(0, fields["ending_rows"], tokens[fields["endings"]])

    def _integers(self, group: Sequence[WhisperSequence], shape: Shape) -> dict[str, Integers]:
        """Of a pass [batch, queries]. Rows of padding read and write what is nobody's."""
        batch, longest = shape
        tokens = np.zeros((batch, longest), np.int64)
        past, new = np.zeros(batch, np.int64), np.ones(batch, np.int64)
        rows, slots = np.full(batch, TRASH_ROW), np.full(batch, TRASH_SLOT)
        for i, sequence in enumerate(group):
            queries = sequence.queries()
            new[i] = len(queries)
            tokens[i, : len(queries)] = [
                token if token != UNREAD else UNREAD - sequence.row for token in queries
            ]
            past[i], rows[i], slots[i] = sequence.fed, sequence.row, sequence.slot
        positions = past[:, None] + np.arange(longest)
        return {
            "tokens": tokens,
            "positions": np.minimum(positions, self._model.dims.context - 1),
            "rows": rows,
            "past": past,
            "new": new,
            "slots": slots,
        }

    def _hidden(self, fields: Fields) -> Tensor:
        tokens = fields["tokens"]
        if self._last is not None:
            unread = self._last[(UNREAD - tokens).clamp_(min=0)]
            tokens = torch.where(tokens < 0, unread, tokens)
        return self._model.decode(
            tokens,
            fields["positions"],
            fields["rows"],
            fields["past"],
            fields["new"],
            fields["slots"],
            self._self_cache,
            self._cross_cache,
        )

    def _decode_region(self, fields: Fields) -> tuple[Tensor, Tensor, Tensor]:
        values = self._model.logits(self._hidden(fields)[:, 0])
        held = self._logits[: len(values)].copy_(values)
        return held, *kernels.greedy(self._rules.masked(held, [Rule.TEXT]))
