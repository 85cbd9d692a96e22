from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lookhear.kernels import log_mel, log_mel_chunks, mel_filters
from lookhear.kernels.log_mel import QUIETEST


def extractor(mels: int) -> Any:
    from transformers import WhisperFeatureExtractor

    return WhisperFeatureExtractor(feature_size=mels)


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


def chunked(clips: list[torch.Tensor], size: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Clips, padded as whole ones are, in chunks of `size` frames, each normalised with its whole
    clip; behind each clip, and as a last chunk, what nobody may read."""
    parts: list[torch.Tensor] = []
    starts: list[int] = []
    frames: list[int] = []
    heard: list[tuple[int, int]] = []
    end = 0
    for clip in clips:
        padded = torch.nn.functional.pad(clip[None, None], (200, 200), mode="reflect")[0, 0]
        parts += [padded, torch.full((77,), torch.nan)]
        count = len(clip) // 160
        first, last = len(starts), len(starts) + -(-count // size) - 1
        for done in range(0, count, size):
            starts.append(end + 160 * done)
            frames.append(min(size, count - done))
            heard.append((first, last))
        end += len(padded) + 77
    chunks = [*starts, end - 1], [*frames, 0], [*heard, (len(starts), len(starts))]
    return torch.cat(parts), {
        "starts": torch.tensor(chunks[0]),
        "frames": torch.tensor(chunks[1]),
        "heard": torch.tensor(chunks[2]).T.contiguous(),
        "before": torch.full((len(chunks[0]),), QUIETEST),
    }


@pytest.mark.parametrize("size", [7, 20, 100])
def test_chunks_of_clips_are_parts_of_their_log_mel(size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = (201, 3_333, 16_000 + 31)
    clips = [0.1**i * torch.randn(n, generator=generator) for i, n in enumerate(lengths)]
    filters = mel_filters(80)
    samples, given = chunked(clips, size)
    features, loudest = log_mel_chunks(samples, **given, filters=filters, size=size)
    at = 0
    for clip in clips:
        whole = log_mel(clip[None], filters)[0]
        chunks = -(-whole.shape[1] // size)
        mine = features[at : at + chunks].transpose(0, 1).flatten(1)
        torch.testing.assert_close(mine[:, : whole.shape[1]], whole, atol=2e-5, rtol=0)
        assert not mine[:, whole.shape[1] :].any()
        peak = whole.max() * 4 - 4
        torch.testing.assert_close(loudest[at : at + chunks], peak.expand(chunks))
        at += chunks
    assert not features[at:].any() and loudest[at:].tolist() == [QUIETEST]


def test_what_was_louder_before_a_chunk_counts() -> None:
    samples, given = chunked(
        [torch.randn(1_600, generator=torch.Generator().manual_seed(0)) * 1e-3], 10
    )
    filters = mel_filters(80)
    given["before"][0] = 3.0
    features, loudest = log_mel_chunks(samples, **given, filters=filters, size=10)
    assert loudest[0] == 3.0
    assert features[0].min() == (3.0 - 8.0 + 4.0) / 4
