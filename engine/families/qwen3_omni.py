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
from lookhear.engine.families.family import Family, Parts
from lookhear.engine.families.parts.chat import chat_parts, media_loading
from lookhear.engine.models.audio_encoder import AudioDims
from lookhear.engine.models.omni_graphs import OmniGraphs
from lookhear.engine.models.qwen3_omni import SPEAKING, Qwen3OmniModel
from lookhear.engine.paged.request import Medium
from lookhear.engine.paged.sound import HOP
from lookhear.engine.qwen3_asr.windows import HostWindows

# Least and most of a video's frame: the processor's own, which count more than its files' edges.
FRAME_TOKENS = (128, 768)
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
    model = Qwen3OmniModel.from_folder(folder, **media_loading(config, folder, device, progress))
    dims = model.sight.encoder.dims
    pictures = PictureEncoder(
        model.sight.medium,
        PixelRules.from_folder(folder, dims).limited(config.max_picture_tokens),
        PixelRules.from_folder(folder, dims, video=True).of_each_frame(*FRAME_TOKENS),
        Traits.from_folder(folder).frame_tokens,
        model.rate,
    )
    return chat_parts(
        config,
        folder,
        device,
        model,
        pictures=pictures,
        recordings=RecordingStore(WindowedEars(model.ears.dims)),
        media_parts=1 + len(dims.deepstack),
        graphs=lambda acceleration: OmniGraphs(model, acceleration),
    )


FAMILY = Family(
    name="Qwen3-Omni",
    architectures=(
        "Qwen3OmniMoeForConditionalGeneration",
        "Qwen3OmniMoeThinkerForConditionalGeneration",
    ),
    build=build,
    rounds_cache=True,
    abilities=("chat", "image", "video", "audio", "prompt_embeds"),
    unread=SPEAKING,
)
