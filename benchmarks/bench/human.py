"""`lookhear bench human`: people's voices, by file and live, for real models.

Recordings of people are fetched once (25 MB from Debian's archive) and strung together. Text is
compared as Whisper's authors do: "press 1" is "press one". Conditions:

utterances  each recording by itself, 2 to 17 s
pauses      recordings of --minutes, pauses of 0.3 to 1.5 s between the utterances
joined      the same without pauses
interludes  pauses, and after every fourth utterance noise or music
noise-20    pauses, with pink noise 20 dB below the speech
noise-10    the same, 10 dB
telephone   pauses, over a line of 8 kHz in mu-law
television  pauses, and somebody who speaks on and on 15 dB below
mixed       pauses, and behind one to three utterances another language
nobody      silence, noises, hum, clicks, chords: every word is one too many
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console

from lookhear.bench import human_table
from lookhear.bench.generator import Target, generate
from lookhear.bench.measures import metrics
from lookhear.bench.measures.spelling import spelled
from lookhear.bench.measures.trace import RATE, Trace
from lookhear.bench.measures.wording import written_alike
from lookhear.bench.numbers import Json, live_numbers, wer_numbers
from lookhear.bench.offline import over_http
from lookhear.bench.processes import Watch
from lookhear.bench.recordings.composed import pcm
from lookhear.bench.recordings.conditions import CONDITIONS, MIXED, by_turns
from lookhear.bench.recordings.human import HUMAN
from lookhear.bench.recordings.session import Session, audio_seconds
from lookhear.bench.recordings.sounds import NOBODY
from lookhear.bench.recordings.speech import crowd, held_out_sessions
from lookhear.bench.result_file import add_file_arguments
from lookhear.bench.subject import (
    WARM_UP_SECONDS,
    above_zero,
    add_server_arguments,
    at_least_one,
    begin,
    consoles,
    finish,
    require_one_server,
    target,
)
from lookhear.client import AsyncClient
from lookhear.errors import UsageError
from lookhear.results import first_able
from lookhear.wer import WordErrors

BURST = 1e6  # times the speed of speech: as fast as the socket takes it
NOBODY_SECONDS = 30.0  # of each sound, per --minutes
USUAL = ["pauses", "nobody"]
OTHERS = [MIXED, "nobody"]  # not of one language


@dataclass(frozen=True, slots=True)
class Subject:
    """One server, heard by file and live. model: None for its own choice."""

    target: Target
    client: AsyncClient
    console: Console
    options: argparse.Namespace

    def files(self, sessions: Sequence[Session]) -> tuple[list[str], float]:
        """What it makes of them as files, one after the other, and the seconds that took."""
        model, tell = self.target.model, self.options.tell_language
        work = over_http(
            self.client, sessions, model, 1, tell, self.console, contextlib.nullcontext()
        )
        answers, seconds = asyncio.run(work)
        return [answer.text for answer in answers], seconds

    def untold(self) -> Subject:
        """The same, that is told no language."""
        return replace(
            self, options=argparse.Namespace(**{**vars(self.options), "tell_language": False})
        )

    def live(self, sessions: Sequence[Session], pace: float = 1.0) -> list[Trace]:
        """Sessions of the default settings: server VAD."""
        return generate(
            self.target,
            sessions,
            self.options.sessions,
            self.console,
            seed=self.options.seed,
            tell_language=self.options.tell_language,
            pace=pace,
            near_field=self.options.near_field,
        )


# --- what is measured ----------------------------------------------------------------------------


def spoken_numbers(subject: Subject, sessions: Sequence[Session]) -> Json:
    """Of one condition in one language: `file`, and unless they are not wanted `live`, `burst`."""
    options = subject.options
    texts, seconds = subject.files(sessions)
    rtfx = round(audio_seconds(sessions) / seconds, 2)
    whole = _parts(sessions, texts)
    result: Json = {
        "recordings": len(sessions),
        "audio_seconds": round(audio_seconds(sessions), 1),
        "file": {**wer_numbers(whole.values()), "rtfx": rtfx, "heard": texts},
    }
    if not options.file_only:
        traces = subject.live(sessions)
        result["live"] = live_numbers(sessions, traces)
        result["live"] |= _against(sessions, traces, texts, whole)
        paced = _parts(sessions, result["live"]["heard"])
        if options.burst:
            traces = subject.live(sessions, BURST)
            heard = [metrics.hypothesis(trace) for trace in traces]
            burst = _parts(sessions, heard)
            result["burst"] = {
                **wer_numbers(burst.values()),
                "gap_to_paced": metrics.paired_gap(burst, paced),
                "overtakings": sum(map(metrics.overtakings, traces)),
                "violations": [line for t in traces for line in metrics.invariant_violations(t)],
                "heard": heard,
            }
    return result


def _parts(sessions: Sequence[Session], texts: Sequence[str]) -> dict[str, WordErrors]:
    """Errors of every utterance, by a name of its own."""
    return {
        f"{session.name}/{number}": errors
        for session, text in zip(sessions, texts, strict=True)
        for number, errors in enumerate(session.part_errors(text))
    }


def _against(
    sessions: Sequence[Session],
    traces: Sequence[Trace],
    texts: Sequence[str],
    whole: dict[str, WordErrors],
) -> Json:
    """Live against the file of the same recordings."""
    heard = [metrics.hypothesis(trace) for trace in traces]
    alike = [written_alike(text, live) for text, live in zip(texts, heard, strict=True)]
    spoken = [
        (turn, session.language_at((turn.start + (turn.end or turn.start)) / 2))
        for session, trace in zip(sessions, traces, strict=True)
        for turn in metrics.turns(trace)
        if turn.text
    ]
    found = [turn.language for turn, _ in spoken]
    return {
        "gap_to_file": metrics.paired_gap(_parts(sessions, heard), whole),
        "sentences_alike": sum(same for same, _ in alike),
        "sentences": sum(count for _, count in alike),
        "overtakings": sum(map(metrics.overtakings, traces)),
        "languages": {str(code): found.count(code) for code in sorted(set(found), key=str)},
        "languages_right": sum(turn.language == code for turn, code in spoken),
        "heard": heard,
    }


def nobody_numbers(subject: Subject) -> Json:
    """Words that were written where nobody speaks: by sound, of the file and live."""
    draw = np.random.default_rng(subject.options.seed)
    seconds = NOBODY_SECONDS * subject.options.minutes
    sessions = [
        Session(name, pcm(make(seconds, draw) * level), "", (), "")
        for name, (make, level) in NOBODY.items()
    ]
    plain = subject.untold()  # there is none
    texts, _ = plain.files(sessions)
    heard = {"file": texts}
    if not subject.options.file_only:
        heard["live"] = [metrics.hypothesis(trace) for trace in plain.live(sessions)]
    result: Json = {"recordings": len(sessions), "audio_seconds": seconds * len(sessions)}
    for way, found in heard.items():
        by_sound = dict(zip(NOBODY, found, strict=True))
        counts = {name: len(spelled(text, "")) for name, text in by_sound.items()}
        result[way] = {"words": sum(counts.values()), "by_sound": counts, "heard": by_sound}
    return result


def filled(sessions: list[Session], at_once: int) -> list[Session]:
    """As many again, as other speakers, as it takes for `at_once` of them from first to last."""
    missing = -len(sessions) % at_once
    others = crowd(sessions[0], missing + 1)[1:]  # the first is itself
    return sessions + others


# --- command -------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """Of `lookhear bench human`."""
    found = argparse.ArgumentParser(
        prog="lookhear bench human",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument(
        "conditions", nargs="*", metavar="CONDITION", help=f"or all; default: {' '.join(USUAL)}"
    )
    add_server_arguments(found)
    found.add_argument("--lang", nargs="+", metavar="CODE", help="default: all; en of an .en model")
    found.add_argument("--sessions", type=int, default=1, metavar="N", help="at once; default: 1")
    found.add_argument(
        "--minutes", type=above_zero, default=1.0, metavar="M", help="of each recording; default: 1"
    )
    found.add_argument(
        "--limit", type=at_least_one, metavar="N", help="recordings of each language"
    )
    found.add_argument("--tell-language", action="store_true", help="nothing has to be detected")
    found.add_argument("--file-only", action="store_true", help="no live sessions")
    found.add_argument(
        "--near-field",
        action="store_true",
        help="live: who is far from the microphone is not heard",
    )
    found.add_argument("--burst", action="store_true", help="live also as fast as the server reads")
    found.add_argument(
        "--data",
        type=Path,
        default=HUMAN,
        metavar="FOLDER",
        help="manifest.json and the audio it names; default: human, which is fetched",
    )
    found.add_argument("--seed", type=int, default=0, help="of pauses, noises and phases")
    add_file_arguments(found)
    found.add_argument("--json", action="store_true", help="print results as JSON, no tables")
    return found


def main(argv: list[str]) -> int:
    """LookhearError."""
    options = parser().parse_args(argv)
    require_one_server(options)
    names = options.conditions or USUAL
    for name in names:
        if names != ["all"] and name not in (*CONDITIONS, *OTHERS):
            known = ", ".join([*CONDITIONS, *OTHERS])
            raise UsageError(f"condition: expected one of {known}, got {name!r}")
    if options.sessions < 1 or options.minutes <= 0:
        raise UsageError("--sessions, --minutes: expected more than 0")
    console, aside = consoles(options)
    utterances = held_out_sessions(options.data)
    by_language = {code: [u for u in utterances if u.language == code] for code in spoken(options)}
    by_language = {code: said for code, said in by_language.items() if said}
    if not by_language:
        raise UsageError(f"--lang: no recordings in {' or '.join(options.lang)}")
    if names == ["all"]:
        names = [*CONDITIONS, *(name for name in OTHERS if name != MIXED or len(by_language) > 1)]
    if MIXED in names and len(by_language) < 2:
        raise UsageError(f"{MIXED}: expected recordings in two languages, got {list(by_language)}")
    result: Json = {"scenario": "human", **begin(["human", *argv]), "conditions": []}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(target(options, aside))
        client = AsyncClient(server.address, server.api_key)
        subject = Subject(server, client, aside, options)
        result["model"] = options.model or first_able(asyncio.run(client.models()), "transcribe").id
        first = next(iter(by_language.values()))[0]
        start = replace(first, pcm=first.pcm[: int(WARM_UP_SECONDS * RATE)])
        generate(server, crowd(start, 2), 2, aside)  # does not count
        watch = stack.enter_context(Watch(server.pid)) if server.pid else None
        for name in names:
            if name == "nobody":
                result["conditions"].append({"condition": name, **nobody_numbers(subject)})
                continue
            seconds, told = 60 * options.minutes, subject
            if name == MIXED:
                made = {"+".join(by_language): by_turns(by_language, seconds, options.seed)}
                told = subject.untold()
            else:
                compose = CONDITIONS[name]
                made = {
                    code: compose(said, seconds, options.seed) for code, said in by_language.items()
                }
            for code, composed in made.items():
                aside.print(f"{name}, {code}", style="bold")
                sessions = filled(composed[: options.limit], options.sessions)
                numbers = spoken_numbers(told, sessions)
                result["conditions"].append({"condition": name, "language": code, **numbers})
    result |= watch.totals() if watch else {}
    path = finish("human", result, options)
    if not options.json:
        for table in human_table.tables(result):
            console.print(table)
    aside.print(f"written to {path}", style="dim")
    return 0


def spoken(options: argparse.Namespace) -> list[str]:
    """The languages that --lang names, else those that the model can."""
    if options.lang:
        return list(options.lang)
    english_only = (options.model or "").rstrip("/").endswith(".en")
    return ["en"] if english_only else sorted({u.language for u in held_out_sessions(options.data)})
