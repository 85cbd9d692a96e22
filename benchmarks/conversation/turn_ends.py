"""Whether turns end where people end them: `python -m benchmarks.conversation.turn_ends`.

Recordings of people; between their words, but not behind a sentence, stands a pause of 0.3 to
1.5 s. A turn that ends in such a pause is wrongly ended. Behind the last word it is silent for
long: how soon is that found? By server VAD and by semantic VAD of each eagerness, in process on the
audio's own clock, so that neither depends on the machine. With --model the words join in. Of
people's recordings only the text is known: --places names a model that says where its words are.

Weights and thresholds were chosen on English: other languages tell how well they hold.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.in_process.simulation import Simulation
from benchmarks.in_process.turn_places import heard, known, quiet_places
from lookhear.bench import machine
from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import RATE, Trace
from lookhear.bench.numbers import Json
from lookhear.bench.recordings.human import HUMAN
from lookhear.bench.recordings.session import Session
from lookhear.bench.recordings.speech import held_out_sessions
from lookhear.bench.recordings.word_times import speech
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import Event, Message, ModelCard
from lookhear.gateway.realtime.patience import Eagerness
from lookhear.gateway.services.turn_model import AUTO, downloaded
from lookhear.media.voice.silero import SileroModel
from lookhear.media.voice.smart_turn import SmartTurn

PAUSES = (0.3, 1.5)  # seconds
MOST_PAUSES = 2  # of a recording
LEAD, TAIL = 0.3, 4.5  # seconds without speech, in front and behind
LEAST_NOISE = 1e-3  # of full scale
EAGERNESSES: tuple[Eagerness, ...] = ("low", "auto", "high")
Pcm = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one session says. pauses: from, to; end: of the last word; all in seconds."""

    name: str
    language: str
    pcm: Pcm
    pauses: tuple[tuple[float, float], ...]
    end: float
    held_out: bool


class Deaf:
    """An engine core for sessions whose words do not matter: it hears nothing."""

    has_work = False

    def submit(self, message: Message) -> None:
        """Forgotten."""

    def step(self) -> list[Event]:
        """Nothing happens."""
        return []


class Metered(SmartTurn):
    """Counts what it is asked, and the processor's seconds."""

    asked = 0
    seconds = 0.0

    def judge(self, heard: Sequence[NDArray[np.float32]]) -> list[float]:
        """See `TurnModel`."""
        before = time.thread_time()
        found = super().judge(heard)
        self.asked += len(heard)
        self.seconds += time.thread_time() - before
        return found


def prompt(
    session: Session, inner: Sequence[float], draw: np.random.Generator, *, held_out: bool
) -> Prompt:
    """The recording with pauses in it, at some of these places. They sound as its quietest tenth
    does."""
    wave = session.pcm.astype(np.float32) / 32768.0
    end = speech(wave, RATE)[-1][1]
    wave = wave[: round((end + 0.1) * RATE)]
    count = min(MOST_PAUSES, len(inner) // 2)
    places = sorted(draw.choice(inner, size=count, replace=False)) if count else []
    pieces, pauses = [np.zeros(round(LEAD * RATE), np.float32)], []
    done, shift = 0, LEAD
    for place in places:
        cut = round(place * RATE)
        if not done + RATE // 5 <= cut <= len(wave) - RATE // 5:
            continue
        seconds = float(draw.uniform(*PAUSES))
        pieces += [wave[done:cut], np.zeros(round(seconds * RATE), np.float32)]
        pauses.append((cut / RATE + shift, cut / RATE + shift + seconds))
        done, shift = cut, shift + seconds
    pieces += [wave[done:], np.zeros(round(TAIL * RATE), np.float32)]
    frames = wave[: len(wave) // 480 * 480].reshape(-1, 480)
    level = max(float(np.sqrt(np.percentile((frames**2).mean(axis=1), 10))), LEAST_NOISE)
    whole = np.concatenate(pieces)
    whole += draw.standard_normal(len(whole)).astype(np.float32) * np.float32(level)
    pcm = (np.clip(whole, -1.0, 1.0) * 32767.0).astype("<i2")
    return Prompt(session.name, session.language, pcm, tuple(pauses), end + shift, held_out)


def prompts(
    folder: Path, limit: int | None, seed: int, language: str | None, places: str | None
) -> list[Prompt]:
    """Of one language, or of all. Every other one is held out. places: a model's name, see
    `main`."""
    found: list[Prompt] = []
    seen: dict[str, int] = {}
    gaps = known
    if places is not None:
        built, voice = build_core(EngineConfig(model=places, threads=1), quiet), SileroModel()
        gaps = partial(heard, core=built.core, card=built.card, voice=voice)
    for number, session in enumerate(held_out_sessions(folder)):
        if language not in (None, session.language):
            continue
        count = seen[session.language] = seen.get(session.language, 0) + 1
        if limit is None or count <= limit:
            draw = np.random.default_rng([seed, number])
            inner = quiet_places(session, gaps(session))
            found.append(prompt(session, inner, draw, held_out=count % 2 == 0))
    return found


def ends(trace: Trace) -> list[float]:
    """When the client was told that a turn is over, in seconds of its clock."""
    kind = "input_audio_buffer.speech_stopped"
    return [at for at, frame in trace.events if frame["type"] == kind]


def numbers(said: Sequence[Prompt], found: Sequence[Sequence[float]]) -> Json:
    """found: the ends of each one's turns."""
    pauses = wrong = 0
    delays: list[float] = []
    for one, told in zip(said, found, strict=True):
        pauses += len(one.pauses)
        wrong += sum(any(begin < at <= end for at in told) for begin, end in one.pauses)
        # The classifier may be right before the estimate of the last word's end.
        after = [at - one.end for at in told if at > one.end - 0.3]
        delays += after[-1:]
    return {
        "prompts": len(said),
        "pauses": pauses,
        "wrongly_ended_percent": round(100 * wrong / max(pauses, 1), 1),
        "found_after_seconds": metrics.summary(delays),
    }


def measure(
    said: Sequence[Prompt],
    eagerness: Eagerness | None,
    core: EngineCore,
    card: ModelCard,
    model: Metered,
) -> Json:
    """One condition: of all, of each language."""
    asked, seconds = model.asked, model.seconds
    found = []
    for one in said:
        simulation = Simulation(
            core,
            card,
            500 if eagerness is None else None,
            told_language(card, one),
            eagerness=eagerness,
            turn_model=model if eagerness is not None else None,
        )
        found.append(ends(simulation.run(one.name, one.pcm)))

    def part(wanted: Callable[[Prompt], bool]) -> Json:
        pairs = [pair for pair in zip(said, found, strict=True) if wanted(pair[0])]
        return numbers([one for one, _ in pairs], [told for _, told in pairs])

    turns = sum(map(len, found))
    return {
        "all": part(lambda one: True),
        **{
            language: part(partial(_speaks, language=language))
            for language in dict.fromkeys(one.language for one in said)
        },
        "questions_per_turn": round((model.asked - asked) / max(turns, 1), 2),
        "cpu_milliseconds_per_turn": round(1000 * (model.seconds - seconds) / max(turns, 1), 1),
    }


def told_language(card: ModelCard, said: Prompt) -> str | None:
    """What a client would tell of it: nothing to a model that knows just one."""
    return said.language if said.language in card.languages else None


def _speaks(one: Prompt, language: str) -> bool:
    return one.language == language


def main(argv: list[str]) -> int:
    """Measures, prints and writes; exit status 0."""
    parser = argparse.ArgumentParser(prog="benchmarks.conversation.turn_ends", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--turn-model", default=AUTO, metavar="auto|FILE")
    parser.add_argument("--model", default=None, help="whose words join in (default: none's)")
    parser.add_argument("--data", type=Path, default=HUMAN, help="recordings (default: people's)")
    parser.add_argument("--places", default=None, help="the model that says where words are")
    parser.add_argument("--lang", default=None, help="of the recordings, alone")
    parser.add_argument("--eagerness", choices=EAGERNESSES, nargs="*", default=EAGERNESSES)
    parser.add_argument("--limit", type=int, default=None, help="recordings per language")
    parser.add_argument("--seed", type=int, default=0)
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    console = Console(highlight=False)
    about = machine.describe(["benchmarks.conversation.turn_ends", *argv])
    path = downloaded() if options.turn_model == AUTO else Path(options.turn_model)
    model = Metered(path)
    said = prompts(options.data, options.limit, options.seed, options.lang, options.places)
    if options.model is None:
        card = replace(build_core(EngineConfig(model="demo-whisper"), quiet).card, id="none")
        core: EngineCore = Deaf()  # type: ignore[assignment]
    else:
        built = build_core(EngineConfig(model=options.model, threads=1), quiet)
        core, card = built.core, built.card
    table = Table("", "prompts", "wrongly ended", "found p50", "p95", "questions", "CPU/turn")
    conditions: Json = {}
    for eagerness in (None, *options.eagerness):  # None: server VAD, 0.5 s
        name = f"semantic_vad {eagerness}" if eagerness else "server_vad 0.5 s"
        found = conditions[name] = measure(said, eagerness, core, card, model)
        for part, values in found.items():
            if isinstance(values, dict):
                after = values["found_after_seconds"]
                whole = part == "all"
                table.add_row(
                    name if whole else f"  {part}",
                    str(values["prompts"]),
                    f"{values['wrongly_ended_percent']} %",
                    f"{after.get('p50')} s",
                    f"{after.get('p95')} s",
                    str(found["questions_per_turn"]) if whole else "",
                    f"{found['cpu_milliseconds_per_turn']} ms" if whole else "",
                )
    console.print(table)
    result = {"scenario": "turn_ends", **about, "words_of": options.model, "conditions": conditions}
    written = write_result(options, "turn_ends", result)
    console.print(f"written to {written}", style="dim")
    return 0


def quiet(stage: str, share: float) -> None:
    """Loading is not shown."""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
