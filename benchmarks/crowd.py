"""Many at once in one engine, each compared with itself alone: `python -m benchmarks.crowd`.

Live turns and files in one core, one thread. By default on the scripted clock: audio arrives in
real-time order, computing takes no time, so the ticks of a session are those it has when alone, and
its text must be the same, token for token. With --paced audio arrives by the real clock, computing
makes it wait, and ticks fall where they can: then lag, lateness and drops are what counts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.in_process.sessions import PIECE, Meter, Speech, block_errors
from lookhear.bench import machine
from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import RATE, Trace
from lookhear.bench.measures.utterances import latencies
from lookhear.bench.recordings.dataset import Audio, long_recordings
from lookhear.bench.result_file import add_file_arguments, write_result
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    EndTurn,
    Event,
    FileFailed,
    FileTranscribed,
    Message,
    StartTurn,
    TextCommitted,
    TranscribeFile,
    TranscriptionSettings,
    TurnCompleted,
    TurnFailed,
)
from lookhear.media.voice.vad import SileroModel
from lookhear.wer import total

Json = dict[str, Any]
# On the scripted clock guests arrive at multiples of this, which is how often a session ticks: so
# the ticks of all fall together, and batches are as large as they can be.
GRID = 0.25  # seconds
_TRANSCRIPTION = "conversation.item.input_audio_transcription."


@dataclass(slots=True)
class Guest:
    """A live turn (or a file: all its audio at once). arrival: seconds on the crowd's clock."""

    speech: Speech
    arrival: float
    is_file: bool
    trace: Trace = field(init=False)
    text: str | None = None
    problem: str | None = None

    def __post_init__(self) -> None:
        self.trace = Trace(self.name, close_code=1000)

    @property
    def name(self) -> str:
        """Of what it says."""
        return self.speech.name

    def messages(self, settings: TranscriptionSettings) -> list[tuple[float, Message, int]]:
        """(when due, message, pieces of audio that are said by then)."""
        name, at = self.name, self.arrival
        if self.is_file:
            return [(at, TranscribeFile(name, settings, self.speech.samples()), 0)]
        found: list[tuple[float, Message, int]] = [(at, StartTurn(name, "turn", settings), 0)]
        for number in range(self.speech.num_pieces):
            samples, voiced = self.speech.piece(number)
            due = round(at + (number + 1) * PIECE / SAMPLE_RATE, 6)
            found.append((due, AppendAudio(name, "turn", samples, voiced), number + 1))
        found.append((found[-1][0], EndTurn(name, "turn"), 0))
        return found

    def sent(self, now: float, num_pieces: int) -> None:
        """Writes down that its audio up to so many pieces went in now."""
        if num_pieces:
            end = num_pieces * PIECE * RATE // SAMPLE_RATE
            self.trace.packets.append((now - self.arrival, end))

    def heard(self, event: Event, now: float) -> None:
        """As the wire would have it, for the metrics."""
        at, item = now - self.arrival, {"item_id": "turn"}
        match event:
            case TextCommitted():
                self._add(at, {"type": _TRANSCRIPTION + "delta", "delta": event.text, **item})
            case TurnCompleted():
                self.text = event.text
                kind = _TRANSCRIPTION + "completed"
                self._add(at, {"type": kind, "transcript": event.text, **item})
            case FileTranscribed():
                self.text = event.text
            case TurnFailed() | FileFailed():
                self.problem = f"{event.code}: {event.message}"

    def _add(self, at: float, frame: Json) -> None:
        self.trace.events.append((at, frame))


class Room:
    """One core and who is in it."""

    def __init__(self, core: EngineCore, settings: TranscriptionSettings) -> None:
        self._core = core
        self._settings = settings
        self.meter = Meter()
        self.late: list[float] = []  # seconds that messages waited for a step to end

    def scripted(self, guests: Sequence[Guest]) -> None:
        """Computing takes no time: what is due together goes in, then all of it is worked off."""
        queue = self._queue(guests)
        at = 0
        while at < len(queue):
            now = queue[at][0]
            with self.meter.running():
                while at < len(queue) and queue[at][0] <= now:
                    self._submit(queue[at], now)
                    at += 1
                while self._core.has_work:
                    self._hand_out(guests, now)

    def paced(self, guests: Sequence[Guest]) -> None:
        """By the clock."""
        queue = self._queue(guests)
        at, start = 0, time.perf_counter()
        while at < len(queue) or self._core.has_work:
            now = time.perf_counter() - start
            with self.meter.running():
                while at < len(queue) and queue[at][0] <= now:
                    self._submit(queue[at], now)
                    self.late.append(now - queue[at][0])
                    at += 1
                if self._core.has_work:
                    events = self._core.step()
                    for event in events:
                        _guest_of(event, guests).heard(event, time.perf_counter() - start)
                    continue
            if at < len(queue):
                time.sleep(max(0.0, queue[at][0] - (time.perf_counter() - start)))

    def _queue(self, guests: Sequence[Guest]) -> list[tuple[float, Message, int, Guest]]:
        found = [
            (due, message, pieces, guest)
            for guest in guests
            for due, message, pieces in guest.messages(self._settings)
        ]
        return sorted(found, key=lambda entry: entry[0])

    def _submit(self, entry: tuple[float, Message, int, Guest], now: float) -> None:
        _, message, pieces, guest = entry
        self._core.submit(message)
        guest.sent(now, pieces)

    def _hand_out(self, guests: Sequence[Guest], now: float) -> None:
        for event in self._core.step():
            _guest_of(event, guests).heard(event, now)


def _guest_of(event: Event, guests: Sequence[Guest]) -> Guest:
    name = getattr(event, "session", None) or getattr(event, "request", "")
    return next(guest for guest in guests if guest.name == name)


def invited(options: argparse.Namespace) -> list[Guest]:
    """Each with a stretch of its own of the long recordings; live ones arrive within two seconds,
    files soon after."""
    audio, silero, rng = Audio(), SileroModel(), np.random.default_rng(options.seed)
    recordings, guests = long_recordings(), []
    for number in range(options.live + options.files):
        is_file = number >= options.live
        recording = recordings[number % len(recordings)]
        speech = Speech.of(
            recording,
            audio,
            silero,
            seconds=options.file_seconds if is_file else options.seconds,
            start=(number // len(recordings)) * 22.0,
            seed=number,
        )
        kind = "file" if is_file else "live"
        named = replace(speech, name=f"{kind} {number} {recording.language}")
        arrival = rng.uniform(2.0, 4.0) if is_file else rng.uniform(0.0, 2.0)
        if not options.paced:
            arrival = round(arrival / GRID) * GRID
        guests.append(Guest(named, arrival, is_file))
    return guests


def copies(guests: Sequence[Guest]) -> list[Guest]:
    """The same guests, who have said nothing yet."""
    return [Guest(guest.speech, guest.arrival, guest.is_file) for guest in guests]


def summary(guests: Sequence[Guest], room: Room, gained: dict[str, int]) -> Json:
    """Of one room."""
    live = [guest for guest in guests if not guest.is_file]
    errors = [e for g in guests for e in block_errors(g.speech.text, g.text or "")]
    audio = sum(guest.speech.seconds for guest in guests)
    lags = [lag for g in live for _, lag in latencies(g.trace, _within(g)).commit_lag]
    finals = [g.trace.events[-1][0] - g.speech.seconds for g in live if g.text is not None]
    return {
        "audio_seconds": round(audio, 1),
        "cpu_seconds": round(room.meter.cpu, 3),
        "wall_seconds": round(room.meter.wall, 3),
        "cpu_per_audio_second": round(room.meter.cpu / audio, 5),
        "steps": gained["steps"],
        "requests": gained["requests"],
        # Every running request is fed in every step, so its passes are the steps it is part of.
        "requests_per_step": round(gained["decoder_passes"] / max(1, gained["steps"]), 3),
        "passes_per_request": round(gained["decoder_passes"] / max(1, gained["requests"]), 3),
        "ticks_per_live_second": round(
            gained["requests"] / max(1.0, sum(g.speech.seconds for g in live)), 3
        ),
        "prompt_tokens_read": gained["prompt_tokens_read"],
        "prompt_tokens_found": gained["prompt_tokens_found"],
        "media_tokens_encoded": gained["media_tokens_encoded"],
        "drops": sum(guest.text is None for guest in guests),
        "problems": [f"{g.name}: {g.problem}" for g in guests if g.problem],
        "wer": round(total(errors).rate, 4),
        "wer_interval": [round(bound, 4) for bound in metrics.bootstrap_interval(errors)],
        "commit_lag_s": metrics.summary(lags),
        "final_s": metrics.summary(finals),
        "late_s": metrics.summary(room.late),
    }


def _within(guest: Guest) -> list[Any]:
    end = guest.trace.seconds
    return [word for word in guest.speech.said() if word.end < end]


def gained(core: EngineCore, before: dict[str, int]) -> dict[str, int]:
    """What the core's counters grew by."""
    return {name: count - before[name] for name, count in core.stats().items()}


def main(argv: list[str]) -> int:
    """Measures, prints and writes; exit status 0."""
    parser = argparse.ArgumentParser(prog="benchmarks.crowd", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="demo-qwen3-asr")
    parser.add_argument("--live", type=int, default=16, help="turns at once")
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each turn")
    parser.add_argument("--file-seconds", type=float, default=60.0, help="of each file")
    parser.add_argument("--paced", action="store_true", help="by the real clock")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", default=EngineConfig().dtype, help="of the weights")
    add_file_arguments(parser)
    options = parser.parse_args(argv)
    console = Console(highlight=False)
    about = machine.describe(["benchmarks.crowd", *argv])
    rows = max(16, options.live + options.files)
    config = EngineConfig(
        model=options.model,
        dtype=options.dtype,
        threads=1,
        max_rows=rows,
        max_live_turns=max(64, options.live),
    )
    settings = TranscriptionSettings(model=options.model)
    guests = invited(options)
    results: Json = {}
    core = build_core(config, lambda stage, share: None).core
    before, room = core.stats(), Room(core, settings)
    (room.paced if options.paced else room.scripted)(guests)
    core.check()
    results["together"] = summary(guests, room, gained(core, before))
    longest = max(guest.speech.seconds for guest in guests)
    results["together"]["real_time_factor"] = round(room.meter.wall / longest, 4)
    alone = copies(guests)
    core = build_core(config, lambda stage, share: None).core
    before, room = core.stats(), Room(core, settings)
    for guest in alone:
        room.scripted([guest])
    results["alone"] = summary(alone, room, gained(core, before))
    differing = [
        {"name": a.name, "alone": a.text, "together": b.text}
        for a, b in zip(alone, guests, strict=True)
        if a.text != b.text
    ]
    result: Json = {
        "scenario": "crowd",
        **about,
        "model": options.model,
        "dtype": options.dtype,
        "live": options.live,
        "files": options.files,
        "paced": options.paced,
        **results,
        "differing": differing,
    }
    path = write_result(options, "crowd-paced" if options.paced else "crowd", result)
    for name, row in results.items():
        console.print(
            f"{name}: {row['steps']} steps, {row['requests_per_step']:.2f} requests in each, "
            f"{row['cpu_per_audio_second']:.4f} s per second of audio, real-time factor "
            f"{row.get('real_time_factor', '-')}, drops {row['drops']}, WER {row['wer']:.2%}, "
            f"lag p95 {row['commit_lag_s'].get('p95')} s, final p95 {row['final_s'].get('p95')} s, "
            f"late p95 {row['late_s'].get('p95', '-')} s"
        )
    console.print(f"different from alone: {len(differing)} of {len(guests)}")
    console.print(f"written to {path}", style="dim")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
