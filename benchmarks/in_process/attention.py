"""Attention alone: what each kind of it takes by rows and lengths, without the model around it.

The operations are those of the engine (`lookhear.kernels`): torch's on a CPU, Triton's on a GPU.
Shapes are of Whisper base or Qwen3 0.6B; keys and values are random numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from lookhear.kernels import (
    attention,
    cross_attention_cached,
    paged_attention,
    self_attention_cached,
)

BLOCK = 16
LEAST_SECONDS = 0.2  # of measuring; and so many rounds at least
LEAST_ROUNDS = 5
Run = Callable[[], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Shape:
    """heads of queries, heads of keys, numbers a head."""

    heads: int
    kv_heads: int
    dim: int


WHISPER, QWEN = Shape(8, 8, 64), Shape(16, 8, 128)


def encoder(rows: int, length: int, device: torch.device, dtype: torch.dtype) -> Run:
    """Windows of so many positions, each seeing all of its own."""
    q, k, v = (_random(rows, length, WHISPER.heads, WHISPER.dim).to(device, dtype) for _ in "qkv")
    return lambda: attention(q, k, v, scale=1.0)


def text(rows: int, length: int, device: torch.device, dtype: torch.dtype) -> Run:
    """One more token of each row, behind so many (Whisper's decoder)."""
    cache = _random(2, rows + 1, WHISPER.heads, length + 1, WHISPER.dim).to(device, dtype)
    q, k, v = (_random(rows, 1, WHISPER.heads, WHISPER.dim).to(device, dtype) for _ in "qkv")
    places = torch.arange(1, rows + 1, device=device)
    past = torch.full_like(places, length)
    new = torch.ones_like(places)
    return lambda: self_attention_cached(q, k, v, cache, places, past, new, scale=1.0)


def audio(rows: int, length: int, device: torch.device, dtype: torch.dtype) -> Run:
    """One token of each row over so many encoder positions (Whisper's decoder)."""
    cache = _random(rows, 2, WHISPER.heads, length, WHISPER.dim).to(device, dtype)
    q = _random(rows, 1, WHISPER.heads, WHISPER.dim).to(device, dtype)
    slots = torch.arange(rows, device=device)
    lengths = torch.full_like(slots, length)
    return lambda: cross_attention_cached(q, cache, slots, lengths, scale=1.0)


def decode(rows: int, length: int, device: torch.device, dtype: torch.dtype) -> Run:
    """One more token of each row, behind so many in blocks (Qwen's decoder)."""
    return _paged(rows, length, 1, device, dtype)


def prefill(rows: int, length: int, device: torch.device, dtype: torch.dtype) -> Run:
    """Prompts of so many tokens, read at once into blocks (Qwen's decoder)."""
    return _paged(rows, 0, length, device, dtype)


KINDS: dict[str, Callable[[int, int, torch.device, torch.dtype], Run]] = {
    "encoder": encoder,
    "text": text,
    "audio": audio,
    "decode": decode,
    "prefill": prefill,
}


def _paged(rows: int, past: int, new: int, device: torch.device, dtype: torch.dtype) -> Run:
    each = -(-(past + new) // BLOCK)
    cache = _random(2, rows * each + 1, BLOCK, QWEN.kv_heads, QWEN.dim).to(device, dtype)
    tables = torch.arange(1, rows * each + 1, device=device).view(rows, each)
    q = _random(rows * new, QWEN.heads, QWEN.dim).to(device, dtype)
    before = torch.full((rows,), past, device=device)
    added = torch.full((rows,), new, device=device)
    return lambda: paged_attention(q, cache, tables, before, added)


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@torch.inference_mode()
def measured(kind: str, rows: int, length: int, seconds: float = LEAST_SECONDS) -> dict[str, Any]:
    """Of the machine's first GPU, else of one thread of its processor: microseconds of a call (the
    median), and of those a row."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        run = KINDS[kind](rows, length, device, dtype)
        run()
        taken: list[float] = []
        end = time.perf_counter() + seconds
        while len(taken) < LEAST_ROUNDS or time.perf_counter() < end:
            _wait(device)
            began = time.perf_counter()
            run()
            _wait(device)
            taken.append(time.perf_counter() - began)
    finally:
        torch.set_num_threads(threads)
    middle = 1e6 * sorted(taken)[len(taken) // 2]
    return {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "dtype": str(dtype).removeprefix("torch."),
        "rounds": len(taken),
        "us": round(middle, 1),
        "us_per_row": round(middle / rows, 2),
    }


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
