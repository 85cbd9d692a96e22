"""What is known inside pauses and at true ends: `python -m benchmarks.conversation.turn_evidence`.

The recordings of `benchmarks.conversation.turn_ends`. Smart Turn is asked in every silence as it
grows. With --model, the engine hears them live as one turn each, and tells how probably a sentence
ends there; then a logistic regression of both is fitted on English and tried on all else, or, where
there is but one language, on one half and the other: it is what
`lookhear.gateway.realtime.patience` decides by. All is written to the result file, so that rules
can be compared in seconds.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression

from benchmarks.conversation.turn_ends import Prompt, prompts, quiet, told_language
from benchmarks.in_process.simulation import Simulation
from lookhear.bench import machine
from lookhear.bench.measures.trace import RATE
from lookhear.bench.numbers import Json
from lookhear.bench.recordings.human import HUMAN
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import Event, Message, ModelCard, TextProvisional
from lookhear.gateway.realtime.listening.turn import HEARD
from lookhear.gateway.realtime.open_words import sentence_end
from lookhear.gateway.realtime.patience import CLOSING_FLOOR, Words, log_odds
from lookhear.gateway.services.turn_model import AUTO, downloaded
from lookhear.media.audio.resample import resample
from lookhear.media.voice import smart_turn
from lookhear.media.voice.smart_turn import SmartTurn
from lookhear.media.voice.vad import (
    SileroModel,
    SpeechPaused,
    SpeechStarted,
    VadConfig,
    VoiceDetector,
)

SILENCES_MS = (200, 400, 600, 800, 1000, 1200)
HEARD_MS = (smart_turn.SILENCE_MS, 100, *SILENCES_MS)  # of silence that the classifier hears
LONGEST_MS = 4400  # of silence: no pause ends a turn
EARLY = 0.35  # seconds that silence may begin before the estimate of the last word's end
TOLERANCE = 0.25  # the same, before the place of a pause


class Overheard:
    """An engine core, and what it guessed."""

    def __init__(self, core: EngineCore) -> None:
        self._core = core
        self.guesses: list[TextProvisional] = []

    @property
    def has_work(self) -> bool:
        """Of the core."""
        return self._core.has_work

    def submit(self, message: Message) -> None:
        """To the core."""
        self._core.submit(message)

    def step(self) -> list[Event]:
        """Of the core."""
        events = self._core.step()
        self.guesses += [event for event in events if isinstance(event, TextProvisional)]
        return events


def evidence(said: Prompt, voice: SileroModel, model: SmartTurn) -> list[Json]:
    """Of each silence: what it is (`pause`, `end` or the speaker's `own`), where in the turn it
    begins, in samples at 16 kHz, and the classifier's answers in it."""
    wave = resample(said.pcm.astype(np.float32) / 32768.0, RATE, smart_turn.RATE)
    detector = VoiceDetector(
        voice, VadConfig(silence_duration_ms=LONGEST_MS, pauses_ms=SILENCES_MS)
    )
    begun = 0
    found: list[Json] = []
    for event in detector.feed(wave):
        if isinstance(event, SpeechStarted):
            begun = event.sample
        if not isinstance(event, SpeechPaused):
            continue
        sample = event.sample - event.milliseconds * smart_turn.RATE // 1000
        if event.milliseconds == SILENCES_MS[0]:
            seconds = round(sample / smart_turn.RATE, 3)
            kind, place = _kind(said, seconds), sample - begun
            found.append({"kind": kind, "from": seconds, "turn_sample": place, "over": {}})
        overs: dict[str, float] = found[-1]["over"]
        for heard in HEARD_MS:
            if heard <= event.milliseconds and str(heard) not in overs:
                [over] = model.judge([wave[begun : sample + heard * smart_turn.RATE // 1000]])
                overs[str(heard)] = round(over, 4)
    about = {"name": said.name, "language": said.language, "held_out": said.held_out}
    return [{**about, **silence} for silence in found]


def _kind(said: Prompt, seconds: float) -> str:
    if any(begin - TOLERANCE <= seconds < end for begin, end in said.pauses):
        return "pause"
    return "end" if seconds > said.end - EARLY else "own"


def add_words(said: Prompt, silences: list[Json], core: EngineCore, card: ModelCard) -> None:
    """How probably a sentence ends in front of each silence, by the first guess that has heard it:
    `ended`, `closing`, and what of it is not committed: `text`; where there is none, nothing."""
    overheard = Overheard(core)
    Simulation(
        overheard,  # type: ignore[arg-type]
        card,
        LONGEST_MS,
        told_language(card, said),
    ).run(said.name, said.pcm)
    for silence in silences:
        wanted = silence["turn_sample"] + HEARD
        heard = [guess for guess in overheard.guesses if guess.heard >= wanted]
        if heard:
            told = sentence_end(heard[0].text, Words(heard[0].ended, heard[0].closing))
            silence["ended"], silence["text"] = round(told.ended, 4), heard[0].text
            silence["closing"] = None if told.closing is None else round(told.closing, 4)


def ranked(pauses: list[float], ends: list[float]) -> float:
    """How often a true end has more than a pause has; 0.5: it tells nothing."""
    above = np.subtract.outer(np.array(ends), np.array(pauses))
    return float(np.mean((above > 0) + 0.5 * (above == 0)))


def regression(silences: list[Json]) -> Json:
    """Of the end of a turn, on log odds of sound, sign and closing."""
    known = [one for one in silences if one["kind"] != "own" and one.get("closing") is not None]
    if not known:  # a model that does not tell it
        known = [one for one in silences if one["kind"] != "own" and "ended" in one]
    first = str(HEARD_MS[0])
    odds = np.array(
        [
            [
                log_odds(one["over"][first]),
                log_odds(one["ended"]),
                log_odds(one["closing"] or 0.0, CLOSING_FLOOR),
            ]
            for one in known
        ]
    )
    ends = np.array([one["kind"] == "end" for one in known])
    languages = {one["language"] for one in known}
    told = [one["language"] != "en" if len(languages) > 1 else one["held_out"] for one in known]
    held_out = np.array(told)

    def fitted(columns: slice) -> tuple[list[float], NDArray[np.float64]]:
        model = LogisticRegression(C=10.0).fit(odds[~held_out, columns], ends[~held_out])
        scores = model.decision_function(odds[:, columns])
        return [round(float(x), 2) for x in (*model.intercept_, *model.coef_[0])], scores

    found: Json = {"silences": len(known)}
    for name, columns in (("by_sound", slice(1)), ("by_both", slice(2)), ("by_all", slice(3))):
        weights, scores = fitted(columns)
        pauses, true = scores[held_out & ~ends], scores[held_out & ends]
        half = float(np.median(true)) if len(true) else 0.0
        found[name] = {
            "weights": weights,
            "told_apart_held_out": round(ranked(list(pauses), list(true)), 3),
            "pauses_percent_above_half_of_the_ends": round(float(100 * np.mean(pauses >= half)), 1),
        }
    return found


def main(argv: list[str]) -> int:
    """Asks, prints and writes; exit status 0."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.conversation.turn_evidence", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--turn-model", default=AUTO, metavar="auto|FILE")
    parser.add_argument("--model", default=None, help="whose words are looked at (default: none)")
    parser.add_argument("--data", type=Path, default=HUMAN, help="recordings (default: people's)")
    parser.add_argument("--places", default=None, help="the model that says where words are")
    parser.add_argument("--lang", default=None, help="of the recordings, alone")
    parser.add_argument("--limit", type=int, default=None, help="recordings per language")
    parser.add_argument("--seed", type=int, default=0)
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    about = machine.describe(["benchmarks.conversation.turn_evidence", *argv])
    path = downloaded() if options.turn_model == AUTO else Path(options.turn_model)
    voice, model = SileroModel(), SmartTurn(path)
    said = prompts(options.data, options.limit, options.seed, options.lang, options.places)
    built = None
    if options.model is not None:
        built = build_core(EngineConfig(model=options.model, threads=1), quiet)
    silences: list[Json] = []
    for one in said:
        found = evidence(one, voice, model)
        if built is not None:
            add_words(one, found, built.core, built.card)
        silences += found
    console = Console(highlight=False)
    table = Table("silence", "pauses", "median", "ends", "median", "told apart")
    measures = [(f"{ms} ms", _sounds(silences, ms)) for ms in HEARD_MS]
    result: Json = {**about, "words_of": options.model, "silences": silences}
    if built is not None:
        measures.append(("sign", _of(silences, "ended")))
        told = [one for one in silences if one.get("closing") is not None]
        measures.append(("closing", _of(told, "closing")))
        result["regression"] = regression(silences)
    for name, (pauses, ends) in measures:
        if pauses and ends:
            medians = [f"{np.median(values):.2f}" for values in (pauses, ends)]
            apart = f"{ranked(pauses, ends):.2f}"
            table.add_row(name, str(len(pauses)), medians[0], str(len(ends)), medians[1], apart)
    console.print(table)
    if "regression" in result:
        console.print(result["regression"])
    written = write_result(options, "turn_evidence", result)
    console.print(f"written to {written}", style="dim")
    return 0


def _sounds(silences: list[Json], milliseconds: int) -> tuple[list[float], list[float]]:
    key = str(milliseconds)
    asked = [{**one, "sound": one["over"][key]} for one in silences if key in one["over"]]
    return _of(asked, "sound")


def _of(silences: list[Json], name: str) -> tuple[list[float], list[float]]:
    """Of pauses, of ends."""
    pauses, ends = (
        [one[name] for one in silences if one["kind"] == kind and name in one]
        for kind in ("pause", "end")
    )
    return pauses, ends


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
