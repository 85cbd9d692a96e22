"""Whisper (Radford et al., 2022), all sizes: encoder, incremental decoder and alignment.

Nothing is remembered between calls: caches, rows, slots and lengths are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError, CheckpointReader, read_json
from lookhear.engine.models.caches import CrossCache, SelfCache
from lookhear.engine.tokenizers.whisper import read_generation
from lookhear.engine.whisper.encoder import KeysValues, split_heads
from lookhear.engine.whisper.settled import OVERLAP, SettledAudio
from lookhear.engine.whisper.silence import SILENT_LOG_MEL, EncodedSilence
from lookhear.engine.whisper.weights import WhisperDims, WhisperWeights, read_weights
from lookhear.kernels import (
    biased_cross_attention,
    cross_attention_cached,
    cross_attention_weights,
    embed_tokens,
    linear,
    self_attention_cached,
    supports_half_weights,
)

Head = tuple[int, int]  # (decoder layer, head in it)


class WhisperModel:
    """The weights of one checkpoint and the three passes over them: encode, project, decode."""

    def __init__(self, dims: WhisperDims, weights: WhisperWeights) -> None:
        self.dims = dims
        self.weights = weights
        self.dtype = weights.encoder.positions.dtype  # of the encoder, and of the audio it takes
        self.device = weights.tokens.device
        self.cache_dtype = weights.cache_dtype
        self.num_parameters = weights.num_parameters

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        progress: Callable[[float], None] | None = None,
        trim_head: bool = True,
        half_decoder: bool = False,
        int8: bool = False,
    ) -> WhisperModel:
        """Loads a Hugging Face folder (config.json, safetensors); raises `CheckpointError`.

        dtype: of everything; but bfloat16 on a CPU means the encoder. The decoder, which waits for
        its weights and caches rather than computes, keeps them in float16 and everything else in
        float32.
        half_decoder: so it does with an encoder in float32 too, if it can. OpenAI published
        Whisper in float16, so nothing of those weights is lost.
        int8: with dtype float32, on a CPU: in int8 what is multiplied for many positions at once,
        and of the decoder what is very large; see `kernels.linear`.
        trim_head: text tokens that the checkpoint says are never written get the logit -inf
        without computing it; see `_never_written`.
        """
        config = read_json(folder / "config.json")
        dims = WhisperDims.from_config(config, folder / "config.json")
        never = _never_written(folder, config) if trim_head else set()
        on_cpu = torch.device(device).type == "cpu"
        mixed = dtype == torch.bfloat16 and on_cpu and supports_half_weights()
        half = half_decoder and on_cpu and dtype == torch.float32 and supports_half_weights()
        reader = CheckpointReader(
            folder, dtype=torch.float32 if mixed else dtype, device=device, progress=progress
        )
        with torch.inference_mode():
            weights = read_weights(
                reader, dims, never, encoder_dtype=dtype, half_decoder=mixed or half, int8=int8
            )
            return cls(dims, weights)

    def new_self_cache(
        self, rows: int, dtype: torch.dtype | None = None, context: int | None = None
    ) -> SelfCache:
        """A decoder cache of this model's shape; see `SelfCache`. context: default: all it has."""
        dims, dtype = self.dims, dtype or self.cache_dtype
        size = dims.context if context is None else context
        layers, heads = dims.decoder_layers, dims.decoder_heads
        return SelfCache(layers, rows, heads, size, dims.head_dim, dtype, self.device)

    def new_cross_cache(
        self, slots: int, positions: int | None = None, dtype: torch.dtype | None = None
    ) -> CrossCache:
        """Slots for this model's windows, `positions` long (default: the longest it knows)."""
        dims, dtype = self.dims, dtype or self.cache_dtype
        size = dims.audio_positions if positions is None else positions
        layers, heads = dims.decoder_layers, dims.decoder_heads
        return CrossCache(slots, layers, heads, size, dims.head_dim, dtype, self.device)

    @torch.inference_mode()
    def encode(
        self,
        log_mel: Tensor,
        silence: EncodedSilence | None = None,
        settled: Sequence[SettledAudio] = (),
        kept: KeysValues | None = None,
    ) -> Tensor:
        """Encodes windows of one length, each attending to all of itself.

        log_mel: [batch, mels, frames], any even number of frames up to 2 * audio_positions. A
        window shorter than 30 s takes the first positions: Whisper's are fixed sinusoids.
        silence: what the checkpoint was trained to hear behind a short window. It is attended to as
        if it had been read.
        settled: of each window, what stands in front of it and was encoded before; then log_mel
        begins OVERLAP positions earlier than the window, and silence must be given.
        kept: gets the keys and values of every layer, two of [batch, positions, heads, head_dim].
        Returns [batch, positions, width], without what was settled.
        """
        dims, encoder = self.dims, self.weights.encoder
        frames = log_mel.shape[2]
        assert log_mel.shape[1] == dims.num_mels, (log_mel.shape, dims.num_mels)
        assert frames % 2 == 0 and 2 <= frames <= dims.max_frames, frames
        if frames == dims.max_frames:
            silence = None
        if silence is None:
            assert not settled
            return encoder.transform(encoder.convolved(log_mel), kept=kept)
        # The silence begins as the window ends.
        first = OVERLAP if settled else 0
        log_mel = F.pad(log_mel, (0, 2), mode="replicate")
        x = encoder.convolved(log_mel, first, frames // 2, [s.positions for s in settled])
        return encoder.transform(x, silence, kept, settled)

    @torch.inference_mode()
    def encode_silence(self, group: int = 1) -> EncodedSilence:
        """A full window in which nobody speaks. group: see `EncodedSilence.of`."""
        shape = (1, self.dims.num_mels, self.dims.max_frames)
        log_mel = torch.full(shape, SILENT_LOG_MEL, device=self.device)
        keys_values: KeysValues = []
        encoder = self.weights.encoder
        encoded = encoder.transform(encoder.convolved(log_mel), kept=keys_values)
        return EncodedSilence.of(keys_values, self.project_cross(encoded), group)

    @torch.inference_mode()
    def project_cross(self, encoded: Tensor) -> list[Tensor]:
        """Keys and values of every decoder layer over encoded audio, for `CrossCache.write`.

        encoded: [batch, positions, width].
        Returns per layer [batch, 2, heads, positions, head_dim].
        """
        heads, dim = self.dims.decoder_heads, self.dims.head_dim
        return [
            linear(encoded, layer.cross.kv)
            .view(*encoded.shape[:2], 2, heads, dim)
            .permute(0, 2, 3, 1, 4)
            for layer in self.weights.decoder_layers
        ]

    @torch.inference_mode()
    def decode(
        self,
        tokens: Tensor,
        positions: Tensor,
        rows: Tensor,
        row_lengths: Tensor,
        query_lengths: Tensor,
        slots: Tensor,
        self_cache: SelfCache,
        cross_cache: CrossCache,
        audio_lengths: Tensor | None = None,
        attended: AttentionWeights | None = None,
    ) -> Tensor:
        """One step: reads new tokens of several rows, each continuing its own cached text.

        tokens, positions: [batch, queries] int64, of which query_lengths[b] are real. rows: [batch]
        rows of self_cache, holding row_lengths[b] tokens so far; the new keys and values are
        written after them. slots: [batch] of cross_cache. Padded queries write nothing, and their
        output means nothing.
        audio_lengths: [batch], looks at only so many encoder positions (default: all in the slot).
        attended: to be filled with where heads look in the audio.
        Returns hidden [batch, queries, width].
        """
        dims, weights = self.dims, self.weights
        if audio_lengths is None:
            audio_lengths = cross_cache.lengths[slots]
        x = embed_tokens(tokens, positions, weights.tokens, weights.decoder_positions)
        layers = weights.decoder_layers
        nexts = [*(layer.attention.norm for layer in layers[1:]), weights.decoder_norm]
        normed = layers[0].attention.norm(x)
        for index, (layer, next_norm) in enumerate(zip(layers, nexts, strict=True)):
            q, k, v = split_heads(layer.attention, normed, dims.decoder_heads)
            own = self_cache.data[index]
            y = self_attention_cached(q, k, v, own, rows, row_lengths, query_lengths, scale=1.0)
            normed = layer.cross.norm.add_(linear(y.flatten(2), layer.attention.out), x)

            q = linear(normed, layer.cross.q)
            q = q.view(*q.shape[:2], dims.decoder_heads, dims.head_dim)
            audio = cross_cache.data[index]
            if cross_cache.bias is None:
                y = cross_attention_cached(q, audio, slots, audio_lengths, scale=1.0)
            else:
                bias = cross_cache.bias
                y = biased_cross_attention(q, audio, slots, audio_lengths, bias, scale=1.0)
            normed = layer.ffn.norm.add_(linear(y.flatten(2), layer.cross.out), x)
            if attended is not None:
                attended.add(index, q, audio, slots, audio_lengths)

            normed = next_norm.add_(layer.ffn(normed), x)
        return normed

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """hidden: [n, width] of the queries whose next token is wanted. Returns [n, vocab] float32,
        -inf for ids that a trimmed head leaves out (see `from_folder`)."""
        values = linear(hidden, self.weights.head).float()
        if values.shape[1] == self.dims.vocab:
            return values
        logits = values.new_full((hidden.shape[0], self.dims.vocab), -torch.inf)
        column = 0
        for ids in self.weights.head_ranges:
            logits[:, ids.start : ids.stop] = values[:, column : column + len(ids)]
            column += len(ids)
        return logits

    @torch.inference_mode()
    def align(
        self,
        tokens: Tensor,
        query_lengths: Tensor,
        slots: Tensor,
        cross_cache: CrossCache,
        *,
        heads: Sequence[Head],
        audio_lengths: Tensor | None = None,
        positions: int | None = None,
    ) -> Tensor:
        """Where each token of a finished text looks in the audio of its slot (teacher forced).

        tokens: [batch, queries] int64 from the start-of-transcript token on, query_lengths: [batch]
        of them real; slots still filled. heads: the checkpoint's alignment heads.
        audio_lengths: [batch] encoder positions with real audio, without the window's padding.
        positions: the most of them, where nothing may be read back from the device.
        Returns [batch, heads, queries, positions] float32; input of `token_times`.
        """
        batch, queries = tokens.shape
        scratch = self.new_self_cache(batch, context=queries)
        rows = torch.arange(1, batch + 1, device=self.device)
        places = torch.arange(queries, device=self.device).expand(batch, queries)
        attended = AttentionWeights(heads, positions)
        self.decode(
            tokens, places, rows, torch.zeros_like(rows), query_lengths, slots, scratch,
            cross_cache, audio_lengths, attended,
        )  # fmt: skip
        return attended.weights()


class AttentionWeights:
    """Cross-attention weights of some heads, layer by layer. positions: the most encoder positions
    that are looked at; None: read back from the device."""

    def __init__(self, heads: Sequence[Head], positions: int | None) -> None:
        self._heads = heads
        self._positions = positions
        self._held: dict[Head, Tensor] = {}

    def add(self, layer: int, q: Tensor, audio: Tensor, slots: Tensor, lengths: Tensor) -> None:
        """Of the heads of a layer, if any are wanted."""
        wanted = [head for at, head in self._heads if at == layer]
        if wanted:
            weights = cross_attention_weights(
                q, audio, slots, lengths, wanted, scale=1.0, positions=self._positions
            )
            self._held.update({(layer, head): weights[:, i] for i, head in enumerate(wanted)})

    def weights(self) -> Tensor:
        """[batch, heads, queries, positions] float32."""
        return torch.stack([self._held[head] for head in self._heads], dim=1)


def _never_written(folder: Path, config: Mapping[str, Any]) -> set[int]:
    """Text ids (below the end token) whose logits nobody needs.

    `suppress_tokens` (see `read_generation`), and the ranges [first, last) of `unused_tokens` in
    lookhear.json: a small checkpoint in the standard id order uses few of its 50,257 text ids, and
    the others would be most of the work of a decode step.
    """
    eot = config.get("eos_token_id")
    if not isinstance(eot, int):
        return set()
    generation = read_generation(folder, config)
    never = {int(i) for i in generation.get("suppress_tokens") or ()}
    path = folder / "lookhear.json"
    for pair in read_json(path, required=False).get("unused_tokens", ()):
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(i) is int for i in pair)):
            raise CheckpointError.of(path, "unused_tokens", "[first, last)", pair)
        never.update(range(*pair))
    return {i for i in never if i < eot}
