"""Files that come whenever they come: a load given in files a second, as clients that know nothing
of each other make it. Who waits for an answer keeps nobody from asking."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import soundfile

from lookhear.bench.capacity import Bounds, Probe
from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import RATE
from lookhear.bench.numbers import Json, wer_numbers
from lookhear.bench.recordings.session import Session, audio_seconds
from lookhear.client import AsyncClient
from lookhear.errors import ConnectionFailed, ServerError

Ask = Callable[[Session], Coroutine[Any, Any, str]]
"""Asks for the text of a file. ServerError, ConnectionFailed."""


@dataclass(frozen=True, slots=True)
class Asked:
    """seconds: from when it was due to its answer. late: behind its time when it was sent, the
    generator's fault. text: None if it was refused; problem: why."""

    seconds: float
    late: float
    text: str | None
    problem: str = ""


def moments(rate: float, count: int, seed: int) -> list[float]:
    """Seconds from the beginning at which files are due: so many a second, by chance (Poisson)."""
    gaps = np.random.default_rng(seed).exponential(1.0 / rate, count)
    gaps[0] = 0.0
    return [float(moment) for moment in np.cumsum(gaps)]


async def arrivals(
    ask: Ask, files: Sequence[Session], due: Sequence[float]
) -> tuple[list[Asked], float]:
    """What became of each, and the seconds that all took, the last answer included."""
    began = time.monotonic()

    async def one(file: Session, moment: float) -> Asked:
        await asyncio.sleep(began + moment - time.monotonic())
        sent = time.monotonic() - began
        try:
            text, problem = await ask(file), ""
        except (ServerError, ConnectionFailed) as error:
            text, problem = None, str(error)
        return Asked(time.monotonic() - began - moment, sent - moment, text, problem)

    asked = await asyncio.gather(*map(one, files, due))
    return list(asked), time.monotonic() - began


def over_http(client: AsyncClient, model: str) -> Ask:
    """Asks a server for the text of a file."""

    async def ask(file: Session) -> str:
        wave = io.BytesIO()
        soundfile.write(wave, file.pcm, RATE, format="WAV")
        data, language = wave.getvalue(), file.language
        answer = await client.transcribe_raw(data, "json", model=model, language=language)
        return str(json.loads(answer)["text"])

    return ask


def numbers(files: Sequence[Session], asked: Sequence[Asked], seconds: float) -> Json:
    """Of one load. Texts that were refused count for no WER; `refused` counts them."""
    heard = [(file, one) for file, one in zip(files, asked, strict=True) if one.text is not None]
    errors = [file.errors(one.text or "") for file, one in heard]
    return {
        "files": len(files),
        "refused": len(files) - len(heard),
        "problems": sorted({one.problem for one in asked if one.problem})[:5],
        "answer_s": metrics.summary([one.seconds for _, one in heard]),
        "audio_per_second": round(audio_seconds([file for file, _ in heard]) / seconds, 2),
        "generator_late_s": round(max((one.late for one in asked), default=0.0), 3),
        **wer_numbers(errors),
    }


def verdict(units: int, found: Json, bounds: Bounds) -> Probe:
    """Whether a rate holds: p95 of the answers within the bound of final texts, nobody refused.
    units: what a search counts in."""
    answer = found["answer_s"]
    reasons = [f"{found['refused']} files refused"] if found["refused"] else []
    if not answer["n"]:
        reasons.append("no answer")
    elif answer["p95"] > bounds.final:
        reasons.append(f"p95 answer {answer['p95']:.2f} s > {bounds.final:g} s")
    if found["generator_late_s"] > bounds.late:
        late = f"the generator was {found['generator_late_s']:.2f} s late"
        return Probe(units, None, (late, *reasons), found)
    return Probe(units, not reasons, tuple(reasons), found)
