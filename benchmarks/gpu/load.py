"""Requests that never heard of a person: long answers side by side, and sessions that tick.

Random weights understand nothing, so what a session would ask for is written down here: a tick
brings a second of audio, is encoded like the live sessions encode (Whisper: the whole window; Qwen3
ASR: the open window, closed ones being in the caches), reads the text that stands (as many tokens
as the verification of a draft reads), and decodes NEW_TOKENS more, about two seconds of speech.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.request import Cost, Priority, Result
from lookhear.engine.messages import SAMPLE_RATE, Event
from lookhear.engine.paged.request import PagedRequest
from lookhear.engine.qwen3_asr.prompt import PromptFrame
from lookhear.engine.qwen3_asr.recognizer import AsrConfig
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.request import WhisperRequest

STANDING_TOKENS = 24  # of text that is forced or verified: six seconds of speech
NEW_TOKENS = 8
SEGMENT = 24  # seconds after which a segment of Qwen3-ASR begins anew
MAX_LATE = 3.0  # seconds behind at which a load is too much


@dataclass(slots=True)
class Client:
    """An owner that always wants what it was told to. make: the next request. waits: whether
    there is one. due: when it was wanted, seconds; latencies: from then to its result."""

    key: str
    make: Callable[[], Any]
    encoder: int = 1
    tokens: int = 0
    due: float | None = None
    latencies: list[float] = field(default_factory=list)
    now: Callable[[], float] = time.perf_counter
    is_running: bool = False
    failure: str = ""

    is_done = False
    is_urgent = False

    def wants_request(self) -> bool:
        """Whether its tick is due."""
        return self.due is not None and not self.is_running

    def cost(self) -> Cost:
        """Of its next tick."""
        return Cost(self.encoder, self.tokens)

    def make_request(self) -> Any:
        """Its next tick; the session says the next of its seconds."""
        self.is_running = True
        return self.make()

    def absorb(self, result: Result) -> list[Event]:
        """Counts how long the tick took since it was due."""
        assert self.due is not None
        self.latencies.append(self.now() - self.due)
        self.is_running, self.due = False, None
        return []

    def settle(self) -> list[Event]:
        """Nothing is left to tell."""
        return []

    def fail(self, code: str, message: str) -> list[Event]:
        """Keeps the failure: the run is void."""
        self.failure = message
        return []


# --- requests ------------------------------------------------------------------------------------


def whisper_request(
    tokenizer: WhisperTokenizer,
    key: str,
    samples: NDArray[np.float32],
    window: int,
    new: int,
    standing: int = 0,
) -> WhisperRequest:
    """A tick over `samples` ([n] at 16 kHz) that decodes `new` tokens."""
    return WhisperRequest(
        key=key,
        priority=Priority.LIVE,
        samples=samples,
        window_samples=window,
        head=(tokenizer.sot,),
        language=tokenizer.languages["en"],
        detect_language=False,
        tail=(tokenizer.transcribe, tokenizer.no_timestamps),
        prefix=tuple(300 + i for i in range(standing)),
        max_new_tokens=new,
    )


def text_request(key: str, seed: int, prompt: int, new: int, vocab: int) -> PagedRequest:
    """A prompt that nobody else has."""
    tokens = np.random.default_rng(seed).integers(0, vocab, prompt).tolist()
    return PagedRequest(
        key, Priority.LIVE, tuple(tokens), max_new_tokens=new, loop_room=None, model_ends=False
    )


class AsrTicks:
    """The requests of one session with Qwen3-ASR, a second of audio longer each time, and full
    windows closed, as they are while serving. config: says who computes log-mel."""

    def __init__(self, config: AsrConfig, key: str, seconds: int) -> None:
        self._frame, self._config, self._key = PromptFrame.of(config.tokenizer), config, key
        seed = sum(key.encode()) * 1_000_003 + len(key)
        noise = np.random.default_rng(seed).normal(size=(SEGMENT + 1) * SAMPLE_RATE) * 0.05
        self._samples = noise.astype(np.float32)
        self._seconds, self._lap = seconds, 0
        self._windows = config.new_windows()

    def __call__(self) -> PagedRequest:
        """The next tick of the session: a second more of audio."""
        if self._seconds > SEGMENT:
            self._seconds, self._lap = 4, self._lap + 1
            self._windows = self._config.new_windows()
        media = self._windows.hear(self._samples[: self._seconds * SAMPLE_RATE], is_whole=False)
        self._seconds += 1
        total = sum(medium.num_tokens for medium in media)
        prompt = self._frame.around(total, [5 + i for i in range(STANDING_TOKENS)])
        places, at = [], prompt.audio_start
        for medium in media:
            places.append((at, medium))
            at += medium.num_tokens
        final = sum(medium.num_tokens for medium in media[: self._windows.num_closed])
        return PagedRequest(
            self._key,
            Priority.LIVE,
            tuple(prompt.tokens),
            tuple(places),
            max_new_tokens=NEW_TOKENS,
            final_tokens=prompt.audio_start + final,
            salt=f"{self._key}/{self._lap}".encode(),
            loop_room=None,
            model_ends=False,
        )


def whisper_sessions(tokenizer: WhisperTokenizer, window: int, count: int) -> list[Client]:
    """window: seconds that are encoded at each tick; of 30, twelve are spoken."""
    spoken = 12 if window == 30 else window - 1
    samples = np.random.default_rng(0).normal(size=spoken * SAMPLE_RATE) * 0.05
    clients = []
    for i in range(count):
        make = partial(
            whisper_request, tokenizer, f"s{i}", samples.astype(np.float32), window * SAMPLE_RATE,
            NEW_TOKENS, STANDING_TOKENS,
        )  # fmt: skip
        clients.append(Client(f"s{i}", make, encoder=window * SAMPLE_RATE))
    return clients


def asr_sessions(core: EngineCore, tokenizer: QwenTokenizer, count: int) -> list[Client]:
    """Segments of 2 to 8 seconds at first, so that none begins with much to read. core: whose
    runner says who computes log-mel."""
    runner: Any = core._runner
    config = AsrConfig(tokenizer, runner._model.encoder.dims, by_device=runner._encoder is not None)
    starts = np.random.default_rng(0).integers(2, 9, count).tolist()
    most = 112 + 13 * SEGMENT + STANDING_TOKENS + NEW_TOKENS  # tokens
    return [
        Client(f"s{i}", AsrTicks(config, f"s{i}", start), tokens=most)
        for i, start in enumerate(starts)
    ]


# --- loads ---------------------------------------------------------------------------------------


def _itself(request: Any) -> Any:
    return request


def decode_rate(
    core: EngineCore, requests: Sequence[Any], *, warm: int, steps: int, seconds: float
) -> tuple[float, float]:
    """Tokens per second of all answers, and seconds per step, once all of them are being decoded
    and have warm tokens. At most so many steps or seconds. RuntimeError if one fails."""
    clients = [
        Client(
            request.key, partial(_itself, request), tokens=getattr(request, "reserved_tokens", 0)
        )
        for request in requests
    ]
    for client in clients:
        client.due = 0.0
        core.add(client.key, Priority.LIVE, client)
    running: dict[str, Any] = core._running

    def said() -> list[int]:
        if any(client.failure for client in clients):
            raise RuntimeError(next(c.failure for c in clients if c.failure))
        return [len(sequence.generated.tokens) for sequence in running.values()]

    limit = time.perf_counter() + 60.0
    while len(running) < len(clients) or min(said()) < warm:
        core.step()
        if time.perf_counter() > limit:
            raise RuntimeError("expected all requests to be decoded within 60 s")
    before, began, count = sum(said()), time.perf_counter(), 0
    while count < steps and time.perf_counter() - began < seconds:
        core.step()
        count += 1
    elapsed = time.perf_counter() - began
    tokens = sum(said()) - before
    assert len(running) == len(clients), "expected answers longer than the measurement"
    for client in clients:
        core.drop(client.key)
    while core.has_work:
        core.step()
    return tokens / elapsed, elapsed / count


def tick_latencies(
    core: EngineCore, clients: Sequence[Client], *, seconds: float, seed: int = 0
) -> list[float]:
    """Seconds from each tick to its text, every client ticking once a second at a phase of its
    own; those of the first second are left out. Cut off when the load is too much.

    The clock is the engine's work: it runs while a step does, and jumps to the next tick when
    there is nothing to do. A tick that comes while its session's last one runs waits for it, and
    takes the place of one that waits already, as live sessions do.
    """
    phases = np.random.default_rng(seed).uniform(0.0, 1.0, len(clients))
    ticks = [(float(phase), number) for number, phase in enumerate(phases)]
    heapq.heapify(ticks)
    clock = 0.0
    began: float | None = None  # of the step that is being carried out

    def now() -> float:
        return clock if began is None else clock + time.perf_counter() - began

    pending: dict[int, float] = {}
    for client in clients:
        client.now, client.due = now, None
        client.latencies.clear()
        core.add(client.key, Priority.LIVE, client)
    try:
        while ticks or core.has_work or pending:
            while ticks and ticks[0][0] <= clock:
                at, number = heapq.heappop(ticks)
                pending.setdefault(number, at)  # the older one's wait counts
                if at + 1.0 < seconds:
                    heapq.heappush(ticks, (at + 1.0, number))
            for number in list(pending):
                if clients[number].due is None:
                    clients[number].due = pending.pop(number)
                    core.changed(clients[number].key)
            if not core.has_work:
                if not ticks:
                    break
                clock = max(clock, ticks[0][0])
                continue
            began = time.perf_counter()
            core.step()
            clock, began = now(), None
            failed = next((c.failure for c in clients if c.failure), "")
            if failed:
                raise RuntimeError(failed)
            if clock > seconds + MAX_LATE:
                break
    finally:
        for client in clients:
            core.drop(client.key)
        while core.has_work:
            core.step()
    late = [clock - c.due for c in clients if c.due is not None]
    late += [clock - at for at in pending.values()]
    return [latency for c in clients for latency in c.latencies[1:]] + late
