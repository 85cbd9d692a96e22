"""`lookhear bench offline`: whole utterances, as fast as they go.

Speed (RTFx: seconds of audio per second), latency of an answer, WER and memory: over HTTP
(/v1/audio/transcriptions of any server), or of engines on one checkpoint (--engine), each in a
process of its own, one utterance after another.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import soundfile
from rich.console import Console
from rich.table import Table

from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import RATE
from lookhear.bench.numbers import Json, wer_by_group, wer_numbers
from lookhear.bench.processes import Watch
from lookhear.bench.recordings.conditions import composed
from lookhear.bench.recordings.session import Session, audio_seconds
from lookhear.bench.recordings.speech import held_out_sessions
from lookhear.bench.repository import from_repository
from lookhear.bench.subject import (
    above_zero,
    add_result_arguments,
    add_server_arguments,
    at_least_one,
    begin,
    consoles,
    finish,
    private_server,
    require_one_server,
)
from lookhear.client import AsyncClient
from lookhear.errors import UsageError
from lookhear.results import first_able
from lookhear.terminal.progress import counting


@dataclass(frozen=True, slots=True)
class Answer:
    """text; language: as found, None if nobody says; seconds: until it came."""

    text: str
    language: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """All answers, in the order of the sessions; seconds: all of it took. usage: of the server's
    processes, empty if they are not ours to look at."""

    answers: list[Answer]
    seconds: float
    usage: dict[str, float]


async def over_http(
    client: AsyncClient,
    sessions: Sequence[Session],
    model: str | None,
    concurrency: int,
    tell_language: bool,
    console: Console,
    watch: AbstractContextManager[object],
) -> tuple[list[Answer], float]:
    """The answers, and the seconds that all of them took. The first is asked for twice, and the
    first time does not count. watch: entered while it counts. ServerError, ConnectionFailed."""
    gate = asyncio.Semaphore(concurrency)
    model = model or first_able(await client.models(), "transcribe").id

    async def ask(session: Session) -> Answer:
        async with gate:
            file = io.BytesIO()
            soundfile.write(file, session.pcm, RATE, format="WAV")
            language = session.language if tell_language else None
            began = time.monotonic()
            text = await client.transcribe_raw(
                file.getvalue(), "json", model=model, language=language
            )
            seconds = time.monotonic() - began
            answer = json.loads(text)
            found = answer.get("languages")
            return Answer(answer["text"], found[0]["code"] if found else None, seconds)

    await ask(sessions[0])
    with watch, counting(console, "utterances", len(sessions)) as advance:
        began = time.monotonic()

        async def counted(session: Session) -> Answer:
            answer = await ask(session)
            advance()
            return answer

        answers = await asyncio.gather(*(counted(session) for session in sessions))
        seconds = time.monotonic() - began
    return answers, seconds


def numbers(sessions: Sequence[Session], run: Run) -> Json:
    """Of one run: RTFx, latency, WER, memory, and what was heard."""
    errors = [s.errors(answer.text) for s, answer in zip(sessions, run.answers, strict=True)]
    seconds = audio_seconds(sessions)
    result: Json = {
        "utterances": len(sessions),
        "audio_seconds": round(seconds, 1),
        "rtfx": round(seconds / run.seconds, 2),
        "answer_s": metrics.summary([answer.seconds for answer in run.answers]),
        **wer_numbers(errors),
        "wer": wer_by_group(
            sessions, errors, [[a.language] if a.language else [] for a in run.answers]
        ),
        **run.usage,
    }
    if "cpu_seconds" in run.usage:
        result["audio_per_cpu_second"] = round(seconds / max(0.01, run.usage["cpu_seconds"]), 2)
    # All of them: the live benchmark measures its gap to these.
    result["heard"] = {s.name: a.text for s, a in zip(sessions, run.answers, strict=True)}
    return result


def tables(result: Json) -> Iterator[Table]:
    """Accuracy by group, then speed."""
    shown = Table(title=f"\n{result['name']}", title_justify="left", title_style="bold", box=None)
    for column in ("language", "voices", "utterances", "WER", "95 % interval", "language found"):
        shown.add_column(column, no_wrap=True)
    for r in result["wer"]:
        low, high = r["interval"]
        right = "-" if r["language_right"] is None else f"{r['language_right']:.1%}"
        cells = str(r["utterances"]), f"{r['wer']:.2%}", f"{low:.2%} - {high:.2%}", right
        shown.add_row(r["language"], r["voices"], *cells)
    yield shown
    speed = Table(box=None)
    for column in ("RTFx", "answer p50 s", "p95 s", "p99 s", "audio s per CPU s", "peak MiB"):
        speed.add_column(column, justify="right", no_wrap=True)
    speed.add_row(*(_cell(value) for value in _speed(result)))
    yield speed


def _speed(result: Json) -> list[Any]:
    seconds = result["answer_s"]
    keys = "audio_per_cpu_second", "peak_rss_mib"
    return [
        result["rtfx"],
        *(seconds.get(quantile) for quantile in ("p50", "p95", "p99")),
        *(result.get(key) for key in keys),
    ]


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


# --- command -------------------------------------------------------------------------------------


def main(argv: list[str]) -> int:
    """LookhearError."""
    parser = argparse.ArgumentParser(
        prog="lookhear bench offline",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server_arguments(parser, live=False)
    add_engine_arguments(parser)
    parser.add_argument(
        "--limit", type=at_least_one, metavar="N", help="utterances per language and split"
    )
    parser.add_argument("--language", metavar="CODE", help="only these recordings, and say so")
    parser.add_argument(
        "--condition",
        default="utterances",
        metavar="NAME",
        help="what they are made into, as of `bench human`; default: utterances",
    )
    parser.add_argument(
        "--minutes", type=above_zero, default=1.0, metavar="M", help="of each recording; default: 1"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=1,
        metavar="N",
        help="the utterances so many times, for recordings longer than all of them; default: 1",
    )
    parser.add_argument("--concurrency", type=int, default=4, metavar="N", help="default: 4")
    add_result_arguments(parser)
    options = parser.parse_args(argv)
    require_one_server(options)
    if options.concurrency < 1:
        raise UsageError(f"--concurrency: expected at least 1, got {options.concurrency}")
    if options.rounds < 1 or (options.rounds > 1 and options.condition == "utterances"):
        raise UsageError(
            "--rounds: expected at least 1, and 1 without a --condition that makes long "
            f"recordings; got {options.rounds}"
        )
    console, aside = consoles(options)
    about = begin(["offline", *argv])
    result: Json = {"scenario": "offline", **about}
    if options.engine:
        options.language = options.language or "en"  # an engine's process hears one language
        engines: Any = from_repository("peers.engines", "bench offline --engine")
        sessions = chosen(options)
        found = engines.engines_numbers(sessions, options, aside)
        result |= {"threads": options.threads, "engines": found}
    else:
        sessions = chosen(options)
        found = [numbers(sessions, _http(options, sessions, aside))]
        found[0] = {"name": options.server or "lookhear", **found[0]}
        result |= found[0]
    path = finish("offline-engines" if options.engine else "offline", result, options)
    if not options.json:
        for shown in itertools.chain.from_iterable(map(tables, found)):
            console.print(shown)
    aside.print(f"written to {path}", style="dim")
    return 0


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """What to measure instead of a server, in a checkout of the repository."""
    parser.add_argument(
        "--engine", nargs="+", metavar="NAME", help="measure these, in a checkout: lookhear, ..."
    )
    parser.add_argument("--checkpoint", type=Path, metavar="FOLDER", help="a Whisper's; the demo")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="of an engine; 2")


def chosen(options: argparse.Namespace) -> list[Session]:
    """The utterances that --limit and --language leave, as --condition makes them. UsageError."""
    found = held_out_sessions(options.data, options.limit)
    kept = [s for s in found if options.language in (None, s.language)]
    if not kept:
        raise UsageError(f"--language: no recordings in {options.language!r}")
    return composed(options.condition, kept * options.rounds, options.minutes, options.seed)


def _http(options: argparse.Namespace, sessions: Sequence[Session], console: Console) -> Run:
    with contextlib.ExitStack() as stack:
        url, watch = options.server, None
        if url is None:
            server = stack.enter_context(private_server(options, console))
            url = server.address.base_url
            watch = Watch(server.pid)
        client = AsyncClient(url, options.api_key)
        tell = options.language is not None
        model = options.model if options.server else None  # ours serves nothing else
        watched = watch or nullcontext()
        work = over_http(client, sessions, model, options.concurrency, tell, console, watched)
        answers, seconds = asyncio.run(work)
    return Run(answers, seconds, watch.totals() if watch else {})
