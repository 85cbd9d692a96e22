"""A realtime session driven by hand: pictures by name, answers on demand, the engine's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lookhear.engine.messages import (
    AnswerCall,
    AnswerCompleted,
    AnswerFailed,
    AnswerStarted,
    AnswerText,
    AnswerUsage,
    AudioPart,
    CancelAnswer,
    ChatMessage,
    DropPicture,
    DropRecording,
    EmbeddingsPart,
    HoldPicture,
    HoldRecording,
    ImagePart,
    Part,
    ReadAhead,
    StartAnswer,
    TextPart,
    VideoPart,
)
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.decoding.results import Picture
from lookhear.gateway.realtime.pictures.camera import DecodedFrame
from lookhear.gateway.realtime.pictures.media_requests import (
    AudioRequest,
    FrameRequest,
    Media,
    MediaRequest,
    Recording,
    scaled,
)
from lookhear.media.pictures.similarity import Thumbnail, thumbnail
from tests.gateway.fake_chat import VISION
from tests.gateway.fake_engine import CARDS
from tests.gateway.scripted import SESSION, Script

MODELS = [*CARDS, VISION]


def picture(name: str, width: int = 32, height: int = 32) -> Picture:
    """Names "a" to "z" differ in brightness, others are as bright as their number says."""
    shade = int(name) * 97 % 251 if name.isdecimal() else 8 * (ord(name[0]) - ord("a"))
    return Picture(name, np.full((height, width, 3), shade, dtype=np.uint8))


def said(text: str, role: str = "user", **fields: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **fields}


def image(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "input_image", "image_url": f"data:{name}", **fields}


def shown(name: str, text: str | None = None, **fields: Any) -> dict[str, Any]:
    content = [image(name)]
    if text is not None:
        content.append({"type": "input_text", "text": text})
    return {"type": "message", "role": "user", "content": content, **fields}


class Talk(Script):
    """A session of type `realtime`. running: answers that the engine has not finished."""

    def __init__(self, **options: Any) -> None:
        self.held: dict[tuple[str, str], Picture | None] = {}
        self.recordings: dict[tuple[str, str], HoldRecording] = {}
        self.asked: list[StartAnswer] = []
        self.running: dict[str, StartAnswer] = {}
        self.begun: set[str] = set()
        self.ahead: list[ReadAhead] = []
        self.dropped: list[str] = []
        self._thumbnails: dict[bytes, Thumbnail] = {}
        options = {"requested_model": VISION.id, "models": MODELS, "max_items": 50, **options}
        super().__init__(**options)

    # --- client ----------------------------------------------------------------------------------

    def update(self, session: dict[str, Any] | None = None, **fields: Any) -> list[dict[str, Any]]:
        return super().update({"type": "realtime", **(session or {})}, **fields)

    def create(self, item: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
        return self.client("conversation.item.create", item=item, **fields)

    def say_text(self, text: str) -> list[dict[str, Any]]:
        return self.create(said(text))

    def respond(self, response: dict[str, Any] | None = None, **fields: Any) -> list[Any]:
        if response is not None:
            fields["response"] = response
        return self.client("response.create", **fields)

    def frame(self, name: str, at_ms: int) -> list[dict[str, Any]]:
        return self.client(
            "lookhear.input_video_frame.append", image=f"data:{name}", timestamp_ms=at_ms
        )

    def load(self, requests: Sequence[MediaRequest]) -> Media:
        media: dict[str, Any] = {}
        for want in requests:
            if isinstance(want, AudioRequest):
                samples = np.zeros(len(want.audio) * 2 // 3 // 2, dtype=np.float32)
                media[want.path] = Recording(samples, voiced_until=len(samples) // 2)
                continue
            name, *size = want.url.removeprefix("data:").split("@")
            if name == "broken":
                raise ProtocolError(
                    f"{want.path}: expected an image", code="invalid_image", param=want.path
                )
            width, height = (int(n) for n in size[0].split("x")) if size else (32, 32)
            loaded = picture(name, width, height)
            if isinstance(want, FrameRequest):
                loaded = scaled(loaded, want.max_pixels)
                media[want.path] = DecodedFrame(loaded, self._thumbnail(loaded))
            else:
                media[want.path] = loaded
        return media

    def _thumbnail(self, picture: Picture) -> Thumbnail:
        """Of a picture of one colour."""
        colour = picture.pixels[0, 0].tobytes()
        if colour not in self._thumbnails:
            self._thumbnails[colour] = thumbnail(picture.pixels)
        return self._thumbnails[colour]

    # --- engine ----------------------------------------------------------------------------------

    @property
    def answer(self) -> str:
        """The newest one under way."""
        return list(self.running)[-1]

    def begin(self, answer: str | None = None, **usage: int) -> list[dict[str, Any]]:
        answer = answer or self.answer
        self.begun.add(answer)
        tokens = AnswerUsage(**{"prompt": 10, **usage})
        return self.engine(AnswerStarted(SESSION, answer, tokens))

    def speak(
        self, text: str, answer: str | None = None, *, is_reasoning: bool = False
    ) -> list[dict[str, Any]]:
        return self.engine(AnswerText(SESSION, answer or self.answer, text, is_reasoning))

    def call(self, index: int, name: str, *pieces: str) -> list[dict[str, Any]]:
        """A call of a tool, its arguments in pieces."""
        before, answer = len(self.frames), self.answer
        self.engine(AnswerCall(SESSION, answer, index, name, ""))
        for piece in pieces:
            self.engine(AnswerCall(SESSION, answer, index, None, piece))
        return self.frames[before:]

    def end(
        self, answer: str | None = None, reason: str = "stop", **usage: int
    ) -> list[dict[str, Any]]:
        answer = answer or self.answer
        del self.running[answer]
        tokens = AnswerUsage(**{"prompt": 10, "output": 3, **usage})
        return self.engine(AnswerCompleted(SESSION, answer, reason, tokens))

    def break_off(
        self,
        code: str = "server_error",
        answer: str | None = None,
        message: int | None = None,
        part: int | None = None,
    ) -> list[dict[str, Any]]:
        answer = answer or self.answer
        del self.running[answer]
        return self.engine(AnswerFailed(SESSION, answer, code, "asked to fail", message, part))

    def reply(self, *words: str) -> list[dict[str, Any]]:
        """A whole answer to the newest question; returns its frames."""
        before = len(self.frames)
        self.begin()
        for word in words:
            self.speak(word)
        self.end()
        return self.frames[before:]

    # --- what came out ---------------------------------------------------------------------------

    @property
    def done(self) -> list[dict[str, Any]]:
        return [f["response"] for f in self.frames if f["type"] == "response.done"]

    def prompt(self, index: int = -1) -> list[tuple[str, ...]]:
        """A question as the engine got it: role, then texts and names of pictures."""
        return readable(self.asked[index].messages)

    def submitted(self, message: object) -> None:
        match message:
            case HoldPicture(_, model, name, pixels):
                assert (model, name) not in self.held
                self.held[model, name] = Picture(name, pixels)
            case DropPicture(_, model, name):
                del self.held[model, name]
                self.dropped.append(name)
                needed = [p for a in self.running.values() for p in pictures_of(a.messages)]
                assert name not in needed, "an answer may still look at it"
            case HoldRecording(_, model, name):
                assert (model, name) not in self.recordings
                self.recordings[model, name] = message
            case DropRecording(_, model, name):
                del self.recordings[model, name]
                self.dropped.append(name)
            case ReadAhead(_, model, messages):
                assert not self.running
                self._check_held(model, messages)
                self.ahead.append(message)
            case StartAnswer():
                assert message.answer not in [asked.answer for asked in self.asked]
                assert message.messages and all(m.parts or m.calls for m in message.messages)
                self._check_held(message.settings.model, message.messages)
                self.asked.append(message)
                self.running[message.answer] = message
            case CancelAnswer(_, answer):
                del self.running[answer]
            case _:
                super().submitted(message)

    def _check_held(self, model: str, messages: list[ChatMessage]) -> None:
        for name in pictures_of(messages):
            assert (model, name) in self.held, name
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, AudioPart):
                assert (model, part.recording) in self.recordings, part


def pictures_of(messages: list[ChatMessage]) -> list[str]:
    names: list[str] = []
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, ImagePart):
            names.append(part.picture)
        elif isinstance(part, VideoPart):
            names.extend(part.pictures)
    return names


def readable(messages: list[ChatMessage]) -> list[tuple[str, ...]]:
    return [(message.role, *(_word(part) for part in message.parts)) for message in messages]


def _word(part: Part) -> str:
    match part:
        case AudioPart(name) | EmbeddingsPart(name):
            return f"({name})"
        case TextPart(text):
            return text
        case ImagePart(name, detail):
            return f"<{name}>" if detail == "auto" else f"<{name} {detail}>"
        case VideoPart(names, _, live):
            assert live
            return f"<<{' '.join(names)}>>"
