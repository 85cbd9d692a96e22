"""The pictures and recordings of a session: each is held once, while anyone needs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lookhear.engine.messages import DropPicture, DropRecording, HoldPicture, HoldRecording
from lookhear.gateway.checks.checks import wrong
from lookhear.gateway.decoding.results import Picture
from lookhear.gateway.realtime.protocol.conversation import Spoken
from lookhear.gateway.realtime.protocol.outputs import Emitter

ADVICE = "delete items with pictures first"

Medium = Picture | Spoken


class MediaStore:
    """Users of a medium (items, frames, running responses) `keep` and `release` it. An engine is
    told of it with the first prompt that shows it, and to drop it when its last user is gone.

    max_pictures, max_pixels: of all different pictures together.
    """

    def __init__(self, emitter: Emitter, *, max_pictures: int, max_pixels: int) -> None:
        self._emitter = emitter
        self._max_pictures = max_pictures
        self._max_pixels = max_pixels
        self._media: dict[str, Medium] = {}
        self._users: Counter[str] = Counter()
        self._held: dict[str, set[str]] = {}  # names, by the model whose engine has them

    @property
    def _pictures(self) -> list[Picture]:
        return [medium for medium in self._media.values() if isinstance(medium, Picture)]

    @property
    def num_pictures(self) -> int:
        """Different ones."""
        return len(self._pictures)

    @property
    def pixels(self) -> int:
        """Of all pictures together."""
        return sum(picture.num_pixels for picture in self._pictures)

    def check_room(self, pictures: Iterable[tuple[Picture, str]]) -> None:
        """pictures: with their paths in the event. Raises ProtocolError, naming the first that the
        session cannot hold as well."""
        new: set[str] = set()
        pixels = self.pixels
        for picture, path in pictures:
            if picture.name in self._media or picture.name in new:
                continue
            new.add(picture.name)
            pixels += picture.num_pixels
            if self.num_pictures + len(new) > self._max_pictures:
                expected = f"at most {self._max_pictures} different pictures in a session"
                raise wrong(path, expected, f"more; {ADVICE}", "too_many_pictures")
            if pixels > self._max_pixels:
                expected = f"pictures of at most {self._max_pixels} pixels together"
                raise wrong(path, expected, f"{pixels}; {ADVICE}", "pictures_too_large")

    def keep(self, media: Iterable[Medium]) -> None:
        """One more user of each."""
        for medium in media:
            self._media.setdefault(medium.name, medium)
            self._users[medium.name] += 1

    def release(self, media: Iterable[Medium]) -> None:
        """One user less of each. Those without any are gone at the next `sweep`."""
        for medium in media:
            assert self._users[medium.name] > 0, medium.name
            self._users[medium.name] -= 1

    def show(self, media: Iterable[Medium], model: str) -> None:
        """Tell the engine of `model` those that it has not got."""
        held, session = self._held.setdefault(model, set()), self._emitter.session
        for medium in media:
            if medium.name in held:
                continue
            held.add(medium.name)
            if isinstance(medium, Picture):
                self._emitter.submit(HoldPicture(session, model, medium.name, medium.pixels))
            else:
                self._emitter.submit(HoldRecording(session, model, medium.name, medium.samples))

    def _drop(self, medium: Medium, model: str) -> None:
        dropped = DropPicture if isinstance(medium, Picture) else DropRecording
        self._emitter.submit(dropped(self._emitter.session, model, medium.name))

    def stay_with(self, model: str | None) -> None:
        """Take the media back from all other engines: they may be started anew unnoticed."""
        for other in [other for other in self._held if other != model]:
            for name in self._held.pop(other):
                self._drop(self._media[name], other)

    def sweep(self) -> None:
        """Drop what nobody uses any more."""
        if len(self._users) == 0 or all(self._users.values()):
            return
        for name in [name for name, users in self._users.items() if users == 0]:
            medium = self._media.pop(name)
            del self._users[name]
            for model, held in self._held.items():
                if name in held:
                    held.remove(name)
                    self._drop(medium, model)
