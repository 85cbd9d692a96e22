"""Qwen3-ForcedAligner (Qwen team, 2026): when each word of a known text was said.

Qwen3-ASR's encoder and decoder with another head: behind each word of the text stand two markers,
and the head says for each which 80 ms of the audio it is, the word's start and its end. All in one
pass; nothing is generated. It loads in both forms, as Qwen3-ASR does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookhear.engine.checkpoints.loader import (
    CheckpointError,
    CheckpointReader,
    Loading,
    read_json,
    whole_number,
)
from lookhear.engine.device.staging import to_device
from lookhear.engine.models.audio_encoder import AudioEncoder, read_audio_weights
from lookhear.engine.models.layers import WeightSource
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.models.qwen3_asr import AsrShape
from lookhear.engine.models.qwen3_weights import read_weights
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.cache import PagedBatch
from lookhear.engine.paged.encoder_cache import EncoderCache

Indices = NDArray[np.int64]
STEP_MS = 80.0  # of a label, where the checkpoint says nothing
_HUGGING_FACE_HEAD = "score"


@dataclass(eq=False)
class Qwen3AlignerModel:
    """decoder: its head has a logit for each label. audio_token, marker: ids of the placeholder of
    audio and of what stands for a time. step_ms: milliseconds that a label stands for."""

    encoder: AudioEncoder
    decoder: Qwen3Model
    audio_token: int
    marker: int
    labels: int
    step_ms: float
    num_parameters: int

    @classmethod
    def from_folder(cls, folder: Path, **loading: Unpack[Loading]) -> Qwen3AlignerModel:
        """Loads a Hugging Face folder of either form; raises `CheckpointError`."""
        shape = AsrShape.from_folder(folder, tied_head=True)  # a text's next token is not asked for
        original = shape.config is not shape.outer
        names, dims = shape.names, shape.decoder
        labels = _labels(shape)
        marker = whole_number(shape.outer, shape.path, "timestamp_token_id")
        if marker >= dims.vocab or marker == shape.audio_token:
            expected = f"less than vocab_size ({dims.vocab}), not audio_token_id"
            raise CheckpointError.of(shape.path, "timestamp_token_id", expected, marker)
        reader = CheckpointReader(folder, **loading)
        source = WeightSource(reader)
        with torch.inference_mode():
            audio_weights = read_audio_weights(
                source, shape.encoder, tower=names.tower, up=names.up, down=names.down
            )
            head = names.head if original else _HUGGING_FACE_HEAD
            weights = read_weights(reader, dims, body=names.body, head=head, labels=labels)
        reader.finish()
        return cls(
            AudioEncoder(shape.encoder, audio_weights),
            Qwen3Model(dims, weights),
            shape.audio_token,
            marker,
            labels,
            _step_ms(folder, shape.outer),
            source.num_parameters + weights.num_parameters,
        )

    @torch.inference_mode()
    def classify(
        self,
        texts: Sequence[Sequence[int]],
        audios: Sequence[Tensor],
        known: EncoderCache | None = None,
    ) -> list[Tensor]:
        """Reads several prompts in one pass, each of itself alone.

        texts: tokens of each prompt, `audio_token` where its audio belongs. audios: log-mel of
        each, [mels, frames]. known: windows that were encoded before, and will be again: of log-mel
        on the host alone. Returns for each [markers, labels] float32, logits of its markers in
        their order.
        """
        assert len(texts) == len(audios) >= 1, (len(texts), len(audios))
        rows = self._encode(audios, known)
        tokens = np.array([token for text in texts for token in text], np.int64)
        places = np.flatnonzero(tokens == self.audio_token)
        assert len(places) == len(rows), (len(places), len(rows))
        inputs = self.decoder.embed(self._on_device(tokens))
        inputs.index_copy_(0, self._on_device(places), rows.to(inputs.dtype))
        batch, num_blocks = self._batch([len(text) for text in texts])
        hidden = self.decoder.forward(inputs, batch, self.decoder.new_cache(num_blocks))
        asked = self._on_device(np.flatnonzero(tokens == self.marker))
        counts = [sum(token == self.marker for token in text) for text in texts]
        return list(torch.split(self.decoder.logits(hidden[asked]), counts))

    def _on_device(self, numbers: Indices) -> Tensor:
        """Without waiting for the device, as nothing here does."""
        return to_device(numbers, torch.int64, self.decoder.device)

    def _encode(self, audios: Sequence[Tensor], known: EncoderCache | None) -> Tensor:
        """Embeddings of all windows of all audios, one after another: [tokens, width]."""
        device, dtype = self.decoder.device, self.encoder.dtype
        windows = [w for audio in audios for w in self.encoder.split(audio.to(device, dtype))]
        if known is None:
            return torch.cat(self.encoder.encode_windows(windows))
        # One that is not full will be another one when it is asked about next.
        full = self.encoder.dims.window_frames
        digests = [_digest(w) if w.shape[1] == full else None for w in windows]
        held = [None if digest is None else known.find(digest) for digest in digests]
        new = iter(
            self.encoder.encode_windows(
                [w for w, rows in zip(windows, held, strict=True) if rows is None]
            )
        )
        found = [next(new) if rows is None else rows for rows in held]
        for digest, rows in zip(digests, found, strict=True):
            if digest is not None:
                known.add(digest, rows.clone())
        return torch.cat(found)

    def _batch(self, lengths: Sequence[int]) -> tuple[PagedBatch, int]:
        """Rows of so many tokens, each in blocks of its own, and how many blocks that makes."""
        blocks = [-(-length // BLOCK_TOKENS) for length in lengths]
        tables = np.zeros((len(lengths), max(blocks)), np.int64)
        slots, first = [], 1  # block 0 is nobody's
        for row, (length, count) in enumerate(zip(lengths, blocks, strict=True)):
            tables[row, :count] = np.arange(first, first + count)
            slots.append(first * BLOCK_TOKENS + np.arange(length))
            first += count
        batch = PagedBatch(
            positions=self._on_device(np.concatenate([np.arange(n) for n in lengths])),
            slots=self._on_device(np.concatenate(slots)),
            block_tables=self._on_device(tables),
            past_lengths=self._on_device(np.zeros(len(lengths), np.int64)),
            query_lengths=self._on_device(np.array(lengths, np.int64)),
        )
        return batch, first


def _digest(window: Tensor) -> bytes:
    data = window.contiguous().view(torch.uint8).numpy().tobytes()
    return hashlib.blake2b(data, digest_size=16).digest()


def _labels(shape: AsrShape) -> int:
    """How many times the head tells apart."""
    if "classify_num" in shape.config:
        return whole_number(shape.config, shape.path, "classify_num")
    # transformers writes a name for each where there are not two of them.
    named: Any = shape.config.get("id2label")
    if isinstance(named, dict) and named:
        return len(named)
    return whole_number(shape.config, shape.path, "num_labels")


def _step_ms(folder: Path, outer: dict[str, Any]) -> float:
    """The original form has it in config.json, Hugging Face's beside the processor's settings."""
    for name in ("config.json", "processor_config.json"):
        found = read_json(folder / name, required=False) if name != "config.json" else outer
        if (value := found.get("timestamp_segment_time")) is not None:
            if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
                raise CheckpointError.of(
                    folder / name, "timestamp_segment_time", "milliseconds > 0", value
                )
            return float(value)
    return STEP_MS
