"""Qwen3-Omni, as far as it writes: its thinker chats about what it hears and sees. Its voice is not
loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.chat.pictures import PictureEncoder
from lookhear.engine.chat.pixels import PixelRules
from lookhear.engine.chat.recordings import RecordingStore
from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import (
    Family,
    Parts,
    acceleration_of,
    chosen_dtype,
    half_decoder,
)
from lookhear.engine.families.parts.chat import chat_parts
from lookhear.engine.models.audio_encoder import AudioDims
from lookhear.engine.models.omni_graphs import OmniGraphs
from lookhear.engine.models.qwen3_omni import SPEAKING, Qwen3OmniModel
from lookhear.engine.paged.request import Medium
from lookhear.engine.paged.sound import HOP
from lookhear.engine.qwen3_asr.windows import HostWindows

SHORTEST = 400  # samples, one Fourier transform: silence is put behind less


@dataclass(frozen=True, slots=True)
class WindowedEars:
    """Recordings as windows of log-mel. How loud the loudest frame of the whole is changes all of
    them, as it does in the checkpoint's own feature extractor. See `Ears`."""

    dims: AudioDims

    def num_tokens(self, num_samples: int) -> int:
        """Placeholders of so many samples."""
        return self.dims.num_tokens(max(SHORTEST, num_samples) // HOP)

    def windows(self, samples: NDArray[np.float32]) -> list[Medium]:
        """samples: [n], mono at 16 kHz."""
        missing = SHORTEST - len(samples)
        if missing > 0:
            samples = np.concatenate([samples, np.zeros(missing, np.float32)])
        return HostWindows(self.dims, closes=False).hear(samples, is_whole=True)


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    dtype = chosen_dtype(config.dtype, device, folder)
    model = Qwen3OmniModel.from_folder(
        folder,
        dtype=dtype,
        # As Qwen3-VL's: the decoder may be small, what is seen and heard still is much work.
        encoder_dtype=chosen_dtype(config.dtype, device),
        half=half_decoder(config.dtype, device, folder),
        device=device,
        progress=progress,
    )
    dims = model.sight.encoder.dims
    pictures = PictureEncoder(
        model.sight.medium,
        PixelRules.from_folder(folder, dims).limited(config.max_picture_tokens),
        PixelRules.from_folder(folder, dims, video=True),
        Traits.from_folder(folder).frame_tokens,
        model.rate,
    )
    acceleration = acceleration_of(config, device)
    return chat_parts(
        config,
        folder,
        acceleration,
        model,
        dtype,
        pictures=pictures,
        recordings=RecordingStore(WindowedEars(model.ears.dims)),
        media_parts=1 + len(dims.deepstack),
        media_encoder=OmniGraphs(model, acceleration) if acceleration.backend else None,
    )


FAMILY = Family(
    name="Qwen3-Omni",
    architectures=(
        "Qwen3OmniMoeForConditionalGeneration",
        "Qwen3OmniMoeThinkerForConditionalGeneration",
    ),
    build=build,
    rounds_cache=True,
    abilities=("chat", "image", "video", "audio"),
    unread=SPEAKING,
)
