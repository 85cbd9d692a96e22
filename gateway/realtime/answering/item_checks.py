"""What a client puts into a conversation: checked against the model and the limits, then made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import shown, wrong
from lookhear.gateway.decoding.results import Picture
from lookhear.gateway.realtime.answering.sights import check_pictures
from lookhear.gateway.realtime.pictures.media_requests import (
    AudioRequest,
    ImageRequest,
    Media,
    MediaRequest,
    Recording,
)
from lookhear.gateway.realtime.pictures.media_store import MediaStore
from lookhear.gateway.realtime.protocol import commands
from lookhear.gateway.realtime.protocol.conversation import (
    AudioContent,
    CallContent,
    Content,
    Conversation,
    ImageContent,
    Item,
    OutputContent,
    Spoken,
    TextContent,
)
from lookhear.gateway.realtime.protocol.refusals import (
    cannot_hear,
    cannot_see,
    no_call,
    no_item,
    no_new_audio,
    nothing_to_cut,
    too_much_text,
)
from lookhear.gateway.realtime.settings import SessionSettings

Entry = commands.NewItem | commands.ItemReference


@dataclass(frozen=True, slots=True)
class Checked:
    """A command that may be carried out once its `requests` are loaded. Nothing is checked twice:
    what the client does next waits, and what the engine does meanwhile is provided for.

    carry_out: told what was loaded, by path, and the time. It raises ProtocolError if there is no
    room for that. reserves: the place of the conversation's response.
    """

    requests: Sequence[MediaRequest]
    carry_out: Callable[[Media, float], None]
    reserves: bool = False


@dataclass(frozen=True, slots=True)
class ItemChecks:
    """How items are taken now. Methods raise ProtocolError."""

    card: ModelCard  # of the model that answers
    settings: SessionSettings
    store: MediaStore
    max_characters: int  # of a whole conversation

    def check(self, new: commands.NewItem, characters: int, calls: Set[str]) -> None:
        """characters: those that the conversation holds already. calls: ids of those in front of
        it, for a model is told of no output without its call."""
        for part in new.parts:
            match part:
                case commands.NewImage() if not self.card.can("image"):
                    raise cannot_see(part.path, self.card.id)
                case commands.NewAudio(audio=bytes()) if not self._can_hear:
                    raise cannot_hear(part.path)
                case commands.NewText():
                    self._check_length(characters := characters + len(part.text), part.path)
                case commands.NewAudio(audio=None, transcript=str(said)):
                    self._check_length(characters := characters + len(said), part.path)
                case commands.NewCall():
                    characters += len(part.name)
                    self._check_length(characters, f"{new.path}.name")
                    self._check_length(characters + len(part.arguments), f"{new.path}.arguments")
                case commands.NewOutput():
                    if part.call_id not in calls:
                        raise no_call(part.call_id, f"{new.path}.call_id")
                    self._check_length(characters + len(part.output), part.path)
                case _:
                    pass

    @property
    def _can_hear(self) -> bool:
        """Whether somebody transcribes, or the model itself has ears."""
        return self.settings.model is not None or self.card.can("audio")

    def _check_length(self, characters: int, path: str) -> None:
        if characters > self.max_characters:
            raise too_much_text(self.max_characters, path)

    def check_context(
        self, entries: Sequence[Entry], conversation: Conversation
    ) -> list[commands.NewItem | Item]:
        """The context of a response: new items without audio, and references to items -> the new
        ones, and those that are meant."""
        found: list[commands.NewItem | Item] = []
        calls: set[str] = set()
        for entry in entries:
            if isinstance(entry, commands.NewItem):
                self.check(entry, 0, calls)
                calls |= {
                    part.call_id or "" for part in entry.parts if isinstance(part, commands.NewCall)
                }
                for part in entry.parts:
                    if isinstance(part, commands.NewAudio) and part.audio is not None:
                        raise no_new_audio(part.path)
                found.append(entry)
            elif (item := conversation.get(entry.id)) is None:
                raise no_item(entry.id, f"{entry.path}.id")
            else:
                self.check_sight([item])
                check_pictures(item, f"{entry.path}.id")
                for content in item.content:
                    if isinstance(content, CallContent):
                        calls.add(content.call_id)
                    elif isinstance(content, OutputContent) and content.call_id not in calls:
                        raise no_call(content.call_id, f"{entry.path}.id")
                found.append(item)
        return found

    def check_sight(self, items: Iterable[Item]) -> None:
        """The model may have been changed since the items were made."""
        if self.card.can("image"):
            return
        for item in items:
            for index, part in enumerate(item.content):
                if isinstance(part, ImageContent):
                    path = f"{item.id}.content[{index}].image_url"
                    raise cannot_see(path, self.card.id)

    def requests(self, entries: Iterable[Entry]) -> list[MediaRequest]:
        """What has to be loaded before they are made."""
        requests: list[MediaRequest] = []
        for entry in entries:
            for part in entry.parts if isinstance(entry, commands.NewItem) else ():
                if isinstance(part, commands.NewImage):
                    requests.append(ImageRequest(part.path, part.url))
                elif isinstance(part, commands.NewAudio) and part.audio is not None:
                    requests.append(AudioRequest(part.path, part.audio, self.settings.format))
        return requests

    def check_room(self, entries: Iterable[Entry], media: Media) -> None:
        """For the pictures of all of them together, which are known once they are loaded."""
        paths = [r.path for r in self.requests(entries) if isinstance(r, ImageRequest)]
        loaded = [(media[path], path) for path in paths]
        pictures = [(p, path) for p, path in loaded if isinstance(p, Picture)]
        self.store.check_room(pictures)


def make_item(
    new: commands.NewItem, media: Media, id: str, *, hears: bool = False, is_told: bool = True
) -> Item:
    """The item that was checked, of what was loaded for it. hears: what was said is kept as it
    sounds. is_told: somebody transcribes it."""
    item = Item(id, new.role, [_content(part, media, id) for part in new.parts])
    for index, (content, part) in enumerate(zip(item.content, new.parts, strict=True)):
        if isinstance(part, commands.NewAudio) and part.audio is not None:
            assert isinstance(content, AudioContent)
            content.is_told = is_told
            recording = media[part.path]
            assert isinstance(recording, Recording)
            if hears and len(recording.samples):
                content.spoken = Spoken(f"{id}.sound{index}", recording.samples)
    return item


def _content(part: commands.NewPart, media: Media, id: str) -> Content:
    match part:
        case commands.NewText():
            return TextContent(part.text)
        case commands.NewImage():
            picture = media[part.path]
            assert isinstance(picture, Picture)
            url = None if part.url[:5].lower() == "data:" else part.url
            return ImageContent(picture, part.detail, url)
        case commands.NewAudio():
            return AudioContent(None if part.audio is not None else part.transcript)
        case commands.NewCall():
            return CallContent(part.call_id or id, part.name, part.arguments)
        case commands.NewOutput():
            return OutputContent(part.call_id, part.output)


def cut_text(item: Item, command: commands.TruncateItem) -> None:
    """Keep the first characters of an answer that is whole. Raises ProtocolError."""
    if command.characters is None:
        raise nothing_to_cut(item.id)
    if item.role != "assistant" or item.call is not None or item.status == "in_progress":
        expected = "a message of the assistant that is not being written"
        raise wrong("item_id", expected, shown(item.id))
    if command.content_index != 0:
        raise wrong("content_index", "0", shown(command.content_index))
    if command.characters > len(item.text):
        expected = f"at most the {len(item.text)} characters of its text"
        raise wrong("lookhear.characters", expected, shown(command.characters))
    item.content = [TextContent(item.text[: command.characters])]
