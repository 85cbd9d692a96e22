"""Recordings as Voxtral hears them: padded with silence to whole windows of 30 s."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from lookhear.engine.models.audio_chunks import host_filters
from lookhear.engine.paged.request import Medium
from lookhear.engine.paged.sound import HOP
from lookhear.engine.voxtral_chat.dims import VoxtralChatDims
from lookhear.kernels import log_mel


@dataclass(frozen=True, slots=True)
class PaddedEars:
    """See `Ears`. The loudest frame of the whole counts for all of its windows, as in the feature
    extractor of the checkpoint."""

    dims: VoxtralChatDims

    def num_tokens(self, num_samples: int) -> int:
        """Placeholders of so many samples."""
        return self._count(num_samples) * self.dims.window_tokens

    def windows(self, samples: NDArray[np.float32], *, is_final: bool = True) -> list[Medium]:
        """samples: [n], mono at 16 kHz. is_final: as of a `Medium`."""
        frames, count = self.dims.audio.max_frames, self._count(len(samples))
        padded = torch.zeros(1, count * frames * HOP)
        padded[0, : len(samples)] = torch.from_numpy(samples)
        mel = log_mel(padded, host_filters(self.dims.audio.num_mels))[0]
        return [
            Medium.of(part.contiguous().numpy(), self.dims.window_tokens, is_final=is_final)
            for part in torch.split(mel, frames, dim=1)
        ]

    def _count(self, num_samples: int) -> int:
        """Windows; a recording of nothing has one."""
        return max(1, -(-num_samples // (self.dims.audio.max_frames * HOP)))
