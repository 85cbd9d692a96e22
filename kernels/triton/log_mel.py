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
    mel = tl.arange(0, MELS)
    totals = tl.zeros([FRAMES, MELS], tl.float32)
    for first_bin in range(0, TABLE_BINS, BINS):
        bin = first_bin + tl.arange(0, BINS)
        real = tl.zeros([FRAMES, BINS], tl.float32)
        imaginary = tl.zeros([FRAMES, BINS], tl.float32)
        for first in range(0, HALF, SAMPLES):
            n = first + tl.arange(0, SAMPLES)
            before = _reflected(middle[:, None] - n[None, :], length)
            after = _reflected(middle[:, None] + n[None, :], length)
            # Reflected twice, a place may be outside once more; there the table is zero.
            inside = (n < 200)[None, :] & (frame < frames)[:, None]
            start = samples_ptr + row * row_stride
            x = tl.load(start + before, mask=inside, other=0.0)
            y = tl.load(start + after, mask=inside, other=0.0)
            place = n[:, None] * TABLE_BINS + bin[None, :]
            real += product(y + x, tl.load(cosines_ptr + place))
            imaginary += product(y - x, tl.load(sines_ptr + place))
        power = real * real + imaginary * imaginary
        wanted = (bin < 201)[:, None] & (mel < mels)[None, :]
        weights = tl.load(filters_ptr + mel[None, :] * 201 + bin[:, None], mask=wanted, other=0.0)
        totals += product(power, weights)
    # A maximum would lose a NaN, and a broken clip has to be noticed.
    floored = tl.where(totals < 1e-10, 1e-10, totals)
    decades = tl.log2(floored) * 0.30102999566398120
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
