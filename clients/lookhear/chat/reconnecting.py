"""The connection of a conversation, which comes back: a new `Channel`, and everything told again.

A connection that breaks is noticed by whoever uses it next. It is then made anew, the session is
configured, the items and frames of `ConversationLog` are told again, and the work that met the
loss is done again on the new connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from lookhear.chat.conversation_log import ConversationLog
from lookhear.errors import ConnectionFailed, LookhearError, ServerError
from lookhear.sources.pcm import RATE
from lookhear.transport.address import Server
from lookhear.transport.channel import Channel, ChannelState, Message, Waiter
from lookhear.transport.realtime import without_none
from lookhear.transport.retry import Attempts, Retry, is_loading

T = TypeVar("T")

log = logging.getLogger("lookhear")

PATIENCE_SECONDS = 300.0  # for which a lost server is sought, as the live stream does
LOSSES = 5  # of connections in the middle of one piece of work


@dataclass(frozen=True, slots=True)
class ConversationOptions:
    """What the session asks for; None is the server's default."""

    model: str | None = None  # what answers
    instructions: str | None = None  # the system message
    max_tokens: int | None = None  # of an answer
    transcription_model: str | None = None  # of spoken questions
    language: str | None = None  # of spoken questions
    # The session's `lookhear` object, for what OpenAI's sessions have no field for: temperature,
    # top_p, seed, reasoning, camera, …
    extension: Mapping[str, Any] | None = None
    answer_seconds: float = 600.0  # how long the server may be silent when it is to answer
    retry: Retry = Retry()  # how a lost connection is sought again

    def session_update(self) -> dict[str, Any]:
        """The client event that asks for this session."""
        wanted = without_none(model=self.transcription_model, language=self.language)
        spoken: dict[str, Any] = {
            "format": {"type": "audio/pcm", "rate": RATE},
            **({"transcription": wanted} if wanted else {}),
            "turn_detection": None,  # `add_audio` says where a question ends
        }
        session = without_none(
            type="realtime",
            model=self.model,
            instructions=self.instructions,
            max_output_tokens=self.max_tokens,
            output_modalities=["text"],
            audio={"input": spoken},
            lookhear=self.extension and dict(self.extension),
        )
        return {"type": "session.update", "session": session}

    def log(self) -> ConversationLog:
        """For the camera that these options ask for."""
        camera = (self.extension or {}).get("camera") or {}
        return ConversationLog(
            int(camera.get("max_frames") or 16), float(camera.get("max_fps") or 4.0)
        )


class ReconnectingChannel:
    """A `Channel` that is made anew when it was lost, with the conversation so far.

    on_message, on_error, on_lost: as of `Channel`, of whichever is the present one.
    """

    def __init__(
        self,
        server: Server,
        options: ConversationOptions,
        log: ConversationLog,
        on_message: Callable[[Message], None],
        on_error: Callable[[str, ServerError], None],
        on_lost: Callable[[LookhearError], None],
    ) -> None:
        self._server = server
        self._options = options
        self._log = log
        self._callbacks = (on_message, on_error, on_lost)
        self._channel = self._new_channel()
        self._restoring = asyncio.Lock()
        self._closed = asyncio.Event()
        self.reconnects = 0  # how often it was made anew

    async def open(self) -> Message:
        """The session as the server configured it; a server that is full for now is asked again
        when it says. ConnectionFailed, ServerError and its kinds."""
        self._require_open()
        attempts, retry = Attempts(self._options.retry), self._options.retry
        while True:
            try:
                return await self._configure(self._channel)
            except ServerError as error:
                told, now = error.retry_after, time.monotonic()
                if told is None or not attempts.lost(
                    now, patience=retry.refused, loading=is_loading(error), told=told
                ):
                    raise
                delay = attempts.delay()
                log.warning("%s; trying again in %.0f s", error, delay)
                await self._pause(delay, error)
                self._channel = self._new_channel()

    async def aclose(self) -> None:
        """Hang up for good: it is not made anew."""
        self._closed.set()
        await self._channel.aclose()

    async def channel(self) -> Channel:
        """The present connection, made anew if it was lost. Raises what makes that impossible."""
        self._require_open()
        async with self._restoring:
            lost, state = self._channel.lost, self._channel.state
            if lost is not None and state is ChannelState.LOST and not self._closed.is_set():
                await self._restore(lost)
        return self._channel

    async def with_retries(self, work: Callable[[Channel], Awaitable[T]]) -> T:
        """Do something on the connection; once more each time it breaks, a few times at most."""
        losses = 0
        while True:
            channel = await self.channel()
            try:
                return await work(channel)
            except LookhearError as error:
                if not await self.may_retry(channel, error, losses):
                    raise
                losses += 1

    async def may_retry(self, channel: Channel, error: LookhearError, losses: int) -> bool:
        """Whether `error` means no more than that this connection broke, after that many others."""
        await channel.await_close(error)
        lost = error is channel.lost and channel.state is ChannelState.LOST
        most = LOSSES if self._options.retry.tries is None else self._options.retry.tries
        return lost and not self._closed.is_set() and losses < most

    async def ask(self, event: Message, matches: Callable[[Message], bool]) -> Message:
        """As `Channel.ask`, through lost connections."""
        return await self.with_retries(lambda channel: channel.ask(event, matches))

    # --- making it anew ---------------------------------------------------------------------------

    def _require_open(self) -> None:
        """ConnectionFailed once it was hung up."""
        if self._closed.is_set():
            raise ConnectionFailed("the conversation was closed: begin another one")

    def _new_channel(self) -> Channel:
        return Channel(self._server, *self._callbacks, self._options.answer_seconds)

    async def _configure(self, channel: Channel) -> Message:
        await channel.open(without_none(model=self._options.model))
        try:
            return await channel.ask(
                self._options.session_update(), lambda m: m["type"] == "session.updated"
            )
        except BaseException as error:
            if isinstance(error, LookhearError):
                await channel.await_close(error)
            await channel.aclose()
            raise

    async def _restore(self, reason: LookhearError) -> None:
        attempts = Attempts(self._options.retry)
        retry = self._options.retry
        patience = PATIENCE_SECONDS if retry.seconds is None else retry.seconds
        while attempts.lost(
            time.monotonic(),
            patience=patience,
            loading=is_loading(reason),
            told=reason.retry_after if isinstance(reason, ServerError) else None,
        ):
            await self._pause(attempts.delay(), reason)
            channel = self._new_channel()
            try:
                await self._configure(channel)
                await self._replay(channel)
            except LookhearError as error:
                await channel.aclose()
                if channel.state is not ChannelState.LOST:
                    self._channel.end(error)
                    raise
                reason = error
                continue
            except BaseException:
                await channel.aclose()
                raise
            self._channel = channel
            self.reconnects += 1
            if self._closed.is_set():
                await channel.aclose()
            return
        lost = ConnectionFailed(
            f"lost {self._server.base_url} and {attempts.count} tries did not bring it back in "
            f"{attempts.seconds:.0f} s: {reason}"
        )
        self._channel.end(lost)
        raise lost

    async def _pause(self, seconds: float, reason: LookhearError) -> None:
        """Raises the reason for it if the conversation is closed meanwhile."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()
            raise reason

    async def _replay(self, channel: Channel) -> None:
        """All at once: a round trip each would take its time."""
        waiters: list[Waiter] = []
        with contextlib.ExitStack() as stack:
            for item_id, event in self._log.events():
                if item_id is None:
                    await channel.send(event)
                    continue
                waiter = stack.enter_context(channel.waiting(item_added(item_id)))
                waiters.append(waiter)
                await channel.send({**event, "event_id": waiter.event_id})
            try:
                for waiter in waiters:
                    async with channel.reply_timeout():
                        await waiter.reply
            except ServerError as error:
                if error is channel.lost:
                    raise
                raise ConnectionFailed(
                    f"{self._server.base_url} is back, but does not take the conversation again: "
                    f"{error}"
                ) from error


def item_added(item_id: str) -> Callable[[Message], bool]:
    """Matches the server's word that it has the item."""
    return lambda m: m["type"] == "conversation.item.added" and m["item"]["id"] == item_id
