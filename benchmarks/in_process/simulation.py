"""Live sessions in one process, on the audio's own clock.

Gateway protocol, voice detector, policies, scheduler and model are the real ones; sockets and
waiting are left out. Computing takes no time (the "computation-unaware" latencies of the
literature), or what the engine's thread took of a processor: then sessions wait for one another as
they do in a server, and other programs on the machine matter little.

Data flow: packets of 20 ms -> `AudioIntake` -> `RealtimeProtocol` -> core; the core's step begins
as soon as there is work and the step before is over, and its events come when it ends.
"""

from __future__ import annotations

import heapq
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookhear.bench.measures.trace import RATE, Trace
from lookhear.engine.admission.admission import Admission
from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import (
    SAMPLE_RATE,
    CloseSession,
    Event,
    FileTranscribed,
    ModelCard,
    TranscribeFile,
    TranscriptionSettings,
)
from lookhear.gateway.realtime.listening.audio_intake import AudioIntake
from lookhear.gateway.realtime.openai.dialect import OpenAIDialect
from lookhear.gateway.realtime.openai.parsing import parse_client_event
from lookhear.gateway.realtime.patience import Eagerness
from lookhear.gateway.realtime.protocol.outputs import Output, ResetIntake, Send, Submit, Tune
from lookhear.gateway.realtime.session.machine import RealtimeProtocol
from lookhear.media.audio.resample import resample
from lookhear.media.voice.silero import SileroModel
from lookhear.media.voice.smart_turn import TurnModel
from lookhear.media.voice.stretches import speech_stretches

CHUNK = RATE // 50  # 20 ms
TAIL = RATE * 6 // 5  # silence after the speech, so that the detector ends the last turn
Pcm = NDArray[np.int16]


class Simulation:
    """silence_ms: that ends a turn; None: the server's choice. language: that clients tell.
    eagerness: of semantic_vad, None: server_vad. turn_model: hears whether a turn is over.
    admission: told what steps cost, as in the engine's process."""

    def __init__(
        self,
        core: EngineCore,
        card: ModelCard,
        silence_ms: int | None = None,
        language: str | None = None,
        eagerness: Eagerness | None = None,
        turn_model: TurnModel | None = None,
        admission: Admission | None = None,
    ) -> None:
        self._core = core
        self._admission = admission
        self._card = card
        self._silero = SileroModel()
        self._silence_ms = silence_ms
        self._language = language
        self._eagerness = eagerness
        self._turn_model = turn_model

    def run(self, name: str, pcm: Pcm, commit_every: float | None = None) -> Trace:
        """One session ([n] samples at 24 kHz), from its first packet to its last event; computing
        takes no time.

        commit_every: seconds between the commits of a client that finds the turns itself; None: the
        server's voice detector finds them, and what is left at the end is committed.
        """
        [trace] = self.crowd([(name, pcm)], commit_every=commit_every, computing=False)
        return trace

    def crowd(
        self,
        sessions: Sequence[tuple[str, Pcm]],
        *,
        commit_every: float | None = None,
        computing: bool = True,
    ) -> list[Trace]:
        """Several at once, each under its own name, begun evenly within the first second; in each
        trace the clock is its own. computing: whether the engine's work takes time."""
        held: dict[str, _Session] = {}
        packets: list[tuple[float, str]] = []
        for number, (name, pcm) in enumerate(sessions):
            begin = number / len(sessions)
            held[name] = _Session(name, begin, pcm, self, commit_every)
            packets += [(begin + at, name) for at in held[name].times]
        heapq.heapify(packets)
        free = 0.0  # when the engine's last step ended
        now = 0.0
        while packets or self._core.has_work:
            if packets and (not self._core.has_work or packets[0][0] <= max(free, now)):
                now, name = heapq.heappop(packets)
                held[name].next_packet(now)
                continue
            start = max(free, now)
            before = time.thread_time()
            events = self._core.step()
            seconds = time.thread_time() - before
            free = start + (seconds if computing else 0.0)
            if self._admission is not None:
                self._admission.stepped(self._core.last_step, seconds)
            for event in events:
                session = held.get(getattr(event, "session", ""))
                if session is not None:
                    session.engine(event, free)
        for name in held:  # or the next one of that name would be heard behind it
            self._core.submit(CloseSession(name))
        return [session.trace for session in held.values()]

    def offline(self, pcm: Pcm) -> str:
        """What the same engine makes of the utterance when it hears it as a file: voices first."""
        samples = resample(pcm.astype(np.float32) / 32768.0, RATE, SAMPLE_RATE)
        settings = TranscriptionSettings(model=self._card.id, language=self._language)
        speech = speech_stretches(self._silero, samples)
        self._core.submit(TranscribeFile("file", settings, samples, timestamps=True, speech=speech))
        text = ""
        while self._core.has_work:
            for event in self._core.step():
                text = event.text if isinstance(event, FileTranscribed) else text
        return text

    def protocol(self, name: str) -> RealtimeProtocol:
        """Of a new session."""
        numbers = itertools.count()

        def ids(prefix: str) -> str:
            return f"{prefix}_{next(numbers)}"

        return RealtimeProtocol(
            session=name,
            models=[self._card],
            dialect=OpenAIDialect({}, ids),
            ids=ids,
            max_turn_seconds=3600.0,
            max_items=1000,
            hears_ends=self._turn_model is not None,
        )

    def settings(self, *, server_vad: bool) -> Iterator[dict[str, Any]]:
        """What a client says first."""
        detection: dict[str, Any] | None = {"type": "server_vad"} if server_vad else None
        if detection is not None and self._eagerness is not None:
            detection = {"type": "semantic_vad", "eagerness": self._eagerness}
        elif detection is not None and self._silence_ms:
            detection["silence_duration_ms"] = self._silence_ms
        audio: dict[str, Any] = {"turn_detection": detection}
        if self._language:
            audio["transcription"] = {"language": self._language}
        yield {
            "type": "session.update",
            "session": {
                "type": "transcription",
                "audio": {"input": audio},
                "lookhear": {"provisional": True},
            },
        }

    def intake(self, protocol: RealtimeProtocol) -> AudioIntake:
        """Of a new session."""
        return AudioIntake(self._silero, protocol.settings.format, protocol.settings.vad())

    def judge(self, intake: AudioIntake, samples: NDArray[np.float32]) -> list[float]:
        """How probably somebody speaks in each window that these samples complete."""
        [found] = self._silero.judge([intake.voice], [intake.windows(samples)])
        return [float(probability) for probability in found]

    def over(self, sound: NDArray[np.float32]) -> float | None:
        """How probably a turn is over that sounds like this."""
        return self._turn_model.judge([sound])[0] if self._turn_model is not None else None

    def submit(self, output: Submit) -> None:
        """A session has something for the engine."""
        self._core.submit(output.message)


class _Session:
    """begin: when its clock starts. times: of its packets, on that clock."""

    def __init__(
        self, name: str, begin: float, pcm: Pcm, simulation: Simulation, commit_every: float | None
    ) -> None:
        self.trace = Trace(name, close_code=1000)
        self._begin = begin
        self._simulation = simulation
        self._protocol = simulation.protocol(name)
        self._intake = simulation.intake(self._protocol)
        self._pcm = np.concatenate([pcm, np.zeros(TAIL, "<i2")])
        self._sent = 0
        self._turn = int(commit_every * RATE) if commit_every else 0
        ends = [min(end + CHUNK, len(self._pcm)) for end in range(0, len(self._pcm), CHUNK)]
        self.times = [end / RATE for end in ends]
        self._carry_out(self._protocol.start(), 0.0)
        for frame in simulation.settings(server_vad=commit_every is None):
            event = parse_client_event(json.dumps(frame))
            self._carry_out(self._protocol.receive(event, now=0.0), 0.0)

    def next_packet(self, now: float) -> None:
        """20 ms of audio, and a commit where one is due."""
        now -= self._begin
        start = self._sent
        chunk = self._pcm[start : start + CHUNK]
        self._sent = end = start + len(chunk)
        self.trace.packets.append((now, end))
        samples = self._intake.decode([chunk.tobytes()], flush=False)
        judged = self._simulation.judge(self._intake, samples)
        for heard in self._intake.judge(samples, judged):
            if heard.sound is not None and self._protocol.wants_sound(heard):
                heard = self._intake.told(heard, self._simulation.over(heard.sound))
            self._carry_out(self._protocol.hear(heard, now=now), now)
        is_turn = self._turn and start // self._turn < end // self._turn
        if is_turn or end == len(self._pcm):
            commit = parse_client_event('{"type": "input_audio_buffer.commit"}')
            self._carry_out(self._protocol.receive(commit, now=now), now)

    def engine(self, event: Event, now: float) -> None:
        """Something the engine said."""
        now -= self._begin
        self._carry_out(self._protocol.engine(event, now=now), now)

    def _carry_out(self, outputs: list[Output], now: float) -> None:
        for output in outputs:
            match output:
                case Send(frame):
                    self.trace.events.append((now, frame))
                case Submit():
                    self._simulation.submit(output)
                case Tune(format, vad):
                    self._intake.tune(format, vad)
                case ResetIntake(sample):
                    self._intake.end_turn(sample)
