"""A conversation over one WebSocket: pictures, text and speech in, answers out.

    async with AsyncClient().conversation() as talk:
        await talk.add_image("street.jpg")
        question = await talk.add_audio("question.wav")
        async for text in talk.respond():
            print(text, end="")

The server keeps the conversation; a picture is sent once, however many questions are about it. A
lost connection loses it: `ConnectionFailed`, and the conversation is over.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from lookhear.address import Server
from lookhear.answers import Answer, AnswerEvent
from lookhear.audio import Microphone, Source, at_pace, read_source
from lookhear.channel import Channel, Message, Waiter, new_event_id
from lookhear.content import Medium, medium_url
from lookhear.errors import LookhearError, ServerError, server_error
from lookhear.replay import RATE, SAMPLE_BYTES
from lookhear.responses import Response

_MAX_APPEND_BYTES = RATE * SAMPLE_BYTES  # a second
_CANCEL_SECONDS = 10.0  # how long a cancelled answer may take to end
_FRAME = "frame_"  # how the names of events begin that carry one
_TRANSCRIPTION = "conversation.item.input_audio_transcription."


@dataclass(frozen=True, slots=True)
class ConversationOptions:
    """What the session asks for; None is the server's default. transcription_model, language: of
    spoken questions. extension: the session's `lookhear` object, for what OpenAI's sessions have no
    field for: temperature, top_p, seed, reasoning, camera, … answer_seconds: how long the server
    may be silent when it is to answer."""

    model: str | None = None
    instructions: str | None = None
    max_tokens: int | None = None
    transcription_model: str | None = None
    language: str | None = None
    extension: Mapping[str, Any] | None = None
    answer_seconds: float = 600.0

    def session_update(self) -> dict[str, Any]:
        wanted = _given(model=self.transcription_model, language=self.language)
        spoken: dict[str, Any] = {
            "format": {"type": "audio/pcm", "rate": RATE},
            **({"transcription": wanted} if wanted else {}),
            "turn_detection": None,  # `add_audio` says where a question ends
        }
        session = _given(
            type="realtime",
            model=self.model,
            instructions=self.instructions,
            max_output_tokens=self.max_tokens,
            output_modalities=["text"],
            audio={"input": spoken},
            lookhear=self.extension and dict(self.extension),
        )
        return {"type": "session.update", "session": session}


class Conversation:
    """Made by `AsyncClient.conversation`; `async with` connects and hangs up.

    Methods raise ServerError and its kinds, after which the conversation goes on, and
    ConnectionFailed or ProtocolError, after which it is over.
    """

    def __init__(self, server: Server, options: ConversationOptions) -> None:
        self._options = options
        self._channel = Channel(server, self._take, self._stray, self._lost, options.answer_seconds)
        # Of committed speech, by item; an error in place of text if there is none.
        self._transcripts: dict[str, asyncio.Future[str | LookhearError]] = {}
        self._response: Response | None = None  # the one being written
        self._frame_error: ServerError | None = None  # about a frame that was sent earlier
        self.model: str | None = None  # what answers, once connected and if the server says

    async def __aenter__(self) -> Self:
        await self._channel.open(_given(model=self._options.model))
        try:
            updated = await self._channel.ask(
                self._options.session_update(), lambda m: m["type"] == "session.updated"
            )
        except BaseException:
            await self._channel.aclose()
            raise
        self.model = (updated.get("session") or {}).get("model")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Hang up. The server forgets the conversation and stops what it does for it."""
        await self._channel.aclose()

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
        urls = [await asyncio.to_thread(medium_url, image) for image in images]
        content = [_given(type="input_image", image_url=url, detail=detail) for url in urls]
        if text or not content:
            kind = "output_text" if role == "assistant" else "input_text"
            content.append({"type": kind, "text": text})
        item_id = f"item_{secrets.token_hex(12)}"
        item = {"id": item_id, "type": "message", "role": role, "content": content}

        await self._channel.ask(
            {"type": "conversation.item.create", "item": item},
            lambda m: m["type"] == "conversation.item.added" and m["item"]["id"] == item_id,
        )
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
        would be spoken. SourceError if it cannot be read.
        """
        microphone = source if isinstance(source, Microphone) else None
        opened = microphone is not None and microphone.start()
        committed = "input_audio_buffer.committed"
        try:
            with self._channel.waiting(lambda m: m["type"] == committed) as waiter:
                try:
                    await self._say(source, rate, pace, waiter)
                    async with self._channel.patience():
                        item_id = (await waiter.reply)["item_id"]
                except BaseException:
                    await self._clear()
                    raise
            async with self._channel.patience():
                said = await self._transcripts[item_id]
        finally:
            self._transcripts.clear()  # one is spoken at a time
            if microphone is not None and opened:
                microphone.stop()
        if isinstance(said, LookhearError):
            raise said
        return said

    async def _say(
        self, source: Source, rate: int | None, pace: float | None, waiter: Waiter
    ) -> None:
        """Send and commit all of the source."""
        pieces = read_source(source, rate)
        if pace is not None:
            pieces = at_pace(pieces, pace)
        # Every piece carries the name of the commit: an error about any of them ends the waiting.
        name = {"event_id": waiter.event_id}
        async for piece in pieces:
            for first in range(0, len(piece), _MAX_APPEND_BYTES):
                audio = base64.b64encode(piece[first : first + _MAX_APPEND_BYTES]).decode()
                await self._channel.send(
                    {"type": "input_audio_buffer.append", "audio": audio, **name}
                )
                if waiter.reply.done():  # refused: the rest would be too
                    return
        await self._channel.send({"type": "input_audio_buffer.commit", **name})

    async def _clear(self) -> None:
        """Leave nothing of a failed source behind; replies to it that are still under way come
        before the reply to this."""
        with contextlib.suppress(LookhearError):
            await self._channel.ask(
                {"type": "input_audio_buffer.clear"},
                lambda m: m["type"] == "input_audio_buffer.cleared",
            )

    async def show_frame(self, image: Medium, seconds: float) -> None:
        """A frame of a live camera, as a picture file's path or bytes (lookhear servers only).

        seconds: when it was taken, on any clock that does not run backwards. Frames may come at any
        rate: the server keeps what changed, thins out what is old, and reads ahead, so that the
        next answer is about what is seen now and comes at once. Not acknowledged: what was wrong
        with a frame is raised by the next call of this.
        """
        if (error := self._frame_error) is not None:
            self._frame_error = None
            raise error
        url = await asyncio.to_thread(medium_url, image)
        await self._channel.send(
            {
                "type": "lookhear.input_video_frame.append",
                "event_id": f"{_FRAME}{secrets.token_hex(12)}",
                "image": url,
                "timestamp_ms": round(seconds * 1000),
            }
        )

    async def forget_frames(self) -> None:
        """What the camera showed is taken out of the conversation."""
        await self._channel.ask(
            {"type": "lookhear.input_video_frame.clear"},
            lambda m: m["type"] == "lookhear.input_video_frame.cleared",
        )
        self._frame_error = None  # it was about one that is gone

    async def delete(self, item_id: str) -> None:
        """Take a message out of the conversation."""
        await self._channel.ask(
            {"type": "conversation.item.delete", "item_id": item_id},
            lambda m: m["type"] == "conversation.item.deleted" and m["item_id"] == item_id,
        )

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
        wanted = _given(
            instructions=instructions, max_output_tokens=max_tokens, **dict(extra or {})
        )
        return Answer(self._answer(wanted))

    async def _answer(self, wanted: Message) -> AsyncGenerator[AnswerEvent, None]:
        if self._response is not None:
            await self._cancel(self._response)
        response = self._response = Response()
        with self._channel.waiting(lambda m: m["type"] == "response.created") as waiter:
            waiter.reply.add_done_callback(lambda reply: _refuse(response, reply))
            create = {"type": "response.create", "response": wanted}
            try:
                await self._channel.send({**create, "event_id": waiter.event_id})
                while True:
                    async with self._channel.patience():
                        event = await response.next()
                    if event is None:
                        return
                    yield event
            finally:
                await self._cancel(response)

    async def _cancel(self, response: Response) -> None:
        """Make an end of it, so that the next can begin."""
        if not response.done.is_set():
            # It may end by itself meanwhile: nobody waits for the error that this then causes.
            with contextlib.suppress(LookhearError, TimeoutError):
                await self._channel.send({"type": "response.cancel", "event_id": new_event_id()})
                async with asyncio.timeout(_CANCEL_SECONDS):
                    await response.done.wait()
        if self._response is response:
            self._response = None

    # --- what the server tells --------------------------------------------------------------------

    def _take(self, message: Message) -> None:
        kind = message["type"]
        if kind == "input_audio_buffer.committed":
            self._transcripts[message["item_id"]] = asyncio.get_running_loop().create_future()
        elif kind in (f"{_TRANSCRIPTION}completed", f"{_TRANSCRIPTION}failed"):
            transcript = self._transcripts.get(message["item_id"])
            if transcript is not None and not transcript.done():
                failed = kind.endswith("failed")
                transcript.set_result(
                    server_error(message["error"]) if failed else str(message["transcript"])
                )
        elif kind.startswith(("response.", "lookhear.response.")) and self._response is not None:
            self._response.take(message)

    def _stray(self, event_id: str, error: ServerError) -> None:
        """Only frames are sent without waiting; what else comes late is about what was given up."""
        if event_id.startswith(_FRAME):
            self._frame_error = error

    def _lost(self, error: LookhearError) -> None:
        for transcript in self._transcripts.values():
            if not transcript.done():
                transcript.set_result(error)
        if self._response is not None:
            self._response.fail(error)


def _refuse(response: Response, reply: asyncio.Future[Message]) -> None:
    """The server did not begin the answer: `reply` is why."""
    if not reply.cancelled() and (error := reply.exception()) is not None:
        assert isinstance(error, LookhearError), error
        response.fail(error)


def _given(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
