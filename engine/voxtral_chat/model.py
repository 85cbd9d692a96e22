"""Voxtral (Mistral AI, 2025): Whisper's encoder before a Llama that chats about what it hears.

The encoder reads windows of 30 s, whole ones, of which a projector joins four positions to a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor

from lookhear.engine.checkpoints.end_tokens import end_tokens
from lookhear.engine.checkpoints.loader import CheckpointReader, Loading, read_json, section
from lookhear.engine.device.staging import to_device
from lookhear.engine.models.layers import Placement
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.models.qwen3_vl import placeholder
from lookhear.engine.models.qwen3_weights import read_weights, tied_copy
from lookhear.engine.paged.request import Medium
from lookhear.engine.voxtral.weights import BODIES
from lookhear.engine.voxtral_chat.dims import VoxtralChatDims
from lookhear.engine.whisper.encoder import EncoderSource, WhisperEncoder
from lookhear.kernels import LinearWeights, linear

# Windows that a card encodes at once: more would take memory, and it is busy with these.
AT_ONCE = 8
END = 2  # </s>, where nothing says how an answer ends


@dataclass(frozen=True, slots=True)
class EarWeights:
    """up, down: the projector's two products."""

    encoder: WhisperEncoder
    up: LinearWeights
    down: LinearWeights


class VoxtralEars:
    """Windows of log-mel to embeddings."""

    def __init__(self, dims: VoxtralChatDims, weights: EarWeights) -> None:
        self.dims = dims
        self.weights = weights
        self.dtype = weights.encoder.positions.dtype

    @torch.inference_mode()
    def encode(self, windows: Tensor) -> Tensor:
        """windows: [n, mels, frames], each heard by itself. Returns [n, window_tokens, width of the
        decoder]."""
        weights, dims = self.weights, self.dims
        assert windows.shape[1:] == (dims.audio.num_mels, dims.audio.max_frames), windows.shape
        heard = weights.encoder.transform(weights.encoder.convolved(windows))
        joined = heard.reshape(len(windows), dims.window_tokens, dims.joined * dims.audio.width)
        return linear(linear(joined, weights.up, "gelu"), weights.down)


@dataclass(eq=False)
class VoxtralChatModel:
    """ears: windows of log-mel to rows. decoder: everything else. audio_token: the placeholder's
    id. end_tokens: ids that end an answer. tower: the ears' linears, by name."""

    dims: VoxtralChatDims
    ears: VoxtralEars
    decoder: Qwen3Model
    audio_token: int
    end_tokens: tuple[int, ...]
    num_parameters: int
    tower: Mapping[str, Placement]

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        *,
        encoder_dtype: torch.dtype | None = None,
        half: bool = False,
        linears: torch.dtype | None = None,
        **loading: Unpack[Loading],
    ) -> VoxtralChatModel:
        """Loads a Hugging Face folder (config.json, safetensors); raises `CheckpointError`. The
        rest: see `Qwen3VLModel.from_folder`."""
        path = folder / "config.json"
        config = read_json(path)
        dims = VoxtralChatDims.from_config(config, path)
        audio_token = placeholder(config, path, "audio_token_id", dims.text.vocab)
        reader = CheckpointReader(folder, **loading)
        found = (body for body in BODIES if f"{body[1]}.embed_tokens.weight" in reader)
        front, body, head = next(found, BODIES[0])
        tower, projector = f"{front}audio_tower", f"{front}multi_modal_projector"
        source = EncoderSource(reader, dims.audio.width, tower, dtype=encoder_dtype)
        width = dims.text.width
        with torch.inference_mode():
            ears = EarWeights(
                encoder=WhisperEncoder.read(source, dims.audio),
                up=source.linear(projector, {"linear_1": width}, dims.joined * dims.audio.width),
                down=source.linear(projector, {"linear_2": width}, width),
            )
            weights = read_weights(
                reader, dims.text, body=body, head=head, half_head=True, half=half, linears=linears
            )
        reader.finish(ignore=tied_copy(dims.text, head))
        return cls(
            dims,
            VoxtralEars(dims, ears),
            Qwen3Model(dims.text, weights),
            audio_token,
            end_tokens(folder, config, section(config, "text_config", path), default=(END,)),
            source.num_parameters + weights.num_parameters,
            source.modules,
        )

    def medium(self, log_mel: Any) -> Medium:
        """A window, [mels, frames] (float32, numpy), with the number of its placeholders."""
        return Medium.of(log_mel, self.dims.window_tokens)

    @torch.inference_mode()
    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """Rows of tokens, each window's of itself alone: [num_tokens, width]."""
        device = self.decoder.device
        # On a CPU one by one: so their texts do not depend on each other's company.
        at_once = 1 if device.type == "cpu" else AT_ONCE
        found: list[Tensor] = []
        for first in range(0, len(media), at_once):
            some = media[first : first + at_once]
            windows = [to_device(medium.features, torch.float32, device) for medium in some]
            found += self.ears.encode(torch.stack(windows)).unbind()
        return found


def module_name(name: str) -> str:
    """What transformers 5 calls a linear, and so an adapter does, whatever the checkpoint does."""
    for _, body, _ in BODIES:
        if name.startswith(f"{body}.layers."):
            return f"model.language_model{name.removeprefix(body)}"
    return f"model.{name.removeprefix('model.')}"
