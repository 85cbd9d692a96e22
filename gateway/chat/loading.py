"""What a question needs before it is asked: its media decoded, and its recordings transcribed for a
model that does not hear."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from lookhear.engine.client.client import EngineRequestError, EngineUnavailable
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AudioPart,
    ChatMessage,
    EmbeddingsPart,
    ImagePart,
    ModelCard,
    Part,
    TextPart,
    TranscribeFile,
    TranscriptionSettings,
    VideoPart,
)
from lookhear.gateway.chat.lines import Line, Pointer, pointers
from lookhear.gateway.chat.refusals import TOO_LONG, too_long
from lookhear.gateway.checks.checks import is_clients_fault
from lookhear.gateway.decoding.results import Picture, Recording, Rows, Samples
from lookhear.gateway.fetching.pictures import PictureBudget
from lookhear.gateway.http.errors import ApiError, unavailable
from lookhear.gateway.services.services import Services
from lookhear.gateway.slots import Claim

AT_ONCE = 4  # media of one request that are fetched and decoded at a time


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation as the engine takes it. places: of each message in the request; paths: of
    each part of each."""

    messages: list[ChatMessage]
    places: list[str]
    paths: list[list[str]]
    pictures: dict[str, Picture] = field(default_factory=dict)
    recordings: dict[str, Samples] = field(default_factory=dict)
    embeddings: dict[str, Rows] = field(default_factory=dict)


def wanted_of(lines: list[Line], gateway: Services) -> set[str]:
    """What a model has to be able to, to be asked about what these point at. A recording can become
    text, where somebody makes that of it."""
    becomes_text = transcriber(gateway) is not None
    kinds = {pointer.kind for pointer in pointers(lines)}
    return {kind for kind in kinds if kind != "audio" or not becomes_text}


def check_abilities(lines: list[Line], card: ModelCard, gateway: Services) -> None:
    """Raises ApiError (400) for the first part that no served model can take."""
    for pointer in pointers(lines):
        if pointer.kind == "audio" and not card.can("audio"):
            if transcriber(gateway) is None:
                why = f"{card.id} does not hear, and no served model transcribes recordings for it"
                raise _unsupported(pointer, why, "a recording")
        elif pointer.kind == "prompt_embeds" and not card.can(pointer.kind):
            why = f"{card.id} takes no embeddings (a server does with --enable-prompt-embeds)"
            raise _unsupported(pointer, why, "prompt_embeds")
        elif not card.can(pointer.kind):
            noun = "images" if pointer.kind == "image" else "videos"
            got = "an image" if pointer.kind == "image" else "a video"
            raise _unsupported(pointer, f"{card.id} takes no {noun}", got)


def transcriber(gateway: Services) -> ModelCard | None:
    """The model that turns recordings in messages into text."""
    engine = gateway.engine
    cards = [card for card in engine.models if card.can("transcribe")]
    up = [card for card in cards if engine.is_ready(card.id)]
    return next(iter([*up, *cards]), None)


async def load(lines: list[Line], gateway: Services, claim: Claim, card: ModelCard) -> Question:
    """claim: for whom. card: of the model that will be asked. Raises ApiError that names the place
    in the request."""
    loader = _Loader(gateway, claim, card)
    results: dict[str, asyncio.Task[Part]] = {}
    try:
        async with asyncio.TaskGroup() as group:
            for pointer in pointers(lines):
                results[pointer.path] = group.create_task(loader.load(pointer))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None

    def loaded(part: TextPart | Pointer) -> Part:
        return results[part.path].result() if isinstance(part, Pointer) else part

    messages = [
        ChatMessage(
            line.role,
            [loaded(part) for part in line.parts],
            line.calls,
            line.call,
            line.thinking,
            line.tokens,
        )
        for line in lines
    ]
    places = [line.path for line in lines]
    paths = [line.paths for line in lines]
    held = loader.pictures, loader.recordings, loader.embeddings
    return Question(messages, places, paths, *held)


class _Loader:
    """Loads for one request, within its budget. card: of who will be asked: recordings are kept as
    they sound if it hears."""

    def __init__(self, gateway: Services, claim: Claim, card: ModelCard) -> None:
        self._gateway = gateway
        self._claim = claim
        self._card = card
        self._budget: PictureBudget = gateway.pictures.budget()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self.pictures: dict[str, Picture] = {}
        self.recordings: dict[str, Samples] = {}
        self.embeddings: dict[str, Rows] = {}

    async def load(self, pointer: Pointer) -> Part:
        media, claim = self._gateway.pictures, self._claim
        async with self._slots:
            if pointer.kind == "image":
                picture = await media.image(pointer.url, pointer.path, claim)
                self._keep([picture], pointer.path)
                return ImagePart(picture.name, pointer.detail)
            if pointer.kind == "video":
                clip = await media.video(pointer.url, pointer.path, claim)
                self._keep(clip.frames, pointer.path)
                return VideoPart([frame.name for frame in clip.frames], list(clip.seconds))
            if pointer.kind == "prompt_embeds":
                return self._given(
                    await media.embeddings(pointer.url, pointer.path, claim), pointer
                )
            read = media.audio_base64 if pointer.is_base64 else media.audio
            recording = await read(pointer.url, pointer.path, claim)
            if self._card.can("audio"):
                return self._heard(recording, pointer)
            return TextPart(await self._transcript(recording, pointer))

    def _heard(self, recording: Recording, pointer: Pointer) -> AudioPart:
        """All recordings of a request may be as long as one may."""
        gateway, name = self._gateway, f"recording_{len(self.recordings)}"
        held = sum(map(len, self.recordings.values())) + len(recording.samples)
        most = gateway.config.max_turn_seconds
        if held > most * SAMPLE_RATE:
            got = f"got {held / SAMPLE_RATE:.0f} s"
            message = f"{pointer.part}: expected recordings of {most:g} s together at most, {got}"
            raise ApiError(400, message, code="audio_too_long", param=pointer.part)
        if not len(recording.samples):
            raise ApiError(
                400,
                f"{pointer.path}: expected a recording, got one without any sound",
                code="invalid_audio",
                param=pointer.path,
            )
        gateway.metrics.audio_seconds.labels("chat").inc(len(recording.samples) / SAMPLE_RATE)
        self.recordings[name] = recording.samples
        return AudioPart(name)

    def _given(self, rows: Rows, pointer: Pointer) -> EmbeddingsPart:
        """No more than the model can read: of one number a row there could be millions."""
        count = sum(map(len, self.embeddings.values())) + len(rows)
        if count > (most := self._card.context_tokens):
            expected = f"expected embeddings of at most {most} tokens together; got {count}"
            message = too_long(f"{pointer.path}: {expected}")
            raise ApiError(400, message, code=TOO_LONG, param=pointer.path)
        name = f"embeddings_{len(self.embeddings)}"
        self.embeddings[name] = rows
        return EmbeddingsPart(name)

    def _keep(self, pictures: list[Picture], path: str) -> None:
        self._budget.take(pictures, path)
        self.pictures.update((picture.name, picture) for picture in pictures)

    async def _transcript(self, recording: Recording, pointer: Pointer) -> str:
        gateway, samples = self._gateway, recording.samples
        card = transcriber(gateway)
        if card is None:  # the last one has gone since
            raise _unsupported(pointer, "no served model transcribes", "a recording")
        gateway.metrics.audio_seconds.labels("chat").inc(len(samples) / SAMPLE_RATE)
        message = TranscribeFile(
            request=gateway.ids("file"),
            settings=TranscriptionSettings(model=card.id),
            samples=samples,
            speech=recording.speech,
        )
        try:
            async with gateway.file_slots.held(self._claim):
                return (await gateway.engine.transcribe_file(message)).text
        except EngineRequestError as error:
            reason = f"{pointer.path}: {error}"
            if is_clients_fault(error.code):
                raise ApiError(400, reason, code=error.code, param=pointer.path) from None
            raise ApiError(500, reason, code=error.code) from None
        except EngineUnavailable as error:
            raise unavailable(error) from None


def _unsupported(pointer: Pointer, why: str, got: str) -> ApiError:
    message = f"{pointer.part}: expected text, {why}; got {got}"
    return ApiError(400, message, code="unsupported_content", param=pointer.part)
