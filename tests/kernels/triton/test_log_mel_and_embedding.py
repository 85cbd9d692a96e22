"""Triton's features and embeddings against torch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lookhear.kernels import embed_tokens, log_mel, log_mel_chunks, mel_filters
from lookhear.kernels.triton import embedding as triton_embedding
from lookhear.kernels.triton import log_mel as triton_log_mel
from tests.kernels.test_log_mel import chunked

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
# The interpreter cuts bfloat16 off where a GPU rounds.
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 2**-6, torch.float16: 2**-9}


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def chirps(batch: int, length: int) -> Tensor:
    """Gliding tones of many loudnesses in faint noise, silent now and then."""
    time = torch.arange(length) / 16_000
    rows = []
    for b in range(batch):
        tone = torch.sin(2 * torch.pi * (150 * (b + 1) + 400 * time) * time)
        rows.append(tone * ((time * 3 + b) % 1 > 0.4) * 0.9 * 10.0**-b)
    return torch.stack(rows) + draw(0, batch, length) * 1e-4


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize(("batch", "length"), [(2, 201), (1, 2_719)])
def test_log_mel(batch: int, length: int, mels: int) -> None:
    samples, filters = chirps(batch, length), mel_filters(mels)
    ours, theirs = (f(samples, filters) for f in (triton_log_mel.log_mel, log_mel))
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    torch.testing.assert_close(ours, theirs, atol=5e-4, rtol=0)


def test_log_mel_rows_do_not_depend_on_each_other_or_on_what_lies_between() -> None:
    wide, filters = torch.full((2, 1_000), torch.nan), mel_filters(80)
    wide[:, :800] = chirps(2, 800)
    together = triton_log_mel.log_mel(wide[:, :800], filters)
    for row, clip in zip(together, wide[:, :800].contiguous(), strict=True):
        assert torch.equal(row, triton_log_mel.log_mel(clip[None], filters)[0])


def test_log_mel_of_silence_and_of_nothing() -> None:
    filters = mel_filters(80)
    silent = triton_log_mel.log_mel(torch.zeros(1, 800), filters)
    torch.testing.assert_close(silent, torch.full((1, 80, 5), -1.5))
    assert triton_log_mel.log_mel(torch.zeros(0, 800), filters).shape == (0, 80, 5)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_broken_clip_says_so_and_breaks_no_other() -> None:
    samples, filters = chirps(2, 640), mel_filters(80)
    alone = triton_log_mel.log_mel(samples[1:], filters)
    samples[0, 500] = torch.nan
    both = triton_log_mel.log_mel(samples, filters)
    assert both[0].isnan().any() and torch.equal(both[1:], alone)


@pytest.mark.parametrize(("mels", "size"), [(80, 7), (128, 20)])
def test_chunks_of_log_mel(mels: int, size: int) -> None:
    loud, faint = chirps(2, 4_900)
    samples, given = chunked([loud, faint[:700]], size)
    given["before"][-3:] = 1.5
    filters = mel_filters(mels)
    ours, theirs = (
        f(samples, **given, filters=filters, size=size)
        for f in (triton_log_mel.log_mel_chunks, log_mel_chunks)
    )
    for mine, twin in zip(ours, theirs, strict=True):
        assert mine.shape == twin.shape and mine.dtype == twin.dtype
        torch.testing.assert_close(mine, twin, atol=5e-4, rtol=0)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_broken_chunk_says_so_and_breaks_no_other_clip() -> None:
    clips, filters = list(chirps(2, 1_600)), mel_filters(80)
    samples, given = chunked(clips, 5)
    whole, _ = triton_log_mel.log_mel_chunks(samples, **given, filters=filters, size=5)
    samples[1_000] = torch.nan
    broken, _ = triton_log_mel.log_mel_chunks(samples, **given, filters=filters, size=5)
    assert broken[:2].isnan().any() and torch.equal(broken[2:], whole[2:])


@pytest.mark.parametrize("table", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [5, 123, 1023])
def test_embedding(width: int, dtype: torch.dtype, table: torch.dtype) -> None:
    words, places = draw(0, 11, width, dtype=table), draw(1, 7, width, dtype=dtype)
    words[4], places[3] = torch.nan, torch.nan  # rows that nobody asks for
    tokens, positions = torch.tensor([[0, 10, 3], [3, 9, 1]]), torch.tensor([[0, 1, 2], [6, 5, 0]])
    ours = triton_embedding.embed_tokens(tokens, positions, words, places)
    theirs = embed_tokens(tokens, positions, words, places)
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    close = max(TOLERANCE[dtype], TOLERANCE[table])
    torch.testing.assert_close(ours, theirs, atol=close, rtol=close)


def test_an_embedding_of_nothing_and_of_what_is_not_there() -> None:
    words, places = draw(0, 4, 8), draw(1, 3, 8)
    none = torch.zeros(2, 0, dtype=torch.int64)
    assert triton_embedding.embed_tokens(none, none, words, places).shape == (2, 0, 8)
    outside = triton_embedding.embed_tokens(
        torch.tensor([-1, 4]), torch.tensor([0, 99]), words, places
    )
    torch.testing.assert_close(outside, words[[0, 3]] + places[[0, 2]])
