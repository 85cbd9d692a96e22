"""One realtime session: the asyncio shell around the pure protocol.

The socket it is attached to fills the inbox, with pauses (see `gateway.sockets.frames`); the worker
takes all that waits, does the media work and moves the protocol; the socket's writer empties the
outbox. Engine events move the protocol as they come. Every queue is bounded: while the inbox is
full the socket is not read (`hold`), while the outbox is half full nothing more is worked on, and
when it is full the session is closed. One whose socket is cut goes on, and its client may return.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Sequence

from starlette.websockets import WebSocket

from lookhear.engine.client.client import EngineUnavailable
from lookhear.engine.messages import Event, ExpectSpeech
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.answering.limits import DialogueLimits
from lookhear.gateway.realtime.pictures.media_requests import AudioRequest, load
from lookhear.gateway.realtime.protocol.commands import Append, ClientCommand, Commit, Finish
from lookhear.gateway.realtime.protocol.dialect import Close, Dialect
from lookhear.gateway.realtime.protocol.events import Refused
from lookhear.gateway.realtime.protocol.outputs import (
    GuessAsked,
    Output,
    ResetIntake,
    ResponseFinished,
    Send,
    Submit,
    Tune,
    TurnFinished,
    UseModel,
)
from lookhear.gateway.realtime.protocol.refusals import going_away, our_bug, resumed_elsewhere
from lookhear.gateway.realtime.session.attachment import Attachment, Ending
from lookhear.gateway.realtime.session.departure import Departure
from lookhear.gateway.realtime.session.failures import failure
from lookhear.gateway.realtime.session.hearing import Hearing
from lookhear.gateway.realtime.session.lifetime import Lifetime
from lookhear.gateway.realtime.session.machine import SHUT_DOWN, RealtimeProtocol
from lookhear.gateway.realtime.session.parsing import commands_of
from lookhear.gateway.realtime.session.queues import BATCH, WAITING, ByteQueue, Outbox, State
from lookhear.gateway.realtime.session.resumption import KEPT, Resumption
from lookhear.gateway.realtime.session.tally import Tally
from lookhear.gateway.services.services import Services
from lookhear.gateway.sockets.cutting import WireFrame


class RealtimeSession:
    """Of one client. websocket: its first one. dialects: of the URL's path; the first greets."""

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
        self._resumption = Resumption(services, self._dialect.resumes)
        self._protocol = RealtimeProtocol(
            session=self.id,
            models=services.models,
            dialect=self._dialect,
            ids=services.ids,
            max_turn_seconds=config.max_turn_seconds,
            max_items=config.max_items,
            expires_at=int(services.now() + limit) if limit else None,
            limits=DialogueLimits(config.max_pictures, config.max_request_pixels),
            seeds=lambda: secrets.randbits(63),
            resume=self._resumption.offer,
            hears_ends=services.turn_ends.can_tell,
            created_at=services.now(),
        )
        self._hearing = Hearing(services, self._protocol.settings)
        self._inbox = ByteQueue[WireFrame | None](config.max_inbox_bytes, WAITING)  # None: last
        self._outbox = Outbox(config.max_outbox_bytes, KEPT if config.resume_seconds else 0)
        self._attachment: Attachment | None = None  # None: the client is away
        self._share = services.shares.one()
        self._over = asyncio.Event()
        self._progress = asyncio.Event()  # the engine said something
        self._departure: Departure | None = None  # the server is going away
        self._is_deaf = False  # what the client sends now comes too late
        self._last_words: tuple[ProtocolError | None, Close] = None, SHUT_DOWN
        self._is_working = False  # on frames that it took
        self._counted = asyncio.Event()  # those it took are
        self._counted.set()
        self._lifetime = Lifetime(services, self.depart)
        self._tally = Tally(self.id, services.metrics, services.clock)

    def begin(self, speaks_to: str | None) -> None:
        """Make it known to the engine, and run until `ended`. speaks_to: the model with which it
        has a place to speak."""
        self._engine.open_session(self.id, self._on_engine_event)
        if speaks_to is not None:
            with contextlib.suppress(EngineUnavailable):  # it will be told when it speaks
                self._engine.send(ExpectSpeech(self.id, speaks_to))
        self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        services = self._services
        services.metrics.sessions_active.inc()
        worker: asyncio.Task[None] | None = None
        try:
            self._apply(self._protocol.start())
            self._lifetime.begin()
            worker = asyncio.create_task(self._share.metered(self._work()))
            await self._over.wait()
        except Exception as error:
            self._tally.bug(error)
        finally:
            self._lifetime.cancel()
            if self._departure is not None:
                self._departure.cancel()
            self._outbox.state = State.ENDED
            self._end()
            self._resumption.close()
            services.forget(self)
            self._engine.close_session(self.id)
            services.metrics.sessions_active.dec()
            self._tally.end(self._websocket, self._outbox, self._protocol, self._resumption.count)
            if worker is not None:
                worker.cancel()
                await asyncio.gather(worker, return_exceptions=True)
            self._inbox.clear()
            self._hearing.close()
            self.ended.set()

    # --- its sockets -----------------------------------------------------------------------------

    def attach(self, websocket: WebSocket) -> Attachment:
        """From now on this is the client's socket, and an older one is not; to be served next."""
        if self._attachment is not None:
            self._attachment.leave(self._dialect.render(Refused(resumed_elsewhere())))
        self._resumption.attached()
        take, room, share = self._take, self._inbox.room, self._share
        self._attachment = Attachment(websocket, self._services, share, take=take, room=room)
        return self._attachment

    async def serve(self, attachment: Attachment, subprotocol: str | None) -> None:
        """Until that socket is gone; and where the session goes with it, until it is over, too."""
        ending = Ending.CLOSED
        try:
            ending = await attachment.run(self._outbox, subprotocol, self._dialect, self._tally.bug)
        finally:
            if self._attachment is attachment:
                self._attachment = None
                kept = ending is Ending.CUT and not self._services.is_leaving
                # Who has never said anything has nothing to lose.
                if not (kept and not self.silent_for and self._resumption.detached(self._end)):
                    self._end()
        if self._over.is_set():
            await self.ended.wait()

    def answers_to(self, token: str) -> bool:
        """Whether it is the session of this token, and goes on."""
        return not self._over.is_set() and self._resumption.answers_to(token)

    def resume(self, websocket: WebSocket, after: str) -> Attachment | None:
        """Go on behind the event `after`. None: what followed it is not all here any more."""
        if not self._outbox.rewind(after):
            return None
        self._inbox.clear()  # what nobody has begun to work on the client will send again
        return self.attach(websocket)

    async def serve_resumed(self, attachment: Attachment, subprotocol: str | None) -> None:
        """As `serve`, after telling the client what of it is here."""
        await self._counted.wait()
        if self._attachment is attachment:
            for frame in self._dialect.render(self._resumption.resumed()):
                self._outbox.greet(frame)
        await self.serve(attachment, subprotocol)

    def _end(self) -> None:
        self._over.set()
        if self._attachment is not None:
            self._attachment.leave()

    # --- its end ---------------------------------------------------------------------------------

    def drain(self, seconds: float) -> None:
        """The server ends in so many seconds: what is under way may end, and then it leaves. Who is
        away cannot come back to it."""
        if self._attachment is None:
            return self._end()
        self._apply(self._protocol.warn(seconds))
        protocol, inbox = self._protocol, self._inbox
        self._departure = Departure(
            lambda: protocol.is_idle, lambda: not self._is_working and not inbox.size, self.depart
        )

    def depart(self, why: ProtocolError | None = None, close: Close = SHUT_DOWN) -> None:
        """Take nothing more, end what is open as by a commit, and leave once its text is said. why:
        None: the server ends. Who leaves already, or has said nothing, waits for no text."""
        if why is not None and (self._is_deaf or self.silent_for):
            self._apply([*self._protocol.refuse(why), close])
        elif not self._is_deaf:
            self._is_deaf, self._last_words = True, (why, close)
            self._inbox.put(None, 0)

    def shut_down(self) -> None:
        """The server stops: a clean close after what is already queued."""
        if self._attachment is None:
            return self._end()
        self._apply([*self._protocol.refuse(going_away()), SHUT_DOWN])

    @property
    def is_ending(self) -> bool:
        """Whether its socket is closed, or about to be, and it is not kept for its client."""
        is_closed = self._attachment is not None and self._attachment.is_closed
        return is_closed or self._outbox.state is not State.OPEN

    @property
    def silent_for(self) -> float:
        """Seconds in which its client has not sent a first message; 0.0 once it has."""
        return self._lifetime.silent_for

    @property
    def away_for(self) -> float:
        """Seconds since its socket was cut; 0.0 while it has one."""
        return self._resumption.away_for(self._services.clock())

    def give_way(self) -> None:
        """Its client has sent nothing, or is away, and another one wants its place."""
        if self._attachment is None:
            return self._end()
        self._lifetime.end_idle(self.silent_for, "in which others want the place")

    # --- tasks -----------------------------------------------------------------------------------

    def _take(self, frame: WireFrame) -> None:
        self._tally.bytes_in += len(frame)
        if self._is_deaf:
            return
        self._lifetime.heard()
        self._inbox.put(frame, len(frame) + 1)
        if self._attachment is not None and self._inbox.full:
            self._attachment.hold()

    async def _work(self) -> None:
        services = self._services
        try:
            while True:
                await self._outbox.room()
                taken = await self._inbox.take(BATCH)
                self._is_working = True
                self._counted.clear()
                if self._attachment is not None and not self._inbox.full:
                    self._attachment.release()
                frames = [frame for frame in taken if frame is not None]
                if self._others and frames:
                    self._choose_dialect(frames[0])
                commands = await commands_of(frames, self._dialect, services)
                self._resumption.took(len(frames), commands)
                self._counted.set()
                await self._handle(commands)
                if taken[-1] is None:
                    await self._hear([], flush=True, ends=True)
                    departed = self._protocol.depart(*self._last_words, now=services.clock())
                    self._apply(departed)
                self._is_working = False
                self._look()
                await asyncio.sleep(self._share.rest())  # others first, if there is more of it
        except Exception as error:
            self._fail(error)

    # --- frames to protocol ----------------------------------------------------------------------

    def _choose_dialect(self, frame: WireFrame) -> None:
        others, self._others = self._others, ()
        other = next((dialect for dialect in others if dialect.recognises(frame)), None)
        if other is not None:
            self._dialect = other(self._query, self._services.ids)
            self._apply(self._protocol.speak(self._dialect))

    async def _handle(self, commands: Sequence[ClientCommand | ProtocolError]) -> None:
        """In order; appends that follow one another are one piece of media work."""
        appends: list[Append] = []
        for command in commands:
            if isinstance(command, Append):
                appends.append(command)
                continue
            ends = isinstance(command, Finish)
            await self._hear(appends, flush=ends or isinstance(command, Commit), ends=ends)
            appends = []
            if isinstance(command, ProtocolError):
                self._apply(self._protocol.refuse(command))
            else:
                await self._receive(command)
        await self._hear(appends)

    async def _receive(self, command: ClientCommand) -> None:
        """What the command points at is loaded before it goes on; later frames wait for it."""
        services, protocol = self._services, self._protocol
        protocol.know(services.models)
        self._apply(protocol.receive(command, now=services.clock()))
        requests = protocol.requests
        if not requests:
            return
        if any(isinstance(request, AudioRequest) for request in requests):
            await self._room_for_turns()
        try:
            pictures, silero, in_thread = services.pictures, services.silero, services.in_thread
            media = await load(requests, pictures, silero, in_thread, self._claim)
        except ProtocolError as problem:
            self._apply(protocol.not_loaded(problem))
        else:
            self._apply(protocol.loaded(media, now=services.clock()))

    async def _hear(
        self, appends: Sequence[Append], *, flush: bool = False, ends: bool = False
    ) -> None:
        if not appends and not flush:
            return
        if not self._protocol.can_hear:
            if appends:
                self._apply(self._protocol.refuse_audio(appends[0].event_id))
            return
        await self._room_for_turns()
        chunks, wants = [append.audio for append in appends], self._protocol.wants_sound
        event_id = appends[-1].event_id if appends else None
        try:
            async for part in self._hearing.heard(chunks, wants, flush=flush, ends=ends):
                now, is_rest = self._services.clock(), not appends
                self._apply(self._protocol.hear(part, now=now, event_id=event_id, is_rest=is_rest))
        except ProtocolError as problem:
            self._apply([*self._protocol.refuse(problem), Close(1008, problem.code)])

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
        self._lifetime.answered()
        try:
            self._apply(self._protocol.engine(event, now=self._services.clock()))
        except Exception as error:
            self._fail(error)
        self._progress.set()
        self._look()

    def _apply(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            if self._outbox.state is not State.OPEN:
                break
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
                        if (failed := failure(output.message, error)) is not None:
                            self._apply(self._protocol.engine(failed, now=self._services.clock()))
                case UseModel():
                    self._engine.use_model(self.id, output.model)
                case Tune():
                    self._hearing.tune(output)
                case ResetIntake():
                    self._hearing.end_turn(output.sample)
                case TurnFinished() | ResponseFinished() | GuessAsked():
                    self._tally.found(output)
                case Close():
                    self._outbox.close(self._dialect.closing(output))
        if self._attachment is None and self._outbox.state is not State.OPEN:
            self._end()  # there is nobody to tell

    def _fail(self, error: Exception) -> None:
        """Our own bug: the client is told and closed, other sessions go on."""
        self._tally.bug(error)
        self._apply([*self._protocol.refuse(our_bug()), Close(1011, "internal error")])
