"""The results of `gpu_bench` as text, and what is told of many times."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np


def table(result: dict[str, Any]) -> str:
    """What the promises are about; everything else is in the JSON."""
    lines = [
        f"{result['device']['name']}, torch {result['torch']}, {result['geometry']} geometry; "
        f"a copy moves {result.get('bandwidth', 0.0) / 1e12:.2f} TB/s",
    ]
    for name, model in result["models"].items():
        lines += ["", name, *_decode(model.get("decode", {}))]
        for key, value in model.items():
            if key == "encoder":
                cells = [f"{batch}: {ms:.2f} ms" for batch, ms in value.items()]
                lines.append(f"  encoder, eager     {', '.join(cells)}")
            elif key.startswith("tick"):
                lines.append(
                    f"  {key:34} p50 {value['p50_ms']:8.1f} ms, p95 {value['p95_ms']:8.1f} ms"
                )
            elif key == "first token":
                lines += [
                    f"  first token, {load:46} p50 {v['p50_ms']:7.1f} ms, p95 {v['p95_ms']:7.1f} ms"
                    for load, v in value.items()
                ]
            elif key.startswith("sessions"):
                lines.append(f"  {key:34} {value['sessions']}")
    if result["failures"]:
        lines += ["", "not measured:", *(f"  {failure}" for failure in result["failures"])]
    return "\n".join(lines)


def _decode(modes: dict[str, Any]) -> list[str]:
    batches = sorted({key for mode in modes.values() for key in mode}, key=_batch)
    if not batches:
        return []
    lines = [f"  {'tokens/s':18}" + "".join(f"{f'batch {_batch(b)}':>24}" for b in batches)]
    for mode, found in modes.items():
        cells = []
        for batch in batches:
            cell = found.get(batch)
            if cell is None:
                cells.append(f"{'-':>24}")
                continue
            share = cell.get("roofline_share")
            extra = f" ({share:.0%})" if share is not None else ""
            cells.append(f"{cell['tokens_per_second']:>{24 - len(extra)}.0f}{extra}")
        lines.append(f"  {mode:18}" + "".join(cells))
    return [*lines, "  (in brackets: of the memory roofline)"]


def _batch(key: str) -> int:
    return int(key.rpartition(" ")[2])


def milliseconds(times: Sequence[float]) -> float:
    """The median of seconds."""
    return round(statistics.median(times) * 1e3, 3)


def quantiles(latencies: Sequence[float]) -> dict[str, float]:
    """How many, and p50 and p95 in milliseconds, of seconds."""
    if not latencies:
        return {"n": 0, "p50_ms": float("inf"), "p95_ms": float("inf")}
    p50, p95 = np.quantile(latencies, [0.5, 0.95]) * 1e3
    return {"n": len(latencies), "p50_ms": round(float(p50), 2), "p95_ms": round(float(p95), 2)}
