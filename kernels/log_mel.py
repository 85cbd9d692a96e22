"""Whisper's log-mel spectrogram, and its mel filter bank.

Same numbers as the checkpoint's own feature extractor (openai/whisper `audio.py`, transformers
`WhisperFeatureExtractor`): 16 kHz, windows of 400 samples, one frame every 160 (10 ms).
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from lookhear.kernels.choice import has_triton

SAMPLE_RATE = 16_000
FFT_SIZE = 400  # samples of one window
HOP = 160  # samples from one frame to the next
NUM_BINS = FFT_SIZE // 2 + 1
DYNAMIC_RANGE = 8.0  # decades kept below the loudest value of a row
POWER_FLOOR = 1e-10
QUIETEST = -10.0  # decades: of the floor


@has_triton
def log_mel(samples: Tensor, filters: Tensor) -> Tensor:
    """Log-mel spectrogram of equally long clips, each row on its own.

    samples: [batch, num_samples] float32 in [-1, 1] at 16 kHz, num_samples > 200.
    filters: [mels, 201], from `mel_filters`.
    Returns [batch, mels, num_samples // 160] float32, about -1 to 1 for speech.

        power = |STFT(samples)|^2 (Hann window, centred, reflected edges, last frame dropped)
        mel = log10(max(filters @ power, 1e-10))
        result = (max(mel, max over the row - 8) + 4) / 4
    """
    assert samples.dim() == 2 and samples.shape[1] > FFT_SIZE // 2, samples.shape
    edge = FFT_SIZE // 2
    padded = torch.nn.functional.pad(samples[:, None], (edge, edge), mode="reflect")[:, 0]
    mel = log10_mel(padded, filters)[..., : samples.shape[1] // HOP]
    return normalised(mel, mel.amax(dim=(1, 2), keepdim=True))


@has_triton
def log_mel_chunks(
    samples: Tensor,
    starts: Tensor,
    frames: Tensor,
    heard: Tensor,
    before: Tensor,
    filters: Tensor,
    size: int,
) -> tuple[Tensor, Tensor]:
    """Log-mel of pieces of many clips, each normalised by the loudest value of its clip so far.

    samples: [n] float32, the clips one after another, padded at their ends as is wanted. Of chunk
    c: starts[c] int64, where in samples its first frame's begin; frames[c] int64, 0 to size;
    heard[:, c] int64, the first and the last chunk that it is normalised with; before[c] float32,
    the loudest value in front of those, in decades. filters: [mels, 201].
    Returns [c, mels, size] float32, zeros behind a chunk's frames; and what each was normalised by,
    [c] float32 decades.
    """
    span = (size - 1) * HOP + FFT_SIZE
    places = starts[:, None] + torch.arange(span, device=samples.device)
    decades = log10_mel(samples[places.clamp_(max=len(samples) - 1)], filters)
    # What lies behind a chunk's frames is anything, a NaN perhaps.
    real = (torch.arange(size, device=samples.device) < frames[:, None])[:, None]
    decades = torch.where(real, decades, QUIETEST)
    chunks = torch.arange(len(starts), device=samples.device)
    counts = (chunks >= heard[0, :, None]) & (chunks <= heard[1, :, None])
    loudest = torch.where(counts, decades.amax((1, 2)), QUIETEST).amax(1)
    loudest = torch.maximum(loudest, before)
    return torch.where(real, normalised(decades, loudest[:, None, None]), 0.0), loudest


def log10_mel(samples: Tensor, filters: Tensor) -> Tensor:
    """The decades of `log_mel` before the loudest value is known, and without any padding.

    samples: [batch, num_samples >= 400]. Frame t covers samples 160 t .. 160 t + 400. filters: as
    they are, or sparse, as most of them is zeros: much faster where little is computed at a time.
    Returns [batch, mels, (num_samples - 400) // 160 + 1] float32, -10 and more.
    """
    window = _window(samples.dtype, samples.device)
    spectrum = torch.fft.rfft(samples.unfold(1, FFT_SIZE, HOP) * window)
    # [batch, frames, bins]; a sum over the two parts as a dimension takes four times as long.
    power = spectrum.real.square().add_(spectrum.imag.square())
    if filters.is_sparse:
        mel = torch.sparse.mm(filters, power.flatten(0, 1).T)
        mel = mel.unflatten(1, power.shape[:2]).transpose(0, 1)
    else:
        mel = torch.matmul(filters, power.transpose(1, 2))
    decades: Tensor = mel.clamp_(min=POWER_FLOOR).log10_()
    return decades


@cache
def _window(dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # of use where gradients are wanted, too
        return torch.hann_window(FFT_SIZE, dtype=dtype, device=device)


def normalised(mel: Tensor, loudest: Tensor | float) -> Tensor:
    """(max(mel, loudest - 8) + 4) / 4: what `log10_mel` gives, as models read it."""
    return limited(unlimited(mel), loudest)


def unlimited(mel: Tensor) -> Tensor:
    """(mel + 4) / 4: `normalised` before the loudest value is known."""
    return mel.add(4.0).mul_(0.25)


def limited(mel: Tensor, loudest: Tensor | float) -> Tensor:
    """`normalised` of what `unlimited` gives. loudest: decades."""
    return mel.clamp(min=(loudest - DYNAMIC_RANGE + 4.0) * 0.25)


def mel_filters(num_mels: int, num_bins: int = NUM_BINS) -> Tensor:
    """Slaney's mel filter bank, area-normalised: [num_mels, num_bins] float32, 0 to 8 kHz.

    Triangles whose corners are equally spaced in mel (linear below 1 kHz, logarithmic above), each
    of area 1 in Hz (M. Slaney, Auditory Toolbox, 1998; librosa's default).
    """
    assert num_mels >= 1, num_mels
    nyquist = torch.tensor(SAMPLE_RATE / 2, dtype=torch.float64)
    corners = _mel_to_hertz(
        torch.linspace(0.0, float(_hertz_to_mel(nyquist)), num_mels + 2, dtype=torch.float64)
    )
    bins = torch.linspace(0.0, float(nyquist), num_bins, dtype=torch.float64)
    widths = corners.diff()
    ramps = corners[:, None] - bins[None, :]  # [mels + 2, bins]
    rising = -ramps[:-2] / widths[:-1, None]
    falling = ramps[2:] / widths[1:, None]
    triangles = torch.minimum(rising, falling).clamp_(min=0.0)
    triangles *= (2.0 / (corners[2:] - corners[:-2]))[:, None]
    return triangles.to(torch.float32)


# Slaney's scale: 200/3 Hz per mel below 1 kHz (15 mels), then 27 mels per factor of 6.4.
_LINEAR_STEP = 200.0 / 3
_BREAK_HERTZ = 1000.0
_BREAK_MEL = _BREAK_HERTZ / _LINEAR_STEP
_LOG_STEP = 0.06875177742094912  # ln(6.4) / 27


def _hertz_to_mel(hertz: Tensor) -> Tensor:
    logarithmic = _BREAK_MEL + (hertz.clamp(min=_BREAK_HERTZ) / _BREAK_HERTZ).log() / _LOG_STEP
    return torch.where(hertz >= _BREAK_HERTZ, logarithmic, hertz / _LINEAR_STEP)


def _mel_to_hertz(mel: Tensor) -> Tensor:
    logarithmic = _BREAK_HERTZ * ((mel - _BREAK_MEL) * _LOG_STEP).exp()
    return torch.where(mel >= _BREAK_MEL, logarithmic, mel * _LINEAR_STEP)
