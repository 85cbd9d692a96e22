"""One WebSocket session: the asyncio shell around the pure protocol.

The connection fills the inbox, with pauses (see `gateway.sockets.frames`); the worker takes all
that waits, does the media work and moves the protocol; the writer empties the outbox. Engine events
move the protocol on the event loop as they come. Every queue is bounded: while the inbox is full
the socket is not read (`hold`), and when the outbox is full the session is closed (`overflow`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import secrets
from collections.abc import Sequence
from functools import partial

import numpy as np
from starlette.websockets import WebSocket

from lookhear.engine.client.client import EngineUnavailable
from lookhear.engine.messages import SAMPLE_RATE, DropPicture, EngineFailed, Event, ExpectSpeech
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.answering.dialogue import DialogueLimits
from lookhear.gateway.realtime.listening.audio_intake import AudioIntake, Samples
from lookhear.gateway.realtime.pictures.media_requests import AudioRequest, load
from lookhear.gateway.realtime.protocol.commands import (
    Append,
    ClientCommand,
    Commit,
    Finish,
    RareCommand,
)
from lookhear.gateway.realtime.protocol.dialect import Dialect
from lookhear.gateway.realtime.protocol.outputs import (
    Close,
    Output,
    ResetIntake,
    ResponseFinished,
    Send,
    Submit,
    Tune,
    TurnFinished,
    UseModel,
)
from lookhear.gateway.realtime.protocol.refusals import going_away
from lookhear.gateway.realtime.session.departure import Departure
from lookhear.gateway.realtime.session.idleness import Idleness
from lookhear.gateway.realtime.session.machine import SHUT_DOWN, RealtimeProtocol
from lookhear.gateway.realtime.session.parsing import parsed
from lookhear.gateway.realtime.session.queues import BATCH, ByteQueue, Outbox, State
from lookhear.gateway.realtime.session.tally import Tally
from lookhear.gateway.services.services import Services
from lookhear.gateway.sockets.frames import EXTENSION, PacedProtocol, WireFrame
from lookhear.gateway.telemetry.log import LOGGER

INLINE_PARSE = 64 * 1024  # characters: more than this is parsed in a thread
INLINE_AUDIO = 32 * 1024  # bytes: more than this is decoded in a thread, in pieces of this size


class RealtimeSession:
    """Runs one accepted WebSocket to its end. The first of its path's dialects greets."""

    def __init__(
        self,
        websocket: WebSocket,
        services: Services,
        dialects: Sequence[type[Dialect]],
        client: str = "",
    ) -> None:
        config, limit = services.config, services.config.max_session_seconds
        self.id = services.ids("sess")
        self.client = client
        self.ended = asyncio.Event()
        self._websocket = websocket
        self._engine = services.engine
        self._services = services
        self._claim = services.claim(websocket, self.id)
        self._query = websocket.query_params
        self._dialect = dialects[0](self._query, services.ids)
        self._others = dialects[1:]  # until the first frame has come
        self._protocol = RealtimeProtocol(
            session=self.id,
            models=services.engine.models,
            dialect=self._dialect,
            ids=services.ids,
            max_turn_seconds=config.max_turn_seconds,
            max_items=config.max_items,
            expires_at=int(services.now() + limit) if limit else None,
            limits=DialogueLimits(config.max_pictures, config.max_request_pixels),
            seeds=lambda: secrets.randbits(63),
            hears_ends=services.turn_ends.can_tell,
        )
        settings = self._protocol.settings
        self._intake = AudioIntake(services.silero, settings.format, settings.vad())
        self._inbox: ByteQueue[WireFrame | None] = ByteQueue(config.max_inbox_bytes)  # None: last
        self._outbox = Outbox(websocket, config.max_outbox_bytes)
        self._connection: PacedProtocol | None = None
        self._progress = asyncio.Event()  # the engine said something
        self._departure: Departure | None = None  # the server is going away
        self._is_deaf = False  # what the client sends now comes too late
        self._is_working = False  # on frames that it took
        now = services.clock()
        self._idleness = Idleness(config.first_message_seconds, config.idle_seconds, now)
        self._idle_timer: asyncio.TimerHandle | None = None
        self._tally = Tally(self.id, services.metrics, services.clock)

    def open(self, speaks_to: str | None) -> None:
        """Make it known to the engine. speaks_to: the model with which it has a place to speak."""
        self._engine.open_session(self.id, self._on_engine_event)
        if speaks_to is not None:
            with contextlib.suppress(EngineUnavailable):  # it will be told when it speaks
                self._engine.send(ExpectSpeech(self.id, speaks_to))

    async def run(self) -> None:
        """After `open`. Returns when the socket is closed, whoever closed it. The engine's rows are
        then free."""
        services = self._services
        services.metrics.sessions_active.inc()
        expiry: asyncio.TimerHandle | None = None
        tasks: list[asyncio.Task[None]] = []
        try:
            self._apply(self._protocol.start())
            if seconds := services.config.max_session_seconds:
                expiry = asyncio.get_running_loop().call_later(seconds, self._expire)
            self._watch_idleness()
            reader = asyncio.create_task(self._read())
            writer = asyncio.create_task(self._outbox.write())
            worker = asyncio.create_task(self._work())
            overflow = asyncio.create_task(self._outbox.give_up())
            tasks = [reader, writer, worker, overflow]
            await asyncio.wait({reader, writer, overflow}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for timer in (expiry, self._idle_timer, self._departure):
                if timer is not None:
                    timer.cancel()
            self._outbox.state = State.ENDED
            with contextlib.suppress(EngineUnavailable):  # then it has forgotten us anyway
                self._engine.close_session(self.id)
            for task in tasks:
                task.cancel()
            services.sessions.discard(self)
            services.metrics.sessions_active.dec()
            self._tally.end(
                self._websocket,
                self._outbox.close_code,
                bytes_out=self._outbox.bytes_sent,
                model=self._protocol.settings.main_model,
                turns=self._protocol.turns_committed,
                audio_seconds=round(self._protocol.seconds_heard, 3),
                close_reason=self._outbox.reason,
            )
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):
                    self._log_bug(outcome)

    def drain(self, seconds: float) -> None:
        """The server ends in so many seconds: what is under way may end, and then it leaves."""
        self._apply(self._protocol.warn(seconds))
        protocol, inbox = self._protocol, self._inbox
        self._departure = Departure(
            lambda: protocol.is_idle, lambda: not self._is_working and not inbox.size, self.depart
        )

    def depart(self) -> None:
        """Take nothing more, end what is open as by a commit, and leave once its text is said."""
        if not self._is_deaf:
            self._is_deaf = True
            self._inbox.put(None, 0)

    def shut_down(self) -> None:
        """The server stops: a clean close after what is already queued."""
        self._apply(self._protocol.refuse(going_away()))
        self._outbox.close(SHUT_DOWN)

    @property
    def silent_for(self) -> float:
        """Seconds in which its client has not sent a first message; 0.0 once it has."""
        return self._idleness.silent_for(self._services.clock())

    def give_way(self) -> None:
        """Its client has sent nothing, and another one wants its place."""
        self._end_idle(self.silent_for, "in which others want the place")

    # --- tasks -----------------------------------------------------------------------------------

    async def _read(self) -> None:
        connection = self._websocket.scope.get("extensions", {}).get(EXTENSION)
        if isinstance(connection, PacedProtocol):  # else a server that is not ours
            self._connection = connection
            services = self._services
            connection.attach(
                self._take, lambda: services.gathering.seconds(len(services.sessions))
            )
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                self._outbox.was_closed(message.get("code") or 1005)
                return
            text: str | None = message.get("text")
            self._take(text if text is not None else message.get("bytes") or b"")
            await self._inbox.room()

    def _take(self, frame: WireFrame) -> None:
        self._tally.bytes_in += len(frame)
        if self._is_deaf:
            return
        self._idleness.heard(self._services.clock())
        self._inbox.put(frame, len(frame) + 1)
        if self._connection is not None and self._inbox.full:
            self._connection.hold()

    async def _work(self) -> None:
        try:
            while True:
                taken = await self._inbox.take(BATCH)
                self._is_working = True
                if self._connection is not None and not self._inbox.full:
                    self._connection.release()
                frames = [frame for frame in taken if frame is not None]
                if self._others and frames:
                    self._choose_dialect(frames[0])
                await self._handle(await self._parse(frames))
                if taken[-1] is None:
                    await self._hear([], flush=True)
                    self._apply(self._protocol.depart(now=self._services.clock()))
                self._is_working = False
                self._look()
                await asyncio.sleep(0)  # others first, if there is more of it
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._fail(error)

    # --- frames to protocol ----------------------------------------------------------------------

    def _choose_dialect(self, frame: WireFrame) -> None:
        others, self._others = self._others, ()
        other = next((dialect for dialect in others if dialect.recognises(frame)), None)
        if other is not None:
            self._dialect = other(self._query, self._services.ids)
            self._apply(self._protocol.speak(self._dialect))

    async def _parse(self, frames: Sequence[WireFrame]) -> list[ClientCommand | ProtocolError]:
        size, most = sum(map(len, frames)), self._services.config.max_json_bytes
        if size <= INLINE_PARSE:
            return parsed(self._dialect, frames, most)
        self._services.memory.freed(size)  # soon
        return await self._services.in_thread(lambda: parsed(self._dialect, frames, most))

    async def _handle(self, commands: Sequence[ClientCommand | ProtocolError]) -> None:
        """In order; appends that follow one another are one piece of media work."""
        appends: list[Append] = []
        for command in commands:
            if isinstance(command, Append):
                appends.append(command)
                continue
            await self._hear(appends, flush=isinstance(command, Commit | Finish))
            appends = []
            if isinstance(command, ProtocolError):
                self._apply(self._protocol.refuse(command))
            else:
                await self._receive(command)
        await self._hear(appends, flush=False)

    async def _receive(self, command: RareCommand) -> None:
        """What the command points at is loaded before it goes on; later frames wait for it."""
        services, protocol = self._services, self._protocol
        self._apply(protocol.receive(command, now=services.clock()))
        requests = protocol.requests
        if not requests:
            return
        if any(isinstance(request, AudioRequest) for request in requests):
            await self._room_for_turns()
        try:
            media = await load(requests, services.pictures, services.in_thread, self._claim)
        except ProtocolError as problem:
            self._apply(protocol.not_loaded(problem))
        else:
            self._apply(protocol.loaded(media, now=services.clock()))

    async def _hear(self, appends: Sequence[Append], *, flush: bool) -> None:
        if not appends and not flush:
            return
        if not self._protocol.can_hear:
            if appends:
                self._apply(self._protocol.refuse_audio(appends[0].event_id))
            return
        await self._room_for_turns()
        services, intake = self._services, self._intake
        chunks = [append.audio for append in appends]
        if sum(len(chunk) for chunk in chunks) <= INLINE_AUDIO:
            samples = intake.decode(chunks, flush=flush)
            windows = intake.windows(samples)
        else:
            samples = await self._decoded(b"".join(chunks), flush=flush)
            windows = await services.while_hearing(lambda: intake.windows(samples))
        probabilities = await services.vad.judge(intake.voice, windows)
        services.metrics.heard(len(samples) / SAMPLE_RATE)
        event_id = appends[-1].event_id if appends else None
        async for part in intake.heard(samples, probabilities, services.turn_ends):
            self._apply(self._protocol.hear(part, now=services.clock(), event_id=event_id))

    async def _decoded(self, audio: bytes, *, flush: bool) -> Samples:
        """Piece by piece, so that one who sends much at once does not hold up the others."""
        hearing, parts = self._services.while_hearing, []
        for start in range(0, len(audio), INLINE_AUDIO):
            piece = [audio[start : start + INLINE_AUDIO]]
            decode = partial(self._intake.decode, piece, flush=False)
            parts.append(await hearing(decode))
        if flush:
            parts.append(await hearing(partial(self._intake.decode, [], flush=True)))
        return np.concatenate(parts)

    async def _room_for_turns(self) -> None:
        """A client far ahead of the engine waits here, and so in the end in its own send."""
        while self._protocol.pending_turns >= self._services.config.max_pending_turns:
            self._progress.clear()
            await self._progress.wait()

    # --- protocol to socket, engine and media ----------------------------------------------------

    def _look(self) -> None:
        if not self._is_deaf and self._departure is not None:
            self._departure.look()

    def _on_engine_event(self, event: Event) -> None:
        if self._outbox.state is not State.OPEN:
            return
        self._tally.said(event)
        self._idleness.answered(self._services.clock())
        try:
            self._apply(self._protocol.engine(event, now=self._services.clock()))
        except Exception as error:
            self._fail(error)
        self._progress.set()
        self._look()

    def _apply(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            if self._outbox.state is not State.OPEN:
                return
            match output:
                case Send():
                    if output.problem is not None:
                        self._tally.error(output.problem)
                    self._outbox.send(output.event)
                case Submit():
                    self._tally.submitted(output.message)
                    try:
                        self._engine.send(output.message)
                    except EngineUnavailable as error:
                        if isinstance(output.message, DropPicture):
                            continue  # it has none of them any more
                        failed = EngineFailed("engine_unavailable", str(error))
                        self._apply(self._protocol.engine(failed, now=self._services.clock()))
                case UseModel():
                    self._engine.use_model(self.id, output.model)
                case Tune():
                    self._intake.tune(output.format, output.vad)
                case ResetIntake():
                    self._intake.end_turn(output.sample)
                case TurnFinished():
                    self._tally.turn(output)
                case ResponseFinished():
                    self._tally.response(output)
                case Close():
                    self._outbox.close(output)

    def _fail(self, error: Exception) -> None:
        """Our own bug: the client is told and closed, other sessions go on."""
        self._log_bug(error)
        message = "the server failed while handling this session; connect again"
        problem = ProtocolError(message, code="internal_error", type="server_error")
        self._apply(self._protocol.refuse(problem))
        self._outbox.close(Close(1011, "internal error"))

    def _log_bug(self, error: Exception) -> None:
        told = {"fields": {"session": self.id}}  # engine's events come in a task of no session
        logging.getLogger(LOGGER).error("session failed", exc_info=error, extra=told)

    def _watch_idleness(self) -> None:
        now, loop = self._services.clock(), asyncio.get_running_loop()
        if self._idleness.left(now) <= 0.0:
            self._end_idle(self._idleness.limit, "without one")
        elif (seconds := self._idleness.next_look(now)) < math.inf:
            self._idle_timer = loop.call_later(seconds, self._watch_idleness)

    def _end_idle(self, seconds: float, what: str) -> None:
        message = f"session: expected a message, got {seconds:.3g} seconds {what}; connect again"
        self._services.refusals.add("session_idle")
        self._apply(self._protocol.refuse(ProtocolError(message, code="session_idle")))
        self._outbox.close(Close(1001, "session idle"))

    def _expire(self) -> None:
        most = f"at most {self._services.config.max_session_seconds:g} s"
        message = f"session: expected to last {most}, which are over; connect again"
        self._apply(self._protocol.refuse(ProtocolError(message, code="session_expired")))
        self._outbox.close(Close(1001, "session expired"))
