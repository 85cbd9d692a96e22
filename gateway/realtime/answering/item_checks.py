"""What a client puts into a conversation: checked against the model and the limits, then taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lookhear.engine.messages import ModelCard
from lookhear.gateway.fetching.pictures import Picture
from lookhear.gateway.realtime.openai.items import (
    ItemReference,
    NewAudio,
    NewImage,
    NewItem,
    NewPart,
    NewText,
)
from lookhear.gateway.realtime.openai.parsing import FrameAppend
from lookhear.gateway.realtime.pictures.media_requests import (
    AudioRequest,
    ImageRequest,
    Media,
    MediaRequest,
)
from lookhear.gateway.realtime.pictures.picture_store import PictureStore
from lookhear.gateway.realtime.protocol.conversation import (
    AudioContent,
    Content,
    Conversation,
    ImageContent,
    Item,
    TextContent,
)
from lookhear.gateway.realtime.protocol.refusals import (
    cannot_hear,
    cannot_see,
    no_item,
    no_new_audio,
    too_much_text,
)
from lookhear.gateway.realtime.settings.settings import SessionSettings

Entry = NewItem | ItemReference


@dataclass(frozen=True, slots=True)
class ItemChecks:
    """How items are taken now. card: of the model that answers. Methods raise ProtocolError."""

    card: ModelCard
    settings: SessionSettings
    store: PictureStore
    max_characters: int

    def check(self, new: NewItem, characters: int, event_id: str | None) -> None:
        """characters: those that the conversation holds already."""
        for index, part in enumerate(new.parts):
            match part:
                case NewImage() if not self.card.can("image"):
                    raise cannot_see(part.path, self.card.id, event_id)
                case NewAudio(audio=bytes()) if self.settings.model is None:
                    raise cannot_hear(part.path, event_id)
                case NewText():
                    characters += len(part.text)
                    if characters > self.max_characters:
                        path = f"{new.path}.content[{index}].text"
                        raise too_much_text(self.max_characters, path, event_id)
                case _:
                    pass

    def check_input(
        self, entries: Sequence[Entry], conversation: Conversation, event_id: str | None
    ) -> None:
        """The context of a response: new items without audio, and references to items."""
        for entry in entries:
            if isinstance(entry, NewItem):
                self.check(entry, 0, event_id)
                for part in entry.parts:
                    if isinstance(part, NewAudio) and part.audio is not None:
                        raise no_new_audio(part.path, event_id)
            elif (item := conversation.get(entry.id)) is None:
                raise no_item(entry.id, event_id, f"{entry.path}.id")
            else:
                self.check_sight([item], event_id)

    def check_sight(self, items: Iterable[Item], event_id: str | None) -> None:
        """The model may have been changed since the items were made."""
        if self.card.can("image"):
            return
        for item in items:
            for index, part in enumerate(item.content):
                if isinstance(part, ImageContent):
                    path = f"{item.id}.content[{index}].image_url"
                    raise cannot_see(path, self.card.id, event_id)

    def wanted(self, entries: Sequence[Entry]) -> list[MediaRequest]:
        """What has to be loaded before they are taken."""
        wanted: list[MediaRequest] = []
        for entry in entries:
            for part in entry.parts if isinstance(entry, NewItem) else ():
                if isinstance(part, NewImage):
                    wanted.append(ImageRequest(part.path, part.url))
                elif isinstance(part, NewAudio) and part.audio is not None:
                    wanted.append(AudioRequest(part.path, part.audio, self.settings.format))
        return wanted

    def resolve(
        self, entry: Entry, conversation: Conversation, media: Media, event_id: str | None
    ) -> Item:
        """An item of a response's own context. New ones are called by their path."""
        if isinstance(entry, NewItem):
            return self.take(entry, media, entry.path, event_id)
        item = conversation.get(entry.id)
        assert item is not None, "checked before"
        return item

    def take(self, new: NewItem, media: Media, id: str, event_id: str | None) -> Item:
        item = Item(id, new.role, [_content(part, media) for part in new.parts])
        self.check_room([new], media, event_id)
        return item

    def check_room(self, entries: Sequence[Entry], media: Media, event_id: str | None) -> None:
        """For the pictures of all of them together."""
        paths = [want.path for want in self.wanted(entries) if isinstance(want, ImageRequest)]
        loaded = [(media[path], path) for path in paths]
        pictures = [(p, path) for p, path in loaded if isinstance(p, Picture)]
        self.store.check_room(pictures, event_id)


def frame_url(event: FrameAppend) -> str:
    """A frame comes in the event itself; only images of items may be addresses."""
    if event.image[:5].lower() == "data:":
        return event.image
    return f"data:image/jpeg;base64,{event.image}"


def _content(part: NewPart, media: Media) -> Content:
    match part:
        case NewText():
            return TextContent(part.type, part.text)
        case NewImage():
            picture = media[part.path]
            assert isinstance(picture, Picture)
            url = None if part.url[:5].lower() == "data:" else part.url
            return ImageContent(picture, part.detail, url)
        case NewAudio():
            return AudioContent(None if part.audio is not None else part.transcript)
