"""The asynchronous client: live and whole-file transcription, chat, and conversations.

async for event in AsyncClient().transcribe("talk.wav"): ...
async for text in AsyncClient().chat("What is this?", images=["cat.jpg"]): ...
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from lookhear.chat.answers import Answer
from lookhear.chat.completions import chat_events
from lookhear.chat.content import message
from lookhear.chat.conversation import Conversation
from lookhear.chat.reconnecting import ConversationOptions
from lookhear.errors import InvalidRequest, ProtocolError
from lookhear.live.events import Event, TurnCompleted
from lookhear.live.joining import joined
from lookhear.live.options import StreamOptions, TranscribeOptions
from lookhear.live.stream import LiveStream
from lookhear.results import Model, Transcript, first_able
from lookhear.sources.audio import Source
from lookhear.sources.files import Medium, is_url, read_medium, require_list
from lookhear.sources.own_thread import in_own_thread
from lookhear.transport.address import (
    DEFAULT_URL,
    KEY_VARIABLE,
    Server,
    multipart,
    urlencoded,
    usual_server,
)
from lookhear.transport.realtime import without_none
from lookhear.transport.retry import Retry
from lookhear.transport.sse import fetch
from lookhear.transport.told import FIELDS, OnShare, told_answer

MODELS = "/v1/models"
TRANSCRIPTIONS = "/v1/audio/transcriptions"


class AsyncClient:
    """Talks to one server. Holds no connection between calls.

    base_url: None reads LOOKHEAR_SERVER, and is http://127.0.0.1:8000 if that is not set. api_key:
    None reads LOOKHEAR_API_KEY. retry: how a lost live connection is sought again.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        retry: Retry = Retry(),  # noqa: B008 (frozen)
    ) -> None:
        address = base_url if base_url is not None else usual_server() or DEFAULT_URL
        self.server = Server(address, api_key or os.environ.get(KEY_VARIABLE))
        self._retry = retry

    def transcribe(
        self, source: Source, **options: Unpack[TranscribeOptions]
    ) -> AsyncGenerator[Event, None]:
        """Transcribe a source live; yields events while it is being spoken.

        source: path or bytes of an audio file, float samples at `rate`, (async) iterator of 16-bit
        PCM chunks at `rate` (24 kHz if None), or a `Microphone`. turn_detection: a `ServerVad`;
        None makes the whole source one turn. provisional, words: also `Provisional` and `Words`
        events (lookhear servers only). speakers: `Words` with speakers, who said what in
        `TurnCompleted.said`, and `Speakers` events. pace: 1.0 sends a file as fast as it would be
        spoken, None as fast as the server takes it. replay_seconds: how much audio is kept to
        survive a lost connection.

        Raises SourceError, ConnectionFailed, ProtocolError, and ServerError or one of its kinds
        (AuthenticationError, ModelNotFound, InvalidRequest).
        """
        stream = LiveStream(self.server, source, StreamOptions(**options), self._retry)
        return stream.events()

    async def transcribe_text(self, source: Source, **options: Unpack[TranscribeOptions]) -> str:
        """All the text of a source: its turns in the order of speaking, joined by spaces, or by
        nothing where Chinese or Japanese goes on in its own script.

        Options as for `transcribe`.
        """
        turns = []  # a short turn may be completed before the long one that was said earlier
        async with contextlib.aclosing(self.transcribe(source, **options)) as events:
            async for event in events:
                if isinstance(event, TurnCompleted):
                    turns.append(event)
        return joined(turn.text for turn in sorted(turns, key=lambda turn: turn.start))

    async def transcribe_file(
        self,
        file: str | os.PathLike[str] | bytes,
        *,
        model: str | None = None,
        language: str | None = None,
        prompt: str | None = None,
        keywords: Sequence[str] = (),
    ) -> Transcript:
        """Transcribe a whole file in one request, with segment times, and those of the words if
        the model has any. keywords: names and terms that are heard more readily."""
        require_list("keywords", keywords)

        async def ask(*granularities: str) -> str:
            fields = [("timestamp_granularities[]", wanted) for wanted in granularities]
            fields += [("keywords[]", word) for word in keywords]
            return await self.transcribe_raw(
                file, "verbose_json", model=model, language=language, prompt=prompt, fields=fields
            )

        try:
            body = await ask("segment", "word")
        except InvalidRequest as error:
            if error.code != "invalid_words":
                raise
            body = await ask("segment")
        try:
            return Transcript.from_json(json.loads(body))
        except (ValueError, KeyError, TypeError) as error:
            raise ProtocolError(f"the transcription is not well formed: {error!r}") from error

    async def transcribe_raw(
        self,
        file: str | os.PathLike[str] | bytes,
        response_format: str,
        *,
        model: str | None = None,
        language: str | None = None,
        prompt: str | None = None,
        fields: list[tuple[str, str]] | None = None,
        on_share: OnShare | None = None,
    ) -> str:
        """The server's answer as it is, in one of its formats: json, text, srt, vtt, …

        file: also an http(s) URL, which the server fetches. on_share: told the share that is done,
        by lookhear servers.
        """
        by_url = isinstance(file, str) and is_url(file)
        data = b"" if by_url else await in_own_thread(lambda: read_medium(file))
        models = await self.models() if model is None or on_share is not None else []
        model = first_able(models, "transcribe").id if model is None else model
        tells = on_share is not None and any(one.owned_by == "lookhear" for one in models)
        wanted = without_none(model=model, language=language, prompt=prompt)
        parts = [*wanted.items(), ("response_format", response_format), *(fields or [])]
        parts += FIELDS if tells else []
        if by_url:
            upload = urlencoded([*parts, ("url", str(file))])
        else:
            name = "upload" if isinstance(file, bytes) else Path(file).name
            upload = multipart(parts, name, data)
        if tells and on_share is not None:
            return await told_answer(self.server, TRANSCRIPTIONS, upload, on_share)
        answer = await fetch(self.server, TRANSCRIPTIONS, upload, timeout=None)
        return answer.decode("utf-8")

    def chat(
        self,
        question: str | Sequence[Mapping[str, Any]],
        *,
        images: Sequence[Medium] = (),
        videos: Sequence[Medium] = (),
        audio: Sequence[Medium] = (),
        detail: str | None = None,
        system: str | None = None,
        model: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        stop: str | Sequence[str] | None = None,
        extra: Mapping[str, Any] | None = None,
        timeout: float | None = 600.0,
    ) -> Answer:
        """Ask one question over HTTP; the answer is iterated as it is written.

        question: text, with media as paths, bytes or URLs; or all the messages so far in the OpenAI
        format (`message` makes them). detail: "low", "high" or "auto", for the pictures. model:
        None is the server's first that can chat. extra: further fields of the request (top_k,
        response_format, …). timeout: seconds that the server may be silent.

        Iterating raises SourceError, ConnectionFailed, ProtocolError, and ServerError or one of its
        kinds (AuthenticationError, ModelNotFound, InvalidRequest).
        """
        if not isinstance(question, str) and (images or videos or audio or system is not None):
            raise ValueError(
                "chat: media and `system` go with a question; with messages they are part of them"
            )

        def messages() -> list[dict[str, Any]]:
            """Blocking, as it reads the files."""
            if not isinstance(question, str):
                return [dict(entry) for entry in question]
            media = {"images": images, "videos": videos, "audio": audio}
            asked = message("user", question, **media, detail=detail)
            return [asked] if system is None else [message("system", system), asked]

        settings = {
            "model": model,
            "max_completion_tokens": max_tokens,
            "temperature": temperature,
            "top_p": top_p,
            "seed": seed,
            "stop": stop,
            **(extra or {}),
        }
        return Answer(chat_events(self.server, messages, settings, timeout))

    def conversation(
        self,
        *,
        model: str | None = None,
        instructions: str | None = None,
        max_tokens: int | None = None,
        transcription_model: str | None = None,
        language: str | None = None,
        extension: Mapping[str, Any] | None = None,
    ) -> Conversation:
        """A conversation over one WebSocket: `async with client.conversation() as talk: ...`

        model: what answers, None is the server's choice. instructions: the system message.
        transcription_model, language: of spoken questions. extension: for lookhear servers
        only: temperature, top_p, seed, camera, …, and `reasoning: True` for `ReasoningDelta`s.
        """
        options = ConversationOptions(
            model=model,
            instructions=instructions,
            max_tokens=max_tokens,
            transcription_model=transcription_model,
            language=language,
            extension=extension,
            retry=self._retry,
        )
        return Conversation(self.server, options)

    async def models(self) -> list[Model]:
        """What the server serves, its default first."""
        listing = self.server.parsed(MODELS, await fetch(self.server, MODELS))
        try:
            models = [Model.from_json(entry) for entry in listing["data"]]
        except (KeyError, TypeError) as error:
            raise ProtocolError(f"the list of models is not well formed: {error!r}") from error
        if not models:
            raise ProtocolError("the server has no model: it is still loading it, or serves none")
        return models
