"""What is said and shown in a session, and who answers: items, frames of the camera, responses.

A response answers the conversation as it stands when it is created; what comes meanwhile belongs to
the next. Speech that voice detection found is answered once it is transcribed and nobody speaks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lookhear.engine.messages import ModelCard, ReadAhead
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.checks.models import find_model
from lookhear.gateway.realtime.answering.item_checks import ItemChecks, frame_url
from lookhear.gateway.realtime.answering.responses import Response, Responses
from lookhear.gateway.realtime.listening.turn import Turn
from lookhear.gateway.realtime.listening.turns import Turns
from lookhear.gateway.realtime.openai import rendering as wire
from lookhear.gateway.realtime.openai.items import NewAudio
from lookhear.gateway.realtime.openai.parsing import (
    FrameAppend,
    ItemCreate,
    ItemDelete,
    ItemTruncate,
    ResponseCancel,
    ResponseCreate,
)
from lookhear.gateway.realtime.pictures.camera import Camera, CameraFrame, DecodedFrame
from lookhear.gateway.realtime.pictures.media_requests import FrameRequest, Media, MediaRequest
from lookhear.gateway.realtime.pictures.picture_store import PictureStore
from lookhear.gateway.realtime.pictures.prompts import build_prompt
from lookhear.gateway.realtime.protocol.conversation import ROOT, Conversation, Item
from lookhear.gateway.realtime.protocol.outputs import Emitter, IdFactory
from lookhear.gateway.realtime.protocol.refusals import (
    backwards,
    cannot_see,
    no_item,
    no_response,
    nothing_to_cut,
    same_item,
    too_many_items,
)
from lookhear.gateway.realtime.settings.generation import ConverseSettings
from lookhear.gateway.realtime.settings.settings import SessionSettings


@dataclass(frozen=True, slots=True)
class DialogueLimits:
    """Of one session: different pictures, their pixels together, characters of all items."""

    max_pictures: int = 256
    max_pixels: int = 80_000_000
    max_characters: int = 4_000_000


class Dialogue:
    """The conversation of one session. It is the `Listener` of its turns and the
    `Speaker` of its responses."""

    turns: Turns

    def __init__(
        self,
        session: str,
        settings: SessionSettings,
        models: Sequence[ModelCard],
        conversation: Conversation,
        emitter: Emitter,
        *,
        ids: IdFactory,
        seeds: Callable[[], int],
        limits: DialogueLimits,
    ) -> None:
        self._session = session
        self._settings = settings
        self._models = models
        self._conversation = conversation
        self._emitter = emitter
        self._ids = ids
        self._limits = limits
        self._store = PictureStore(
            session, emitter, max_pictures=limits.max_pictures, max_pixels=limits.max_pixels
        )
        self._camera = Camera()
        self.responses = Responses(
            session, emitter, self._store, self, conversation_id=ids("conv"), seeds=seeds
        )
        self._left_out: set[str] = set()  # items that no longer fit into the context
        self._owed = False  # speech was transcribed and is to be answered
        self._has_news = False  # pictures that the engine could read ahead of the next question

    # --- settings --------------------------------------------------------------------------------

    def tune(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._camera.capacity = None
        self._has_news = bool(len(self._store))

    @property
    def _converse(self) -> ConverseSettings:
        assert self._settings.converse is not None, "a transcription session does not converse"
        return self._settings.converse

    @property
    def _card(self) -> ModelCard:
        return find_model(self._converse.model, self._models, "session.model", None)

    @property
    def _taking(self) -> ItemChecks:
        return ItemChecks(self._card, self._settings, self._store, self._limits.max_characters)

    # --- items -----------------------------------------------------------------------------------

    def wanted(self, event: ItemCreate | ResponseCreate | FrameAppend) -> list[MediaRequest]:
        """See `RealtimeProtocol.wanted`."""
        try:
            match event:
                case ItemCreate():
                    self._check_item(event)
                    return self._taking.wanted([event.item])
                case ResponseCreate():
                    self._check_response(event)
                    return self._taking.wanted(event.input or [])
                case FrameAppend():
                    if not self._check_frame(event):
                        return []
                    most = self._converse.camera.max_pixels
                    return [FrameRequest("image", frame_url(event), most)]
        except ProtocolError:
            return []

    def create_item(self, event: ItemCreate, media: Media, now: float) -> None:
        self._check_item(event)
        new = event.item
        item = self._taking.take(new, media, new.id or self._ids("item"), event.event_id)
        self.add_item(item, event.previous_item_id)
        previous = self._conversation.before(item)
        self._emitter.send(wire.item_added(item.on_wire(), previous))
        self._emitter.send(wire.item_done(item.on_wire(), previous))
        for index, part in enumerate(new.parts):
            if isinstance(part, NewAudio) and part.audio is not None:
                samples = media[part.path]
                assert isinstance(samples, np.ndarray)
                self.turns.transcribe(item.id, index, samples, now)

    def _check_item(self, event: ItemCreate) -> None:
        new, previous = event.item, event.previous_item_id
        if previous not in (None, ROOT) and previous not in self._conversation:
            assert previous is not None
            raise no_item(previous, event.event_id, "previous_item_id")
        if new.id is not None and (new.id == ROOT or self._is_taken(new.id)):
            raise same_item(event)
        if len(self._conversation) >= self._conversation.limit:
            raise too_many_items(self._conversation.limit, event.event_id)
        self._taking.check(new, self._conversation.characters, event.event_id)

    def _is_taken(self, item_id: str) -> bool:
        return (
            item_id in self._conversation
            or self.turns.owns(item_id)
            or self.responses.owns(item_id)
        )

    def add_item(self, item: Item, after: str | None = None) -> None:
        """Its pictures are held from now on; so are those of the items it pushes out no more."""
        for forgotten in self._conversation.add(item, after):
            self._let_go(forgotten)
        for picture in item.pictures:
            self._store.keep(picture)
            self._has_news = True

    def delete(self, event: ItemDelete) -> None:
        item = self._conversation.delete(event.item_id)
        if item is None:
            raise no_item(event.item_id, event.event_id)
        self._let_go(item)
        self._emitter.send(wire.item_deleted(item.id))
        self.responses.forget(item)
        self.responses.settled()

    def _let_go(self, item: Item) -> None:
        self._left_out.discard(item.id)
        for picture in item.pictures:
            self._store.release(picture)

    def truncate(self, event: ItemTruncate) -> None:
        """There is never audio to cut."""
        if event.item_id not in self._conversation:
            raise no_item(event.item_id, event.event_id)
        raise nothing_to_cut(event)

    # --- the camera ------------------------------------------------------------------------------

    def _check_frame(self, event: FrameAppend) -> bool:
        """Whether it is to be looked at. Raises ProtocolError."""
        if not self._card.can("video"):
            raise cannot_see("image", self._card.id, event.event_id)
        newest = self._camera.newest_ms
        if newest is not None and event.timestamp_ms < newest:
            raise backwards(event.timestamp_ms, newest, event.event_id)
        return self._camera.is_due(event.timestamp_ms, self._converse.camera.max_fps)

    def see(self, event: FrameAppend, media: Media) -> None:
        if not self._check_frame(event):
            return
        seen = media["image"]
        assert isinstance(seen, DecodedFrame)
        self._store.check_room([(seen.picture, "image")], event.event_id)
        settings = self._converse.camera
        # What comes while an answer is being given is behind it.
        active = self.responses.default
        after = self._conversation.last_answer_id if active is None else active.item.id
        if not self._camera.see(seen, event.timestamp_ms, after, settings.min_change):
            return
        self._store.keep(seen.picture)
        for frame in self._camera.thin(settings.max_frames):
            self._store.release(frame.picture)
        self._has_news = True
        if settings.report:
            self._emitter.send(wire.frame_kept(event.timestamp_ms, len(self._camera.frames)))

    def clear_frames(self) -> None:
        for frame in self._camera.clear():
            self._store.release(frame.picture)
        self._emitter.send(wire.frames_cleared())

    # --- responses -------------------------------------------------------------------------------

    def create_response(self, event: ResponseCreate, media: Media) -> None:
        settings, is_default = self._check_response(event)
        items = None
        if event.input is not None:
            items = [
                self._taking.resolve(entry, self._conversation, media, event.event_id)
                for entry in event.input
            ]
            self._taking.check_room(event.input, media, event.event_id)
        metadata = (event.response or {}).get("metadata")
        self._respond(settings, items, is_default=is_default, metadata=metadata)

    def _check_response(self, event: ResponseCreate) -> tuple[ConverseSettings, bool]:
        settings, patch = self._converse.for_response(event.response or {}, event.event_id)
        is_default = patch.conversation != "none"
        self.responses.check_room(is_default=is_default, event_id=event.event_id)
        if event.input is None:
            self._taking.check_sight(self._in_context(), event.event_id)
        else:
            self._taking.check_input(event.input, self._conversation, event.event_id)
        return settings, is_default

    def _respond(
        self,
        settings: ConverseSettings,
        items: list[Item] | None,
        *,
        is_default: bool,
        metadata: dict[str, str] | None,
    ) -> None:
        """items: a context of its own; None: the conversation's."""
        response = Response(
            id=self._ids("resp"),
            item=Item(self._ids("item"), "assistant", status="in_progress"),
            settings=settings,
            items=self._in_context() if items is None else items,
            frames=self._frames() if items is None else [],
            metadata=metadata,
            is_default=is_default,
            sees_all=items is None,
            after=self._conversation.last_id or ROOT,
        )
        self.responses.create(response)

    def cancel_response(self, event: ResponseCancel) -> None:
        named = event.response_id
        response = self.responses.default if named is None else self.responses.get(named)
        if response is None:
            raise no_response(event)
        self.responses.cancel(response, "client_cancelled")

    def _in_context(self) -> list[Item]:
        return [item for item in self._conversation if item.id not in self._left_out]

    def _frames(self) -> list[CameraFrame]:
        return list(self._camera.frames) if self._card.can("video") else []

    # --- as the Speaker of responses -------------------------------------------------------------

    def insert_answer(self, response: Response) -> str | None:
        after = response.after
        if after != ROOT and after not in self._conversation:
            after = None
        self.add_item(response.item, after)
        response.after = self._conversation.before(response.item)
        return response.after

    def on_shortened(self, response: Response) -> None:
        """What did not fit stays out from now on, so that the next prompts begin alike."""
        gone = (item.id for item in response.left_out)
        self._left_out.update(id for id in gone if id in self._conversation)
        if response.frames_left_out:
            self._camera.capacity = len(response.frames)
        for frame in self._camera.forget(response.frames_left_out):
            self._store.release(frame.picture)

    # --- as the Listener of speech ---------------------------------------------------------------

    def on_speech(self) -> None:
        detection = self._settings.turn_detection
        active = self.responses.default
        if active is not None and detection is not None and detection.interrupt_response:
            self.responses.cancel(active, "turn_detected")

    def on_settled(self, turn: Turn) -> None:
        active = self.responses.default
        is_asked = active is not None and any(item.id == turn.item for item in active.items)
        has_text = turn.failure is None and bool("".join(turn.text).strip())
        if turn.wants_answer and has_text and not is_asked:
            self._owed = True
        self.responses.settled()

    # --- after every event -----------------------------------------------------------------------

    def settle(self) -> None:
        """What is to be done once an event has been dealt with."""
        converse = self._settings.converse
        if converse is None:
            self._owed = False
        else:
            is_quiet = not self.turns.is_speaking and not self.turns.pending
            if self._owed and is_quiet and self.responses.default is None:
                self._owed = False
                self._respond(converse, None, is_default=True, metadata=None)
            if self._has_news and not len(self.responses):
                self._has_news = False
                self._read_ahead()
        if not len(self.responses):
            self._store.stay_with(converse.model if converse is not None else None)
        self._store.sweep()

    def _read_ahead(self) -> None:
        """Let the engine look at new pictures while nobody waits for an answer."""
        items = self._in_context()
        known = next((i for i, item in enumerate(items) if item.is_pending), len(items))
        prompt = build_prompt(self._converse.instructions, items[:known], self._frames())
        if prompt.pictures and self._card.can("image"):
            self._store.show(prompt.pictures, self._card.id)
            self._emitter.submit(ReadAhead(self._session, self._card.id, prompt.messages))
