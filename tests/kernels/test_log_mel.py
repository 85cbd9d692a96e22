from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lookhear.kernels import log_mel, mel_filters


def extractor(mels: int) -> Any:
    from transformers import WhisperFeatureExtractor

    return WhisperFeatureExtractor(feature_size=mels)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("mels", [80, 128])
def test_filters_equal_the_extractors(mels: int) -> None:
    theirs = torch.from_numpy(extractor(mels).mel_filters.T).float()
    torch.testing.assert_close(mel_filters(mels), theirs, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("loudness", [1.0, 1e-3])
def test_features_equal_the_extractors(mels: int, loudness: float) -> None:
    rng = np.random.default_rng(1)
    time = np.arange(52_345) / 16_000
    clip = np.sin(2 * np.pi * (200 + 300 * time) * time) * (time % 1 > 0.4)
    clip = ((clip + rng.normal(0, 0.02, clip.shape)) * loudness).astype(np.float32)
    theirs = extractor(mels)(clip, sampling_rate=16_000, return_tensors="pt").input_features
    padded = torch.from_numpy(np.pad(clip, (0, 480_000 - len(clip))))[None]
    ours = log_mel(padded, mel_filters(mels))
    assert ours.shape == (1, mels, 3000)
    assert (ours - theirs).abs().max() <= 1e-4


def test_rows_do_not_depend_on_each_other() -> None:
    generator = torch.Generator().manual_seed(0)
    quiet, loud = torch.randn(2, 32_000, generator=generator) * torch.tensor([[1e-3], [1.0]])
    filters = mel_filters(80)
    both = log_mel(torch.stack([quiet, loud]), filters)
    torch.testing.assert_close(both[0], log_mel(quiet[None], filters)[0], atol=1e-6, rtol=0)
    torch.testing.assert_close(both[1], log_mel(loud[None], filters)[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("num_samples", [201, 320, 16_000, 16_159])
def test_a_frame_for_every_whole_hop(num_samples: int) -> None:
    assert log_mel(torch.zeros(2, num_samples), mel_filters(80)).shape[2] == num_samples // 160


def test_silence_is_finite() -> None:
    features = log_mel(torch.zeros(1, 16_000), mel_filters(80))
    torch.testing.assert_close(features, torch.full_like(features, -1.5))
