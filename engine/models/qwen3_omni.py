"""Qwen3-Omni's thinker (Qwen team, 2025): Qwen3-ASR's audio encoder and Qwen3-VL's eyes before one
decoder of experts, which reads sounds, pictures and words in one prompt and writes text.

Checkpoints of the whole model have it below `thinker`, beside parts that speak: those are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import torch
import torch.nn.functional as F
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
from lookhear.engine.models.audio_encoder import AudioDims, AudioEncoder, read_audio_weights
from lookhear.engine.models.layers import WeightSource
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.models.qwen3_vl import Qwen3VLModel, VLShape, placeholder
from lookhear.engine.models.qwen3_weights import read_weights, tied_copy
from lookhear.engine.models.vision_encoder import VisionEncoder
from lookhear.engine.models.vision_weights import MergerNames, read_vision_weights
from lookhear.engine.paged.mrope import PromptPositions
from lookhear.engine.paged.request import Medium

SPEAKING = ("talker.", "code2wav.")  # parts that turn its text into a voice
MERGERS = MergerNames("ln_q", "mlp.0", "mlp.2", "merger_list")


@dataclass(eq=False)
class Qwen3OmniModel:
    """ears: log-mel windows to embeddings. sight: the vision encoder and the decoder. audio_token:
    the placeholder's id. rate: positions of a second of a video, see `Grid`."""

    ears: AudioEncoder
    sight: Qwen3VLModel
    audio_token: int
    rate: int

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        *,
        encoder_dtype: torch.dtype | None = None,
        half: bool = False,
        **loading: Unpack[Loading],
    ) -> Qwen3OmniModel:
        """Loads a Hugging Face folder (config.json, safetensors), of the whole model or of the
        thinker alone; raises `CheckpointError`. The rest: see `Qwen3VLModel.from_folder`."""
        path = folder / "config.json"
        outer = read_json(path)
        is_whole = "thinker_config" in outer
        config = section(outer, "thinker_config", path) if is_whole else outer
        inside = "thinker." if is_whole else ""
        shape = VLShape.from_config(config, path)
        audio = AudioDims.from_config(section(config, "audio_config", path), path)
        if audio.out_width != shape.decoder.width:
            width = f"the decoder's hidden_size ({shape.decoder.width})"
            raise CheckpointError.of(path, "output_dim", width, audio.out_width)
        audio_token = placeholder(config, path, "audio_token_id", shape.decoder.vocab)
        rates = {"position_id_per_seconds": 25, **config}
        reader = CheckpointReader(folder, **loading)
        source = WeightSource(reader, encoder_dtype)
        tower, head = f"{inside}audio_tower", f"{inside}lm_head"
        with torch.inference_mode():
            ears = read_audio_weights(
                source, audio, tower=tower, up=f"{tower}.proj1", down=f"{tower}.proj2"
            )
            eyes = read_vision_weights(source, shape.encoder, f"{inside}visual", MERGERS)
            weights = read_weights(
                reader, shape.decoder, body=f"{inside}model", head=head, half_head=True, half=half
            )
        reader.finish(ignore=tied_copy(shape.decoder, head), parts=SPEAKING)
        sight = Qwen3VLModel(
            VisionEncoder(shape.encoder, eyes),
            Qwen3Model(shape.decoder, weights),
            shape.image_token,
            shape.video_token,
            end_tokens(folder, outer, config, config["text_config"]),
            source.num_parameters + weights.num_parameters,
            source.modules,
        )
        rate = whole_number(rates, path, "position_id_per_seconds")
        return cls(AudioEncoder(audio, ears), sight, audio_token, rate)

    @property
    def decoder(self) -> Qwen3Model:
        """All but the encoders."""
        return self.sight.decoder

    @property
    def end_tokens(self) -> tuple[int, ...]:
        """Ids that end an answer."""
        return self.sight.end_tokens

    @property
    def num_parameters(self) -> int:
        """Numbers of the thinker."""
        return self.sight.num_parameters

    def positions(
        self, num_tokens: int, media: Sequence[tuple[int, Medium]] = ()
    ) -> PromptPositions:
        """Of a prompt of so many tokens; media: (first placeholder's place, medium), in order. A
        sound's tokens count up like text."""
        return self.sight.positions(num_tokens, [m for m in media if is_picture(m[1])])

    @torch.inference_mode()
    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """Rows of tokens, each medium's of itself alone: [num_tokens, parts * width]."""
        seen = iter(self.sight.encode([medium for medium in media if is_picture(medium)]))
        heard = iter(self.hear([medium for medium in media if not is_picture(medium)]))
        return [next(seen) if is_picture(medium) else next(heard) for medium in media]

    @torch.inference_mode()
    def hear(self, windows: Sequence[Medium]) -> list[Tensor]:
        """The same of windows of sound. DeepStack adds nothing to what is heard: zeros."""
        device, dtype = self.decoder.device, self.ears.dtype
        features = [to_device(window.features, torch.float32, device) for window in windows]
        rows = self.ears.encode_windows([one.to(dtype) for one in features])
        nothing = len(self.sight.encoder.dims.deepstack) * self.decoder.dims.width
        return [F.pad(one, (0, nothing)) for one in rows]


def is_picture(medium: Medium) -> bool:
    """Or a slice of a video; else it is a window of sound."""
    return medium.grid is not None
