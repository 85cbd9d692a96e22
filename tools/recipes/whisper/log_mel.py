"""The features that the network in training hears."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class LogMel:
    """Whisper's log-mel over a batch of equal windows: `[batch, samples]` to `[batch, 80, n]`."""

    def __init__(self) -> None:
        from transformers import WhisperFeatureExtractor

        extractor: Any = WhisperFeatureExtractor(feature_size=80)
        filters = extractor.mel_filters
        self._filters = torch.tensor(filters.T, dtype=torch.float32)
        self._window = torch.hann_window(400)

    def __call__(self, wave: Tensor, response: Tensor | None = None) -> Tensor:
        """response: gain of each frequency, [batch, 201, 1]; None for none."""
        spectrum = torch.stft(wave, 400, 160, window=self._window, return_complex=True)
        power = spectrum[..., :-1].abs() ** 2
        if response is not None:
            power = power * response
        mel = (self._filters @ power).clamp(min=1e-10).log10()
        mel = torch.maximum(mel, mel.amax((1, 2), keepdim=True) - 8)
        return (mel + 4) / 4
