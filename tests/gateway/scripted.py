"""A protocol driven by hand: counted ids, a scripted clock, a fake engine's answers on demand."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    CancelTurn,
    DiariseLive,
    EndTurn,
    Event,
    ModelCard,
    StartTurn,
    TextCommitted,
    TextProvisional,
    TokenLogprob,
    TurnCompleted,
    TurnFailed,
    Word,
)
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.listening.audio_intake import Heard
from lookhear.gateway.realtime.openai.dialect import OpenAIDialect
from lookhear.gateway.realtime.openai.parsing import parse_client_event
from lookhear.gateway.realtime.pictures.media_requests import Media, MediaRequest
from lookhear.gateway.realtime.protocol.commands import Append
from lookhear.gateway.realtime.protocol.dialect import Close, Dialect
from lookhear.gateway.realtime.protocol.outputs import Output, Send, Submit, TurnFinished
from lookhear.gateway.realtime.session.machine import RealtimeProtocol
from lookhear.gateway.telemetry.ids import IdFactory
from lookhear.media.voice.vad import VadEvent
from tests.gateway.fake_engine import CARDS
from tests.gateway.strict import check

SESSION = "sess_1"


def counted_ids() -> Callable[[str], str]:
    counters: dict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))
    return lambda prefix: f"{prefix}_{next(counters[prefix])}"


class Script:
    """Feeds a RealtimeProtocol and keeps what it puts out."""

    def __init__(
        self,
        *,
        requested_model: str | None = None,
        transcribes: bool = False,
        max_turn: float = 3600,
        max_items: int = 5,
        models: Sequence[ModelCard] = CARDS,
        **options: Any,
    ) -> None:
        ids = counted_ids()
        query = {"intent": "transcription"} if transcribes else {}
        if requested_model is not None:
            query["model"] = requested_model
        self.protocol = RealtimeProtocol(
            session=SESSION,
            models=models,
            dialect=self.dialect(query, ids),
            ids=ids,
            max_turn_seconds=max_turn,
            max_items=max_items,
            **options,
        )
        self.now = 100.0
        self.position = 0
        self.outputs: list[Output] = []
        self.audio: dict[str, list[np.ndarray[Any, Any]]] = {}
        self.voiced: dict[str, int] = {}
        self.started: dict[str, StartTurn] = {}
        self.ended: list[str] = []
        self.cancelled: list[str] = []
        self.diarised: list[DiariseLive] = []
        self.text: dict[str, str] = defaultdict(str)
        self.frames: list[dict[str, Any]] = []
        self.last: list[dict[str, Any]] = []
        self._take(self.protocol.start())

    def dialect(self, query: dict[str, str], ids: IdFactory) -> Dialect:
        """Of the client."""
        return OpenAIDialect(query, ids)

    def checked(self, frame: dict[str, Any]) -> dict[str, Any]:
        """A frame for the client, if it is valid."""
        return check(frame)

    # --- client ----------------------------------------------------------------------------------

    def client(self, type: str, **fields: Any) -> list[dict[str, Any]]:
        """A control event; returns the frames it caused."""
        try:
            event = parse_client_event(json.dumps({"type": type, **fields}))
        except ProtocolError as problem:
            return self._take(self.protocol.refuse(problem))
        assert not isinstance(event, Append)
        frames = self._take(self.protocol.receive(event, now=self.now))
        if not (requests := self.protocol.requests):
            return frames
        try:
            media = self.load(requests)
        except ProtocolError as problem:
            return frames + self._take(self.protocol.not_loaded(problem))
        return frames + self._take(self.protocol.loaded(media, now=self.now))

    def load(self, requests: Sequence[MediaRequest]) -> Media:
        """What a command points at."""
        raise AssertionError(requests)

    def update(self, session: dict[str, Any] | None = None, **fields: Any) -> list[dict[str, Any]]:
        session = {"type": "transcription", **(session or {})}
        return self.client("session.update", session=session, **fields)

    def hear(
        self,
        seconds: float,
        events: Sequence[VadEvent] = (),
        *,
        voiced_until: int | None = None,
        speaking: bool = False,
        is_rest: bool = False,
    ) -> list[dict[str, Any]]:
        """Audio whose samples say where they are, so that any loss or repetition shows."""
        count = round(seconds * SAMPLE_RATE)
        samples = np.arange(self.position, self.position + count, dtype=np.float32)
        self.position += count
        heard = Heard(
            samples,
            list(events),
            self.position if voiced_until is None else voiced_until,
            speaking,
        )
        return self._take(self.protocol.hear(heard, now=self.now, is_rest=is_rest))

    # --- engine ----------------------------------------------------------------------------------

    def say(self, item: str, text: str) -> list[dict[str, Any]]:
        """The engine commits text, with logprobs and words if the turn asked for them."""
        self.text[item] += text
        settings = self.started[item].settings
        logprobs = [TokenLogprob(text, -0.1, list(text.encode()))] if settings.logprobs else None
        words = [Word(text, 0.0, 0.1, 0.9)] if settings.words else None
        return self.engine(TextCommitted(SESSION, item, text, logprobs, words))

    def guess(self, item: str, text: str) -> list[dict[str, Any]]:
        return self.engine(TextProvisional(SESSION, item, text))

    def complete(self, item: str, language: str | None = "en") -> list[dict[str, Any]]:
        samples = sum(len(part) for part in self.audio[item])
        seconds = samples / SAMPLE_RATE
        return self.engine(
            TurnCompleted(SESSION, item, self.text[item], language, seconds, len(self.text[item]))
        )

    def fail(self, item: str, code: str = "server_error") -> list[dict[str, Any]]:
        return self.engine(TurnFailed(SESSION, item, code, "asked to fail"))

    def engine(self, event: Event) -> list[dict[str, Any]]:
        return self._take(self.protocol.engine(event, now=self.now))

    # --- what came out ---------------------------------------------------------------------------

    def samples(self, item: str) -> list[int]:
        """The session positions of the samples that the engine got for a turn."""
        return np.concatenate(self.audio[item]).astype(int).tolist() if self.audio[item] else []

    def types(self) -> list[str]:
        return [frame["type"] for frame in self.frames]

    @property
    def finished(self) -> list[TurnFinished]:
        return [output for output in self.outputs if isinstance(output, TurnFinished)]

    @property
    def closes(self) -> list[Close]:
        return [output for output in self.outputs if isinstance(output, Close)]

    def _take(self, outputs: list[Output]) -> list[dict[str, Any]]:
        self.outputs.extend(outputs)
        self.last = [self.checked(output.event) for output in outputs if isinstance(output, Send)]
        self.frames.extend(self.last)
        for output in outputs:
            if isinstance(output, Submit):
                self.submitted(output.message)
        return self.last

    def submitted(self, message: object) -> None:
        match message:
            case StartTurn():
                assert message.turn not in self.started
                self.started[message.turn] = message
                self.audio[message.turn] = []
                self.voiced[message.turn] = 0
            case AppendAudio():
                assert message.turn not in self.ended + self.cancelled
                assert self.voiced[message.turn] <= message.voiced_until
                self.audio[message.turn].append(message.samples)
                self.voiced[message.turn] = message.voiced_until
                assert message.voiced_until <= len(self.samples(message.turn))
            case EndTurn():
                assert message.turn not in self.ended + self.cancelled
                self.ended.append(message.turn)
            case CancelTurn():
                assert message.turn not in self.ended + self.cancelled
                self.cancelled.append(message.turn)
            case DiariseLive():
                self.diarised.append(message)
            case _:
                raise AssertionError(message)


def kinds(frames: Sequence[dict[str, Any]]) -> list[str]:
    """The last word of each event type."""
    return [frame["type"].rsplit(".", 1)[-1] for frame in frames]
