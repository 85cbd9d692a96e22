"""The whole path in one process on the audio's own clock: `python -m benchmarks.simulate`.

Gateway protocol, voice detector, policies, scheduler and model are the real ones; sockets and
waiting are left out, and computing takes no time (the "computation-unaware" latencies of the
literature). So it is deterministic, runs much faster than speech, and shows what a policy costs
before the machine is added. For tuning; `lookhear bench live` measures the real thing.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import RATE, Trace
from lookhear.bench.measures.utterances import latencies
from lookhear.bench.recordings.dataset import DATA, Audio, Utterance, held_out, long_recordings
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.core import EngineCore
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    SAMPLE_RATE,
    FileTranscribed,
    ModelCard,
    TranscribeFile,
    TranscriptionSettings,
)
from lookhear.gateway.realtime.listening.audio_intake import AudioIntake
from lookhear.gateway.realtime.openai.dialect import OpenAIDialect
from lookhear.gateway.realtime.openai.parsing import parse_client_event
from lookhear.gateway.realtime.protocol.outputs import Output, ResetIntake, Send, Submit, Tune
from lookhear.gateway.realtime.session.machine import RealtimeProtocol
from lookhear.media.audio.resample import resample
from lookhear.media.voice.stretches import speech_stretches
from lookhear.media.voice.vad import SileroModel
from lookhear.wer import total, word_errors

CHUNK = RATE // 50  # 20 ms
TAIL = RATE * 6 // 5  # silence after the speech, so that the detector ends the last turn


class Simulation:
    """One session at a time through real parts, on a virtual clock."""

    def __init__(self, core: EngineCore, card: ModelCard, options: argparse.Namespace) -> None:
        self._core = core
        self._card = card
        self._silero = SileroModel()
        self._options = options

    def run(
        self,
        utterance: Utterance,
        pcm: NDArray[np.int16],
        commit_every: float | None = None,
    ) -> Trace:
        """The session of one utterance ([n] samples at 24 kHz), from its first packet to its last
        event.

        commit_every: seconds between the commits of a client that finds the turns itself; None: the
        server's voice detector finds them, and what is left at the end is committed.
        """
        numbers = itertools.count()

        def ids(prefix: str) -> str:
            return f"{prefix}_{next(numbers)}"

        protocol = RealtimeProtocol(
            session=utterance.name,
            models=[self._card],
            dialect=OpenAIDialect({}, ids),
            ids=ids,
            max_turn_seconds=3600.0,
            max_items=1000,
        )
        hearing = AudioIntake(self._silero, protocol.settings.format, protocol.settings.vad())
        trace = Trace(utterance.name, close_code=1000)

        def carry_out(outputs: list[Output], now: float) -> None:
            for output in outputs:
                match output:
                    case Send(frame):
                        trace.events.append((now, frame))
                    case Submit(message):
                        self._core.submit(message)
                    case Tune(format, vad):
                        hearing.tune(format, vad)
                    case ResetIntake():
                        hearing.end_turn()
            while self._core.has_work:
                for event in self._core.step():
                    carry_out(protocol.engine(event, now=now), now)

        carry_out(protocol.start(), 0.0)
        for frame in self._settings(server_vad=commit_every is None):
            carry_out(protocol.receive(parse_client_event(json.dumps(frame)), now=0.0), 0.0)
        commit = parse_client_event('{"type": "input_audio_buffer.commit"}')
        turn = int(commit_every * RATE) if commit_every else 0
        samples = np.concatenate([pcm, np.zeros(TAIL, "<i2")])
        for start in range(0, len(samples), CHUNK):
            chunk = samples[start : start + CHUNK]
            now = (start + len(chunk)) / RATE
            trace.packets.append((now, start + len(chunk)))
            heard_samples = hearing.decode([chunk.tobytes()], flush=False)
            [found] = self._silero.judge([hearing.voice], [hearing.windows(heard_samples)])
            for heard in hearing.judge(heard_samples, found.tolist()):
                carry_out(protocol.hear(heard, now=now), now)
            if turn and start // turn < (start + len(chunk)) // turn:
                carry_out(protocol.receive(commit, now=now), now)
        carry_out(protocol.receive(commit, now=trace.seconds), trace.seconds)
        return trace

    def offline(self, pcm: NDArray[np.int16]) -> str:
        """What the same engine makes of the utterance when it hears it as a file: voices first."""
        samples = resample(pcm.astype(np.float32) / 32768.0, RATE, SAMPLE_RATE)
        settings = TranscriptionSettings(model=self._card.id)
        speech = speech_stretches(self._silero, samples)
        self._core.submit(TranscribeFile("file", settings, samples, timestamps=True, speech=speech))
        text = ""
        while self._core.has_work:
            for event in self._core.step():
                text = event.text if isinstance(event, FileTranscribed) else text
        return text

    def _settings(self, *, server_vad: bool) -> Iterator[dict[str, Any]]:
        detection: dict[str, Any] | None = {"type": "server_vad"} if server_vad else None
        if detection is not None and self._options.silence_ms:
            detection["silence_duration_ms"] = self._options.silence_ms
        yield {
            "type": "session.update",
            "session": {
                "type": "transcription",
                "audio": {"input": {"turn_detection": detection}},
                "lookhear": {"provisional": True},
            },
        }


def main() -> None:
    """Simulates and prints."""
    usual = EngineConfig()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="demo-whisper")
    parser.add_argument("--dtype", default=usual.dtype)
    parser.add_argument("--window", default="auto")
    parser.add_argument("--min-window", type=float, default=usual.min_window_seconds)
    parser.add_argument("--tick", type=float, default=usual.tick_seconds)
    parser.add_argument("--evidence", type=float, default=usual.evidence_seconds)
    parser.add_argument("--held", type=int, default=usual.held_words)
    parser.add_argument("--probability", type=float, default=None, help="to be committed")
    parser.add_argument("--segment", type=float, default=0.0, help="longest, seconds")
    parser.add_argument("--silence-ms", type=int, default=None)
    parser.add_argument("--limit", type=int, default=20, help="utterances per language and split")
    parser.add_argument("--data", type=Path, default=DATA, help="recordings; default: tests/data")
    parser.add_argument("--long", action="store_true", help="the long recordings instead")
    parser.add_argument("--errors", action="store_true", help="print what was misheard")
    options = parser.parse_args()
    config = EngineConfig(
        model=options.model,
        dtype=options.dtype,
        window=options.window,
        min_window_seconds=options.min_window,
        tick_seconds=options.tick,
        evidence_seconds=options.evidence,
        held_words=options.held,
        commit_probability=options.probability,
        max_segment_seconds=options.segment,
        threads=1,
    )
    built = build_core(config, lambda stage, share: None)
    simulation, audio = Simulation(built.core, built.card, options), Audio(options.data)
    groups: dict[str, list[Utterance]] = {}
    for utterance in long_recordings(options.data) if options.long else held_out(options.data):
        key = utterance.name if options.long else f"{utterance.language} {utterance.split}"
        if len(groups.setdefault(key, [])) < options.limit:
            groups[key].append(utterance)
    for key, utterances in groups.items():
        traces = [simulation.run(u, audio.of(u)) for u in utterances]
        files = [simulation.offline(audio.of(u)) for u in utterances]
        report(key, utterances, traces, files, show_errors=options.errors)


def report(
    key: str,
    utterances: list[Utterance],
    traces: list[Trace],
    files: list[str],
    *,
    show_errors: bool,
) -> None:
    """Prints errors and latencies of one group of utterances."""
    errors, firsts, lags, finals, right, turns = [], [], [], [], 0, 0
    offline = total(word_errors(u.text, f) for u, f in zip(utterances, files, strict=True))
    for utterance, trace, file in zip(utterances, traces, files, strict=True):
        heard = metrics.hypothesis(trace)
        errors.append(word_errors(utterance.text, heard))
        firsts += metrics.first_text_latencies(trace, utterance.words)
        lags += [lag for _, lag in latencies(trace, utterance.words).commit_lag]
        finals += metrics.final_latencies(trace, utterance.words)
        wrong = metrics.invariant_violations(trace)
        assert not wrong, wrong
        said = [turn for turn in metrics.turns(trace) if turn.text.strip()]
        turns += len(said)
        right += sum(turn.language == utterance.language for turn in said)
        if show_errors and errors[-1].rate > 0:
            print(f"  - {utterance.text}\n  + {heard}\n  = {file}")
    rate = 100 * total(errors).rate
    print(
        f"{key:10} WER {rate:5.2f} % (file {100 * offline.rate:5.2f})  language {right}/{turns}",
        end="",
    )
    for name, values in (("first", firsts), ("lag", lags), ("final", finals)):
        s = metrics.summary(values)
        print(f"  {name} p50 {s.get('p50')} p95 {s.get('p95')}", end="")
    print(flush=True)


if __name__ == "__main__":
    main()
