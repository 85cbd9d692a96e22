"""Log-mel spectrograms of many clips at once: frames, Fourier transform, filters and logarithm in
one launch, the shift by the loudest value in a second."""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from lookhear.kernels.triton.configs import tile
from lookhear.kernels.triton.softmax import product

FFT_SIZE, HOP, NUM_BINS = 400, 160, 201
FRAMES = 16  # of one program
BINS = 64  # of one turn
SAMPLES = 32  # of a frame, in one product
HALF = 224  # FFT_SIZE // 2, in whole pieces of SAMPLES
TABLE_BINS = 256  # NUM_BINS, in whole pieces of BINS


def log_mel(samples: Tensor, filters: Tensor) -> Tensor:
    """Log-mel spectrogram of equally long clips, each row on its own.

        power[k] = |sum_n w[n] x[n] exp(-2 pi i k n / 400)|^2,  w: Hann, centred, reflected edges
        mel = log10(max(filters @ power, 1e-10));  (max(mel, max over the row - 8) + 4) / 4

    samples: [batch, num_samples > 200] float32; filters: [mels, 201] float32. Returns [batch, mels,
    num_samples // 160] float32. Grid: (frames / 16, batch), then (values / tile, batch).

    The window is even and the samples are real, so with n = 200 in the middle the sums go over
    x[200 - n] + x[200 + n] (cosines) and their difference (sines): half the products, all of them
    in float32, by tables from float64.
    """
    assert samples.dim() == 2 and samples.shape[1] > FFT_SIZE // 2, samples.shape
    assert samples.dtype == filters.dtype == torch.float32, (samples.dtype, filters.dtype)
    batch, length = samples.shape
    mels, frames = filters.shape[0], length // HOP
    out = torch.empty((batch, mels, frames), dtype=torch.float32, device=samples.device)
    if out.numel() == 0:
        return out
    samples = samples if samples.stride(1) == 1 else samples.contiguous()
    cosines, sines = _tables(samples.device)
    parts = triton.cdiv(frames, FRAMES)
    loudest = torch.empty((batch, parts), dtype=torch.float32, device=samples.device)
    _decades_kernel[(parts, batch)](
        samples,
        cosines,
        sines,
        filters.contiguous(),
        out,
        loudest,
        samples.stride(0),
        length,
        frames,
        mels,
        parts,
        FRAMES=FRAMES,
        BINS=BINS,
        SAMPLES=SAMPLES,
        HALF=HALF,
        TABLE_BINS=TABLE_BINS,
        MELS=max(16, triton.next_power_of_2(mels)),
        num_warps=4,
    )
    size, warps, _ = tile("elementwise", mels * frames)
    _normalise_kernel[(triton.cdiv(mels * frames, size), batch)](
        out,
        loudest,
        mels * frames,
        parts,
        PARTS=triton.next_power_of_2(parts),
        SIZE=size,
        num_warps=warps,
    )
    return out


def log_mel_chunks(
    samples: Tensor,
    starts: Tensor,
    frames: Tensor,
    heard: Tensor,
    before: Tensor,
    filters: Tensor,
    size: int,
) -> tuple[Tensor, Tensor]:
    """Log-mel of pieces of many clips: see the function of this name in torch. Chunk c normalises

        max over its clip = max(before[c], loudest of the chunks heard[0, c] .. heard[1, c])

    Grid: (size / 16, chunks), then (values of a chunk / tile, chunks).
    """
    assert samples.dim() == 1 and samples.is_contiguous(), samples.shape
    assert samples.dtype == filters.dtype == before.dtype == torch.float32
    chunks, mels = len(starts), filters.shape[0]
    out = torch.empty((chunks, mels, size), dtype=torch.float32, device=samples.device)
    loudest = torch.empty(chunks, dtype=torch.float32, device=samples.device)
    if out.numel() == 0:
        return out, loudest
    cosines, sines = _tables(samples.device)
    parts = triton.cdiv(size, FRAMES)
    found = torch.empty((chunks, parts), dtype=torch.float32, device=samples.device)
    _chunk_decades_kernel[(parts, chunks)](
        samples,
        starts,
        frames,
        cosines,
        sines,
        filters.contiguous(),
        out,
        found,
        size,
        mels,
        parts,
        FRAMES=FRAMES,
        BINS=BINS,
        SAMPLES=SAMPLES,
        HALF=HALF,
        TABLE_BINS=TABLE_BINS,
        MELS=max(16, triton.next_power_of_2(mels)),
        num_warps=4,
    )
    tile_size, warps, _ = tile("elementwise", mels * size)
    _normalise_chunks_kernel[(triton.cdiv(mels * size, tile_size), chunks)](
        out,
        found,
        frames,
        heard.contiguous(),
        before,
        loudest,
        size,
        mels * size,
        parts,
        chunks,
        PARTS=64,
        SIZE=tile_size,
        num_warps=warps,
    )
    return out, loudest


@cache
def _tables(device: torch.device) -> tuple[Tensor, Tensor]:
    """w[200 - n] cos(pi k n / 200) and the same of sines, n = 0 .. 199 and beyond zeros: [224, 256]
    each. Made once for a device, before anything is captured."""
    n = torch.arange(HALF, dtype=torch.float64)[:, None]
    k = torch.arange(TABLE_BINS, dtype=torch.float64)[None, :]
    window = 0.5 + 0.5 * torch.cos(torch.pi * n / (FFT_SIZE // 2))
    # The middle is met once, not twice; the window ends in a zero.
    window[0] = 0.5
    window[FFT_SIZE // 2 :] = 0.0
    angle = torch.pi / (FFT_SIZE // 2) * ((n * k) % FFT_SIZE)  # exact: whole numbers
    exists = k < NUM_BINS
    return (
        (window * angle.cos() * exists).float().to(device),
        (window * angle.sin() * exists).float().to(device),
    )


@triton.jit
def _reflected(place, length):
    """The sample that stands at a place before the first or behind the last."""
    place = tl.where(place < 0, -place, place)
    return tl.where(place >= length, 2 * (length - 1) - place, place)


@triton.jit
def _decades(
    start_ptr,
    middle,
    real,
    length,
    cosines_ptr,
    sines_ptr,
    filters_ptr,
    mels,
    end_bin,
    FRAMES: tl.constexpr,
    BINS: tl.constexpr,
    SAMPLES: tl.constexpr,
    HALF: tl.constexpr,
    TABLE_BINS: tl.constexpr,
    MELS: tl.constexpr,
    REFLECTS: tl.constexpr,
):
    """[FRAMES, MELS] of the frames around the samples start[middle]. real: which there are.
    end_bin: TABLE_BINS, or 0 where there are none. REFLECTS: the clip has nothing beyond its ends.
    """
    mel = tl.arange(0, MELS)
    totals = tl.zeros([FRAMES, MELS], tl.float32)
    for first_bin in range(0, end_bin, BINS):
        bin = first_bin + tl.arange(0, BINS)
        power_real = tl.zeros([FRAMES, BINS], tl.float32)
        imaginary = tl.zeros([FRAMES, BINS], tl.float32)
        for first in range(0, HALF, SAMPLES):
            n = first + tl.arange(0, SAMPLES)
            before = middle[:, None] - n[None, :]
            after = middle[:, None] + n[None, :]
            if REFLECTS:
                before = _reflected(before, length)
                after = _reflected(after, length)
            # Reflected twice, a place may be outside once more; there the table is zero.
            inside = (n < 200)[None, :] & real[:, None]
            x = tl.load(start_ptr + before, mask=inside, other=0.0)
            y = tl.load(start_ptr + after, mask=inside, other=0.0)
            place = n[:, None] * TABLE_BINS + bin[None, :]
            power_real += product(y + x, tl.load(cosines_ptr + place))
            imaginary += product(y - x, tl.load(sines_ptr + place))
        power = power_real * power_real + imaginary * imaginary
        wanted = (bin < 201)[:, None] & (mel < mels)[None, :]
        weights = tl.load(filters_ptr + mel[None, :] * 201 + bin[:, None], mask=wanted, other=0.0)
        totals += product(power, weights)
    # A maximum would lose a NaN, and a broken clip has to be noticed.
    floored = tl.where(totals < 1e-10, 1e-10, totals)
    return tl.log2(floored) * 0.30102999566398120


@triton.jit(do_not_specialize=["length", "frames", "parts"])
def _decades_kernel(
    samples_ptr,
    cosines_ptr,
    sines_ptr,
    filters_ptr,
    out_ptr,
    loudest_ptr,
    row_stride,
    length,
    frames,
    mels,
    parts,
    FRAMES: tl.constexpr,
    BINS: tl.constexpr,
    SAMPLES: tl.constexpr,
    HALF: tl.constexpr,
    TABLE_BINS: tl.constexpr,
    MELS: tl.constexpr,
):
    row = tl.program_id(1).to(tl.int64)
    frame = tl.program_id(0) * FRAMES + tl.arange(0, FRAMES)
    middle = tl.minimum(frame, frames - 1) * 160
    decades = _decades(
        samples_ptr + row * row_stride,
        middle,
        frame < frames,
        length,
        cosines_ptr,
        sines_ptr,
        filters_ptr,
        mels,
        TABLE_BINS,
        FRAMES,
        BINS,
        SAMPLES,
        HALF,
        TABLE_BINS,
        MELS,
        True,
    )
    mel = tl.arange(0, MELS)
    written = (frame < frames)[:, None] & (mel < mels)[None, :]
    target = out_ptr + (row * mels + mel[None, :]) * frames + frame[:, None]
    tl.store(target, decades, mask=written)
    best = tl.max(tl.max(tl.where(written, decades, -10.0), 1), 0)
    tl.store(loudest_ptr + row * parts + tl.program_id(0), best)


@triton.jit(do_not_specialize=["count", "parts"])
def _normalise_kernel(mel_ptr, loudest_ptr, count, parts, PARTS: tl.constexpr, SIZE: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    part = tl.arange(0, PARTS)
    best = tl.load(loudest_ptr + row * parts + part, mask=part < parts, other=-10.0)
    floor = tl.max(best, 0) - 8.0
    place = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    real = place < count
    x = tl.load(mel_ptr + row * count + place, mask=real, other=0.0)
    y = (tl.where(x < floor, floor, x) + 4.0) * 0.25
    tl.store(mel_ptr + row * count + place, y, mask=real)


@triton.jit(do_not_specialize=["size", "parts"])
def _chunk_decades_kernel(
    samples_ptr,
    starts_ptr,
    frames_ptr,
    cosines_ptr,
    sines_ptr,
    filters_ptr,
    out_ptr,
    found_ptr,
    size,
    mels,
    parts,
    FRAMES: tl.constexpr,
    BINS: tl.constexpr,
    SAMPLES: tl.constexpr,
    HALF: tl.constexpr,
    TABLE_BINS: tl.constexpr,
    MELS: tl.constexpr,
):
    row = tl.program_id(1).to(tl.int64)
    frames = tl.load(frames_ptr + row).to(tl.int32)
    frame = tl.program_id(0) * FRAMES + tl.arange(0, FRAMES)
    real = frame < frames
    decades = _decades(
        samples_ptr + tl.load(starts_ptr + row),
        200 + frame * 160,
        real,
        0,
        cosines_ptr,
        sines_ptr,
        filters_ptr,
        mels,
        tl.where(tl.program_id(0) * FRAMES < frames, TABLE_BINS, 0),
        FRAMES,
        BINS,
        SAMPLES,
        HALF,
        TABLE_BINS,
        MELS,
        False,
    )
    mel = tl.arange(0, MELS)
    written = real[:, None] & (mel < mels)[None, :]
    target = out_ptr + (row * mels + mel[None, :]) * size + frame[:, None]
    tl.store(target, decades, mask=written)
    best = tl.max(tl.max(tl.where(written, decades, -10.0), 1), 0)
    tl.store(found_ptr + row * parts + tl.program_id(0), best)


@triton.jit(do_not_specialize=["size", "count", "parts", "chunks"])
def _normalise_chunks_kernel(
    mel_ptr,
    found_ptr,
    frames_ptr,
    heard_ptr,
    before_ptr,
    loudest_ptr,
    size,
    count,
    parts,
    chunks,
    PARTS: tl.constexpr,
    SIZE: tl.constexpr,
):
    row = tl.program_id(1).to(tl.int64)
    frames = tl.load(frames_ptr + row).to(tl.int32)
    first = tl.load(heard_ptr + row).to(tl.int32) * parts
    end = (tl.load(heard_ptr + chunks + row).to(tl.int32) + 1) * parts
    best = tl.load(before_ptr + row)
    for start in range(first, end, PARTS):
        part = start + tl.arange(0, PARTS)
        found = tl.load(found_ptr + part, mask=part < end, other=-10.0)
        best = tl.maximum(best, tl.max(found, 0))
    tl.store(loudest_ptr + row, best)  # by every program, the same
    place = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    real = (place < count) & (place % size < frames)
    x = tl.load(mel_ptr + row * count + place, mask=real, other=0.0)
    floor = best - 8.0
    y = (tl.where(x < floor, floor, x) + 4.0) * 0.25
    tl.store(mel_ptr + row * count + place, tl.where(real, y, 0.0), mask=place < count)
