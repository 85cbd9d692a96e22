"""A conversation over one WebSocket: pictures, text and speech in, answers out.

    async with AsyncClient().conversation() as talk:
        await talk.add_image("street.jpg")
        question = await talk.add_audio("question.wav")
        async for text in talk.respond():
            print(text, end="")

The server keeps the conversation; a picture is sent once, however many questions are about it. A
lost connection is made anew: what was said, shown and answered is told again (`ConversationLog`),
and what was under way is done once more.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Self

from lookhear.chat.answers import Answer, AnswerEvent, AnswerRestarted
from lookhear.chat.content import medium_url
from lookhear.chat.reconnecting import ConversationOptions, ReconnectingChannel, item_added
from lookhear.chat.responses import Response
from lookhear.errors import ConnectionFailed, LookhearError, ServerError, server_error
from lookhear.sources.audio import Source, at_pace, read_source
from lookhear.sources.files import Medium, require_list
from lookhear.sources.microphone import Microphone
from lookhear.sources.repeatable import RepeatableAudio
from lookhear.transport.address import Server
from lookhear.transport.channel import Channel, Message, Waiter, new_event_id
from lookhear.transport.realtime import without_none

_CANCEL_SECONDS = 10.0  # how long a cancelled answer may take to end
_FRAME = "frame_"  # how the names of events begin that carry one
_TRANSCRIPTION = "conversation.item.input_audio_transcription."


class Conversation:
    """Made by `AsyncClient.conversation`; `async with` connects and hangs up.

    Methods raise ServerError and its kinds, after which the conversation goes on, and
    ConnectionFailed (the server did not come back, or does not take the conversation again) or
    ProtocolError, after which it is over.
    """

    def __init__(self, server: Server, options: ConversationOptions) -> None:
        self._log = options.log()
        self._connection = ReconnectingChannel(
            server, options, self._log, self._take, self._take_stray_error, self._lost
        )
        self._speaking = asyncio.Lock()  # the server has one buffer for what is said
        # Of committed speech, by item; an error in place of text if there is none.
        self._transcripts: dict[str, asyncio.Future[str | LookhearError]] = {}
        # Places in the log are those of sending, as the server handles events in that order; what
        # becomes of them is told later, and not in that order.
        self._commit_place = 0  # of the newest commit
        self._spoken_places: dict[str, int] = {}  # of what has no transcript yet, by item
        self._response: Response | None = None  # the one being written
        self._asked: Channel | None = None  # where
        self._place: int | None = None  # of the answer in the log, if it is to be there
        self._frame_error: ServerError | None = None  # about a frame that was sent earlier
        self.model: str | None = None  # what answers, once connected and if the server says

    async def __aenter__(self) -> Self:
        updated = await self._connection.open()
        self.model = (updated.get("session") or {}).get("model")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Hang up. The server forgets the conversation and stops what it does for it."""
        await self._connection.aclose()

    @property
    def reconnects(self) -> int:
        """How often the connection was lost and made anew."""
        return self._connection.reconnects

    # --- what is said -----------------------------------------------------------------------------

    async def add(
        self,
        text: str = "",
        *,
        images: Sequence[Medium] = (),
        detail: str | None = None,
        role: str = "user",
    ) -> str:
        """One message: pictures (paths, bytes, URLs) and text. Returns its item id, for `delete`.

        role: "user", "system", or "assistant" for what is to count as said by the model. detail:
        "low", "high" or "auto", for the pictures. SourceError for a file that cannot be read.
        """
        require_list("images", images)
        urls = [await asyncio.to_thread(medium_url, image) for image in images]
        content = [without_none(type="input_image", image_url=url, detail=detail) for url in urls]
        if text or not content:
            kind = "output_text" if role == "assistant" else "input_text"
            content.append({"type": kind, "text": text})
        item_id = f"item_{secrets.token_hex(12)}"
        item = {"id": item_id, "type": "message", "role": role, "content": content}
        create = {"type": "conversation.item.create", "item": item}

        async def send(channel: Channel) -> None:
            place = self._log.place()
            await channel.ask(create, item_added(item_id))
            self._log.created(item, place)

        await self._connection.with_retries(send)
        return item_id

    async def add_image(self, image: Medium, detail: str | None = None) -> str:
        """A picture as a message of its own; its item id."""
        return await self.add(images=[image], detail=detail)

    async def add_text(self, text: str, role: str = "user") -> str:
        """A message; its item id."""
        return await self.add(text, role=role)

    async def add_audio(
        self, source: Source, *, rate: int | None = None, pace: float | None = None
    ) -> str:
        """Say something: a source as for `transcribe` becomes one message. Returns its transcript.

        The server transcribes while the source is being sent. pace: 1.0 sends a file as fast as it
        would be spoken. Who speaks meanwhile waits. SourceError if it cannot be read.
        """
        microphone = source if isinstance(source, Microphone) else None
        opened = microphone is not None and microphone.start()
        pieces = read_source(source, rate)
        if pace is not None:
            pieces = at_pace(pieces, pace)
        question = RepeatableAudio(pieces)
        try:
            return await self._connection.with_retries(lambda channel: self._say(channel, question))
        finally:
            if microphone is not None and opened:
                microphone.stop()

    async def _say(self, channel: Channel, question: RepeatableAudio) -> str:
        """Say it on this connection; its transcript."""
        async with self._speaking:
            return await self._say_alone(channel, question)

    async def _say_alone(self, channel: Channel, question: RepeatableAudio) -> str:
        if not question.repeatable:
            raise ConnectionFailed("the connection was lost in a question too long to say again")
        committed = "input_audio_buffer.committed"
        try:
            with channel.waiting(lambda m: m["type"] == committed) as waiter:
                try:
                    await self._send_audio(channel, question, waiter)
                    async with channel.reply_timeout():
                        item_id = (await waiter.reply)["item_id"]
                except BaseException:
                    await self._clear(channel)
                    raise
            async with channel.reply_timeout():
                said = await self._transcripts[item_id]
        finally:
            self._transcripts.clear()  # one is spoken at a time
        if isinstance(said, LookhearError):
            raise said
        return said

    async def _send_audio(
        self, channel: Channel, question: RepeatableAudio, waiter: Waiter
    ) -> None:
        """Send and commit all of it."""
        # Every piece carries the name of the commit: an error about any of them ends the waiting.
        name = {"event_id": waiter.event_id}
        async with contextlib.aclosing(question.from_start()) as blocks:
            async for block in blocks:
                audio = base64.b64encode(block).decode("ascii")
                await channel.send({"type": "input_audio_buffer.append", "audio": audio, **name})
                if waiter.reply.done():  # refused: the rest would be too
                    return
        self._commit_place = self._log.place()
        await channel.send({"type": "input_audio_buffer.commit", **name})

    async def _clear(self, channel: Channel) -> None:
        """Leave nothing of a failed source behind; replies to it that are still under way come
        before the reply to this."""
        with contextlib.suppress(LookhearError):
            await channel.ask(
                {"type": "input_audio_buffer.clear"},
                lambda m: m["type"] == "input_audio_buffer.cleared",
            )

    async def show_frame(self, image: Medium, seconds: float | None = None) -> None:
        """A frame of a live camera, as a picture file's path or bytes (lookhear servers only).

        seconds: when it was taken, on any clock that does not run backwards; None: now, by
        `time.monotonic`. Frames may come at any rate: the server keeps what changed, thins out what
        is old, and reads ahead, so that the next answer is about what is seen now and comes at
        once. Not acknowledged: what was wrong with a frame is raised by the next call of this.
        """
        if (error := self._frame_error) is not None:
            self._frame_error = None
            raise error
        milliseconds = round((time.monotonic() if seconds is None else seconds) * 1000)
        frame = {
            "type": "lookhear.input_video_frame.append",
            "event_id": f"{_FRAME}{secrets.token_hex(12)}",
            "image": await asyncio.to_thread(medium_url, image),
            "timestamp_ms": milliseconds,
        }
        await self._connection.with_retries(lambda channel: channel.send(frame))
        self._log.seen(frame)

    async def forget_frames(self) -> None:
        """What the camera showed is taken out of the conversation."""
        await self._connection.ask(
            {"type": "lookhear.input_video_frame.clear"},
            lambda m: m["type"] == "lookhear.input_video_frame.cleared",
        )
        self._log.forget_frames()
        self._frame_error = None  # it was about one that is gone

    async def delete(self, item_id: str) -> None:
        """Take a message out of the conversation."""
        await self._connection.ask(
            {"type": "conversation.item.delete", "item_id": item_id},
            lambda m: m["type"] == "conversation.item.deleted" and m["item_id"] == item_id,
        )
        self._log.deleted(item_id)

    # --- what is answered -------------------------------------------------------------------------

    def respond(
        self,
        *,
        instructions: str | None = None,
        max_tokens: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Let the model answer what was said. instructions, max_tokens: for this answer alone;
        extra: further fields of the response, as in the protocol.

        There is one answer at a time: the next one cancels one that still runs.
        """
        fields = {"instructions": instructions, "max_output_tokens": max_tokens, **(extra or {})}
        return Answer(self._answer(without_none(**fields)))

    async def _answer(self, wanted: Message) -> AsyncGenerator[AnswerEvent, None]:
        """Asked again each time the connection breaks, a few times at most."""
        if self._response is not None:
            await self._cancel(self._response)
        kept = wanted.get("conversation") != "none"
        place = self._log.place() if kept else None
        losses = 0
        while True:
            channel = await self._connection.channel()
            response, self._place = Response(), place
            try:
                async with contextlib.aclosing(self._try(channel, response, wanted)) as events:
                    async for event in events:
                        yield event
                return
            except LookhearError as error:
                if not await self._connection.may_retry(channel, error, losses):
                    raise
                losses += 1
                yield AnswerRestarted(str(error))

    async def _try(
        self, channel: Channel, response: Response, wanted: Message
    ) -> AsyncGenerator[AnswerEvent, None]:
        """An answer on this connection."""
        self._response, self._asked = response, channel
        with channel.waiting(lambda m: m["type"] == "response.created") as waiter:
            waiter.reply.add_done_callback(lambda reply: _refuse(response, reply))
            create = {"type": "response.create", "response": wanted}
            try:
                await channel.send({**create, "event_id": waiter.event_id})
                while True:
                    async with channel.reply_timeout():
                        event = await response.next()
                    if event is None:
                        return
                    yield event
            finally:
                await self._cancel(response)

    async def _cancel(self, response: Response) -> None:
        """Make an end of it, so that the next can begin."""
        if not response.done.is_set() and self._asked is not None:
            # It may end by itself meanwhile: nobody waits for the error that this then causes.
            with contextlib.suppress(LookhearError, TimeoutError):
                await self._asked.send({"type": "response.cancel", "event_id": new_event_id()})
                async with asyncio.timeout(_CANCEL_SECONDS):
                    await response.done.wait()
        if self._response is response:
            self._response = None

    # --- what the server tells --------------------------------------------------------------------

    def _take(self, message: Message) -> None:
        kind = message["type"]
        if kind == "input_audio_buffer.committed":
            self._transcripts[message["item_id"]] = asyncio.get_running_loop().create_future()
            self._spoken_places[message["item_id"]] = self._commit_place
        elif kind in (f"{_TRANSCRIPTION}completed", f"{_TRANSCRIPTION}failed"):
            place = self._spoken_places.pop(message["item_id"], None)
            if kind.endswith("completed"):
                self._log.spoken(message["item_id"], str(message["transcript"]), place)
            transcript = self._transcripts.get(message["item_id"])
            if transcript is not None and not transcript.done():
                failed = kind.endswith("failed")
                transcript.set_result(
                    server_error(message["error"]) if failed else str(message["transcript"])
                )
        elif kind.startswith(("response.", "lookhear.response.")) and self._response is not None:
            self._response.take(message)
            if self._response.ended:
                self._keep(self._response)

    def _keep(self, response: Response) -> None:
        """An answer has ended, however: what was said of it is part of the conversation."""
        if self._place is not None and response.text:
            item_id = response.item_id or f"item_{secrets.token_hex(12)}"
            self._log.answered(item_id, response.text, self._place)
        self._place = None

    def _take_stray_error(self, event_id: str, error: ServerError) -> None:
        """Only frames are sent without waiting; what else comes late is about what was given up."""
        if event_id.startswith(_FRAME):
            self._frame_error = error
            self._log.refused(event_id)

    def _lost(self, error: LookhearError) -> None:
        for transcript in self._transcripts.values():
            if not transcript.done():
                transcript.set_result(error)
        self._spoken_places.clear()  # it is said again, and behind what was told again
        if self._response is not None:
            self._response.fail(error)


def _refuse(response: Response, reply: asyncio.Future[Message]) -> None:
    """The server did not begin the answer: `reply` is why."""
    if not reply.cancelled() and (error := reply.exception()) is not None:
        assert isinstance(error, LookhearError), error
        response.fail(error)
