"""`python -m benchmarks.offline`: WER and language detection of whole utterances over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import soundfile
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks import machine, metrics
from benchmarks.dataset import DATA, Audio, Utterance, held_out
from benchmarks.trace import RATE
from lookhear.client import AsyncClient
from lookhear.display import progress
from lookhear.server import ServerProcess
from lookhear.wer import WordErrors, total, word_errors

RESULTS = Path(__file__).parent / "results"


async def transcribe_all(
    client: AsyncClient,
    utterances: list[Utterance],
    audio: Audio,
    concurrency: int,
    bars: Progress,
) -> list[tuple[str, str | None, float]]:
    """Per utterance: text, language found, and seconds until the answer."""
    gate = asyncio.Semaphore(concurrency)
    model = (await client.models())[0].id
    task = bars.add_task("held-out utterances", total=len(utterances))

    async def one(utterance: Utterance) -> tuple[str, str | None, float]:
        async with gate:
            file = io.BytesIO()
            soundfile.write(file, audio.of(utterance), RATE, format="WAV")
            began = time.monotonic()
            answer = json.loads(await client.transcribe_raw(file.getvalue(), "json", model=model))
            bars.advance(task)
            languages = answer.get("languages")
            code = languages[0]["code"] if languages else None
            return answer["text"], code, time.monotonic() - began

    return await asyncio.gather(*(one(utterance) for utterance in utterances))


def group_results(
    utterances: list[Utterance], answers: list[tuple[str, str | None, float]]
) -> list[dict[str, Any]]:
    """WER with its 95 % interval, and language detection, by language and voices."""
    groups: dict[tuple[str, str], list[tuple[WordErrors, bool]]] = {}
    for utterance, (text, language, _) in zip(utterances, answers, strict=True):
        errors = word_errors(utterance.text, text)
        key = utterance.language, utterance.split
        groups.setdefault(key, []).append((errors, language == utterance.language))
    results = []
    for (language, split), found in sorted(groups.items()):
        errors_list = [errors for errors, _ in found]
        corpus = total(errors_list)
        low, high = metrics.bootstrap_interval(errors_list)
        results.append(
            {
                "language": language,
                "voices": split,
                "utterances": len(found),
                "words": corpus.words,
                "wer": round(corpus.rate, 4),
                "interval": [round(low, 4), round(high, 4)],
                "language_right": round(sum(right for _, right in found) / len(found), 4),
            }
        )
    return results


def table(results: list[dict[str, Any]]) -> Table:
    shown = Table(title="offline", title_justify="left", title_style="bold")
    for column in ("language", "voices", "utterances", "WER", "95 % interval", "language found"):
        shown.add_column(column)
    for r in results:
        low, high = r["interval"]
        numbers = f"{r['wer']:.2%}", f"{low:.2%} - {high:.2%}", f"{r['language_right']:.1%}"
        shown.add_row(r["language"], r["voices"], str(r["utterances"]), *numbers)
    return shown


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.offline", description=__doc__)
    parser.add_argument("--server", metavar="URL", help="measure this one, do not start any")
    parser.add_argument("--serve", default="", metavar="ARGS", help="for our own `lookhear serve`")
    parser.add_argument("--limit", type=int, metavar="N", help="utterances per language and split")
    parser.add_argument("--data", type=Path, default=DATA, help="made by engine.demo.fixtures")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--label", default="", help="added to the name of the result file")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    console = Console(highlight=False)
    about = machine.describe(["benchmarks.offline", *argv])
    utterances = held_out(options.data, options.limit)
    with contextlib.ExitStack() as stack:
        url = options.server
        if url is None:
            with progress(console, "starting the server") as show:
                process = ServerProcess(0, options.serve.split(), show)
                url = stack.enter_context(process).address.base_url
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
        with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
            audio = Audio(options.data)
            client = AsyncClient(url)
            work = transcribe_all(client, utterances, audio, options.concurrency, bars)
            answers = asyncio.run(work)
    results = group_results(utterances, answers)
    seconds = metrics.summary([seconds for _, _, seconds in answers])
    result = {"scenario": "offline", **about, "wer": results, "answer_s": seconds}
    # All of them: the live benchmark measures its gap to these.
    result["heard"] = {u.name: text for u, (text, _, _) in zip(utterances, answers, strict=True)}
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"offline{options.label and '-' + options.label}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
    console.print(table(results))
    console.print(f"written to {path}", style="dim")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
