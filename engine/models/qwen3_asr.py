"""Qwen3-ASR (Qwen team, 2026): an audio encoder whose tokens a Qwen3 decoder reads as words.

Two forms of the same checkpoint exist: Hugging Face's (`Qwen3-ASR-*-hf`) and the original, whose
tensors are below `thinker`. Both load. The original says M-RoPE, with positions that are equal on
all axes: plain RoPE, so plain positions serve either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor

from lookhear.engine.checkpoints.end_tokens import end_tokens
from lookhear.engine.checkpoints.loader import (
    CheckpointError,
    CheckpointReader,
    Loading,
    read_json,
    section,
    whole_number,
)
from lookhear.engine.device.staging import to_device
from lookhear.engine.models.audio_chunks import host_log_mel
from lookhear.engine.models.audio_encoder import AudioDims, AudioEncoder, read_audio_weights
from lookhear.engine.models.layers import Placement, WeightSource
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.models.qwen3_weights import Qwen3Dims, read_weights, tied_copy
from lookhear.engine.paged.request import Medium


@dataclass(frozen=True, slots=True)
class _Names:
    """What the parts are called in a checkpoint."""

    body: str
    head: str
    tower: str
    up: str
    down: str


_HUGGING_FACE = _Names(
    body="model.language_model",
    head="lm_head",
    tower="model.audio_tower",
    up="model.multi_modal_projector.linear_1",
    down="model.multi_modal_projector.linear_2",
)
_ORIGINAL = _Names(
    body="thinker.model",
    head="thinker.lm_head",
    tower="thinker.audio_tower",
    up="thinker.audio_tower.proj1",
    down="thinker.audio_tower.proj2",
)


@dataclass(frozen=True, slots=True)
class AsrShape:
    """What config.json of a folder of either form says.

    outer: all of it. config: the part about this model, the same in Hugging Face's form. path: of
    the file, named in errors.
    """

    path: Path
    outer: dict[str, Any]
    config: dict[str, Any]
    names: _Names
    decoder: Qwen3Dims
    encoder: AudioDims
    audio_token: int

    @classmethod
    def from_folder(cls, folder: Path, *, tied_head: bool | None = None) -> AsrShape:
        """tied_head: where the config does not decide that. Raises `CheckpointError`."""
        path = folder / "config.json"
        outer = read_json(path)
        original = isinstance(outer.get("thinker_config"), dict)
        config = outer["thinker_config"] if original else outer
        text, audio = section(config, "text_config", path), section(config, "audio_config", path)
        if tied_head is None:
            tied_head = bool((text if original else config).get("tie_word_embeddings", True))
        decoder = Qwen3Dims.from_config(text, path, tied_head=tied_head)
        encoder = AudioDims.from_config(audio, path)
        if encoder.out_width != decoder.width:
            width = f"the decoder's hidden_size ({decoder.width})"
            raise CheckpointError.of(path, "output_dim", width, encoder.out_width)
        audio_token = whole_number(config, path, "audio_token_id")
        if audio_token >= decoder.vocab:
            below = f"less than vocab_size ({decoder.vocab})"
            raise CheckpointError.of(path, "audio_token_id", below, audio_token)
        names = _ORIGINAL if original else _HUGGING_FACE
        return cls(path, outer, config, names, decoder, encoder, audio_token)


@dataclass(eq=False)
class Qwen3AsrModel:
    """encoder: log-mel windows to embeddings. decoder: everything else, see `Qwen3Model`.

    audio_token: the placeholder's id. end_tokens: ids that end a transcript.
    """

    encoder: AudioEncoder
    decoder: Qwen3Model
    audio_token: int
    end_tokens: tuple[int, ...]
    num_parameters: int
    tower: Mapping[str, Placement]  # linears of the encoder, see `WeightSource`

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        *,
        half: bool = False,
        linears: torch.dtype | None = None,
        **loading: Unpack[Loading],
    ) -> Qwen3AsrModel:
        """Loads a Hugging Face folder (config.json, safetensors); raises `CheckpointError`.

        half, linears: see `read_weights`.
        """
        shape = AsrShape.from_folder(folder)
        names = shape.names
        reader = CheckpointReader(folder, **loading)
        # On a CPU an encoder gains the most.
        source = WeightSource(reader, linears=linears if linears == torch.qint8 else None)
        with torch.inference_mode():
            audio_weights = read_audio_weights(
                source, shape.encoder, tower=names.tower, up=names.up, down=names.down
            )
            weights = read_weights(
                reader,
                shape.decoder,
                body=names.body,
                head=names.head,
                # The code that the original form was published with looks at no other head.
                always_tied=names is _ORIGINAL,
                half=half,
                linears=linears,
            )
        reader.finish(ignore=tied_copy(shape.decoder, names.head))
        return cls(
            AudioEncoder(shape.encoder, audio_weights),
            Qwen3Model(shape.decoder, weights),
            shape.audio_token,
            end_tokens(folder, shape.outer, shape.config, default=(151_643, 151_645)),
            source.num_parameters + weights.num_parameters,
            source.modules,
        )

    @torch.inference_mode()
    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """Embeddings of windows, each of itself alone: [num_tokens, width] per window."""
        mels, device = self.encoder.dims.num_mels, self.decoder.device
        features = [
            medium.features if medium.sound is None else host_log_mel(medium.sound, mels).numpy()
            for medium in media
        ]
        windows = [to_device(window, torch.float32, device) for window in features]
        return self.encoder.encode_windows([w.to(self.encoder.dtype) for w in windows])

    @torch.inference_mode()
    def embed(self, tokens: Tensor, places: Tensor, audio: Tensor) -> Tensor:
        """Embeddings of a step's packed tokens, those of audio in the places of their placeholders.

        tokens: [n] int64. places: [k] int64, distinct indices into tokens. audio: [k, width], what
        belongs there: a chunk of a prompt takes the rows of its own placeholders only. A
        placeholder's id anywhere else is an ordinary token. Returns [n, width].
        """
        assert audio.shape == (len(places), self.decoder.dims.width), (audio.shape, places.shape)
        return self.decoder.embed(tokens).index_copy_(0, places, audio.to(self.decoder.dtype))
