"""One live transcription over the wire: pump, sender, receiver, and reconnecting between them.

The *pump* reads the source into the replay buffer. Per connection a *sender* reads the buffer from
the connection's base and sends; the *receiver* feeds server events to `TurnTracker` and yields what
it says. When the connection breaks, the next one goes on with the same session, behind the last
event and the last byte (`Resume`). Where the server has not kept it, a new one starts at
`TurnTracker.needed_from`: everything unfinished is sent again, nothing finished is. Both directions
are bounded: the pump stops when too much is unsent, the sender when the server has not answered the
last but one ping, and the socket stops the server when nobody takes our events.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import (
    ConnectionClosed,
    ConnectionClosedError,
    InvalidHandshake,
    InvalidStatus,
)
from websockets.frames import Close, CloseCode

from lookhear.errors import NO_PLACE, ConnectionFailed, LookhearError, ServerError, in_words
from lookhear.live.events import Event, Reconnecting, SessionReady
from lookhear.live.options import StreamOptions
from lookhear.live.replay import ReplayBuffer
from lookhear.live.resume import Resume
from lookhear.live.turns import TurnTracker
from lookhear.sources.audio import Source, at_pace, read_source
from lookhear.sources.microphone import Microphone
from lookhear.sources.pcm import RATE, SAMPLE_BYTES
from lookhear.transport.address import Server
from lookhear.transport.realtime import (
    Opening,
    close_reason,
    lost_connection,
    open_realtime,
    parse_frame,
    told_error,
    without_none,
)
from lookhear.transport.retry import Attempts, Retry, is_loading

_END_COMMIT = "lookhear_end_of_source"
_MAX_APPEND_SECONDS = 1.0
_PING_SECONDS = 2.5  # of audio between two pings; at most two such stretches are unanswered


class LiveStream:
    """One source, transcribed once. Iterate `events()`; close it to stop early. clock, sleep: as of
    `time.monotonic` and `asyncio.sleep`."""

    def __init__(
        self,
        server: Server,
        source: Source,
        options: StreamOptions,
        retry: Retry,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._server = server
        self._source = source
        self._options = options
        self._retry = retry
        self._clock, self._sleep = clock, sleep
        self._tracker = TurnTracker(options.turn_detection)
        # What is unsent is bounded by itself, and must never be what makes room.
        kept = options.replay_seconds + options.ahead_seconds + _MAX_APPEND_SECONDS
        self._buffer = ReplayBuffer(int(kept * RATE))
        self._resume = Resume()
        self._ready: SessionReady | None = None  # what was said of the present session
        self._sent = 0  # source samples the present connection has been given
        self._ahead = options.ahead_seconds  # what may be unsent now
        self._last_resume = 0  # where the last replay started
        self._source_ended = False
        self._failure: Exception | None = None  # of the source
        self._held_error: ServerError | None = None
        self._changed = asyncio.Condition()  # the buffer grew, shrank, or the source ended

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield until the last turn of the source is done.

        SourceError, ServerError and its kinds, ConnectionFailed, ProtocolError.
        """
        microphone = self._source if isinstance(self._source, Microphone) else None
        # What is said while connecting counts. A microphone that is on already is not ours to stop.
        opened = microphone is not None and microphone.start()
        pump: asyncio.Task[None] | None = None
        attempts = Attempts(self._retry)
        ready = False
        try:
            while True:
                connected_at = self._clock()
                try:
                    async with self._connect() as socket:
                        connected_at = self._clock()
                        async with contextlib.aclosing(self._converse(socket)) as events:
                            async for event in events:
                                ready = ready or isinstance(event, SessionReady)
                                if pump is None:
                                    pump = asyncio.create_task(self._pump())
                                yield event
                        return
                except (ConnectionClosed, InvalidHandshake, OSError, TimeoutError) as error:
                    if self._failure is not None:
                        raise self._failure from None
                    if self._resume.is_refused(error):
                        self._resume.forget()
                        yield self._lost(
                            attempts.count, 0.0, "a new session", self._patience(ready)
                        )
                        continue
                    self._resume.cut(error)
                    lost, reason = self._retry_reason(error, ready)
                    loading = is_loading(lost)
                now = self._clock()
                steady = now - connected_at > self._options.steady_seconds
                useful = steady or self._progressed()
                patience = self._patience(ready)
                told = _retry_after(lost)
                if not attempts.lost(
                    now, patience=patience, useful=useful, loading=loading, told=told
                ):
                    if not ready and told is not None:
                        raise lost
                    raise self._held_error or ConnectionFailed(
                        f"lost {self._server.base_url} and {attempts.count} tries did not bring it "
                        f"back in {attempts.seconds:.0f} s: {reason}"
                    )
                delay = attempts.delay()
                left = (self._retry.loading if loading else patience) - attempts.seconds
                yield self._lost(attempts.count, delay, reason, left)
                await self._read_ahead(self._options.replay_seconds)
                await self._sleep(delay)
        finally:
            if microphone is not None and opened:
                microphone.stop()
            if pump is not None:
                pump.cancel()
                await asyncio.gather(pump, return_exceptions=True)

    # --- the connection ---------------------------------------------------------------------------

    def _connect(self) -> Opening:
        query = without_none(intent="transcription", model=self._options.model)
        return open_realtime(self._server, self._resume.query or query)

    async def _converse(self, socket: ClientConnection) -> AsyncGenerator[Event, None]:
        """Everything on one connection, from the session's configuration, or from where the one
        before was cut, to its last turn."""
        self._held_error = None
        if self._resume.query is None:
            with contextlib.suppress(ConnectionClosed):  # what was said before it is to be read
                await socket.send(json.dumps(self._options.session_update()))
        sender: asyncio.Task[None] | None = None
        try:
            while not self._tracker.finished:
                answer_due = sender is None or sender.done()
                try:
                    async with asyncio.timeout(self._options.answer_seconds):
                        message = parse_frame(await socket.recv())
                except TimeoutError:
                    if answer_due:
                        raise TimeoutError("the server has stopped answering") from None
                    continue  # it is quiet because nobody speaks
                self._resume.heard(message)
                if message.get("type") == "error":
                    self._take_error(message)
                    continue
                if message.get("type") == "lookhear.session.resumed":
                    self._sent = self._resume.base + int(message["audio_bytes"]) // SAMPLE_BYTES
                    await self._read_ahead(self._options.ahead_seconds)
                    sender = asyncio.create_task(self._send(socket))
                    if self._ready is not None:
                        yield self._ready
                for event in self._tracker.receive(message):
                    if isinstance(event, SessionReady):
                        if sender is not None:
                            continue
                        self._ready = event
                        self._resume.begin(self._sent)
                        self._tracker.connected(self._sent)
                        await self._read_ahead(self._options.ahead_seconds)
                        sender = asyncio.create_task(self._send(socket))
                    yield event
                self._forget_done()
        finally:
            if sender is not None:
                sender.cancel()
                await asyncio.gather(sender, return_exceptions=True)

    async def _send(self, socket: ClientConnection) -> None:
        """Send the buffer from `_sent` on, and at the source's end commit it."""
        largest = int(_MAX_APPEND_SECONDS * RATE)
        pinged_at = self._sent
        pong: Any = None
        try:
            while pcm := await self._next_audio(largest):
                audio = base64.b64encode(pcm).decode("ascii")
                await socket.send('{"type":"input_audio_buffer.append","audio":"' + audio + '"}')
                self._sent += len(pcm) // SAMPLE_BYTES
                await self._notify()
                if self._sent - pinged_at >= _PING_SECONDS * RATE:
                    if pong is not None:
                        await pong
                    pong, pinged_at = await socket.ping(), self._sent
            if self._failure is not None:
                await socket.close()
            else:
                self._tracker.end_committed(self._sent)
                commit = {"type": "input_audio_buffer.commit", "event_id": _END_COMMIT}
                await socket.send(json.dumps(commit))
                # Nothing is left to clear: the answer tells that the commit was dealt with, which
                # no other event does when the rest of the buffer held no speech.
                await socket.send('{"type":"input_audio_buffer.clear"}')
        except ConnectionClosed:
            return  # the receiver meets the same and knows what to do
        except Exception as error:  # ours: it must not leave the receiver waiting for ever
            self._failure = error
            await socket.close()

    def _take_error(self, message: Mapping[str, Any]) -> None:
        """An `error` event: hold it if a close will follow, ignore our empty commit, or raise. Who
        has no place is as one whom the server closes for it: it comes back for one."""
        error, closes = told_error(message)
        is_of_commit = message["error"].get("event_id") == _END_COMMIT
        if is_of_commit and str(error.code).endswith("_empty"):
            return
        if not closes and error.code != NO_PLACE:
            raise error
        self._held_error = error
        if not closes:
            raise ConnectionClosedError(Close(CloseCode.TRY_AGAIN_LATER, error.message), None)

    # --- losing it and coming back ----------------------------------------------------------------

    def _retry_reason(self, error: Exception, ready: bool) -> tuple[LookhearError, str]:
        """Why the connection is gone, also in words for people. Raises where trying again would not
        help."""
        lost, transient = lost_connection(self._server, error, self._held_error)
        if isinstance(error, ConnectionClosed) and transient:
            code, said = close_reason(error, self._held_error)
            loads = is_loading(self._held_error)
            return lost, said if loads else f"closed with {code}: {said}"
        if not transient or not (ready or _retry_after(lost) is not None):
            raise lost from error
        return lost, str(lost) if isinstance(error, InvalidStatus) else in_words(error)

    def _patience(self, ready: bool) -> float:
        """Seconds for which a server is sought. ready: it has let us in before."""
        if not ready:
            return self._retry.refused
        kept = self._options.replay_seconds
        return kept if self._retry.seconds is None else self._retry.seconds

    async def _read_ahead(self, seconds: float) -> None:
        """So much may be unsent from now on."""
        self._ahead = seconds
        await self._notify()

    def _progressed(self) -> bool:
        """Whether the lost connection got anything done."""
        return self._tracker.needed_from > self._last_resume

    def _lost(self, attempt: int, delay: float, reason: str, patience: float) -> Reconnecting:
        """Rewind to what must be said again; nothing, while the session may still be there."""
        if self._resume.query is not None:
            self._last_resume = self._tracker.needed_from
            position = self._sent / RATE
            return Reconnecting(attempt, delay, reason, (), position, patience=patience)
        speaking = self._tracker.speaking
        superseded = self._tracker.disconnected()
        needed = self._tracker.needed_from
        lost = max(0, self._buffer.start - needed)
        self._tracker.skipped_to(self._buffer.start)
        self._sent = self._last_resume = self._tracker.needed_from
        return Reconnecting(
            attempt=attempt,
            delay=delay,
            reason=reason,
            superseded=superseded,
            resume=self._sent / RATE,
            # Outside a turn only silence can be that old: dropping it loses nothing.
            lost=lost / RATE if speaking else 0.0,
            patience=patience,
        )

    # --- the source -------------------------------------------------------------------------------

    async def _pump(self) -> None:
        pieces = read_source(self._source, self._options.rate)
        if self._options.pace is not None:
            pieces = at_pace(pieces, self._options.pace)
        size = int(_MAX_APPEND_SECONDS * RATE) * SAMPLE_BYTES
        try:
            async for piece in pieces:
                for first in range(0, len(piece), size):
                    async with self._changed:
                        await self._changed.wait_for(
                            lambda: self._buffer.end - self._sent <= self._ahead * RATE
                        )
                        self._buffer.append(piece[first : first + size])
                        self._changed.notify_all()
        except Exception as error:  # whatever the user's source raises is the user's to see
            self._failure = error
        finally:
            self._source_ended = True
            await self._notify()

    async def _next_audio(self, most: int) -> bytes:
        """The next unsent samples, at most `most`; empty at the end of the source."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: self._source_ended or self._buffer.end > self._sent
            )
        return self._buffer.read(self._sent, most)

    def _forget_done(self) -> None:
        """Free what no reconnect will need, silence what one must not repeat."""
        for start, end in self._tracker.blanks():
            self._buffer.blank(start, end)
        self._buffer.release(min(self._tracker.needed_from, self._sent))

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _retry_after(lost: LookhearError) -> float | None:
    """Seconds after which the server said that we may come back."""
    return lost.retry_after if isinstance(lost, ServerError) else None
