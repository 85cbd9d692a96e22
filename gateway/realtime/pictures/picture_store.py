"""The pictures of a session: each is held once, while anyone needs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lookhear.engine.messages import DropPicture, HoldPicture
from lookhear.gateway.checks.checks import wrong
from lookhear.gateway.decoding.results import Picture
from lookhear.gateway.realtime.protocol.outputs import Emitter

ADVICE = "delete items with pictures first"


class PictureStore:
    """Users of a picture (items, frames, running responses) `keep` and `release` it. An engine is
    told of it with the first prompt that shows it, and to drop it when its last user is gone.

    max_pictures, max_pixels: of all different pictures together.
    """

    def __init__(self, emitter: Emitter, *, max_pictures: int, max_pixels: int) -> None:
        self._emitter = emitter
        self._max_pictures = max_pictures
        self._max_pixels = max_pixels
        self._pictures: dict[str, Picture] = {}
        self._users: Counter[str] = Counter()
        self._held: dict[str, set[str]] = {}  # names, by the model whose engine has them

    def __len__(self) -> int:
        return len(self._pictures)

    @property
    def pixels(self) -> int:
        """Of all pictures together."""
        return sum(picture.num_pixels for picture in self._pictures.values())

    def check_room(self, pictures: Iterable[tuple[Picture, str]]) -> None:
        """pictures: with their paths in the event. Raises ProtocolError, naming the first that the
        session cannot hold as well."""
        new: set[str] = set()
        pixels = self.pixels
        for picture, path in pictures:
            if picture.name in self._pictures or picture.name in new:
                continue
            new.add(picture.name)
            pixels += picture.num_pixels
            if len(self) + len(new) > self._max_pictures:
                expected = f"at most {self._max_pictures} different pictures in a session"
                raise wrong(path, expected, f"more; {ADVICE}", "too_many_pictures")
            if pixels > self._max_pixels:
                expected = f"pictures of at most {self._max_pixels} pixels together"
                raise wrong(path, expected, f"{pixels}; {ADVICE}", "pictures_too_large")

    def keep(self, pictures: Iterable[Picture]) -> None:
        """One more user of each."""
        for picture in pictures:
            self._pictures.setdefault(picture.name, picture)
            self._users[picture.name] += 1

    def release(self, pictures: Iterable[Picture]) -> None:
        """One user less of each. Those without any are gone at the next `sweep`."""
        for picture in pictures:
            assert self._users[picture.name] > 0, picture.name
            self._users[picture.name] -= 1

    def show(self, pictures: Iterable[Picture], model: str) -> None:
        """Tell the engine of `model` those that it has not got."""
        held = self._held.setdefault(model, set())
        for picture in pictures:
            if picture.name not in held:
                held.add(picture.name)
                self._emitter.submit(
                    HoldPicture(self._emitter.session, model, picture.name, picture.pixels)
                )

    def stay_with(self, model: str | None) -> None:
        """Take the pictures back from all other engines: they may be started anew unnoticed."""
        for other in [other for other in self._held if other != model]:
            for name in self._held.pop(other):
                self._emitter.submit(DropPicture(self._emitter.session, other, name))

    def sweep(self) -> None:
        """Drop what nobody uses any more."""
        if len(self._users) == 0 or all(self._users.values()):
            return
        for name in [name for name, users in self._users.items() if users == 0]:
            del self._users[name], self._pictures[name]
            for model, held in self._held.items():
                if name in held:
                    held.remove(name)
                    self._emitter.submit(DropPicture(self._emitter.session, model, name))
