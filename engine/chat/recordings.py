"""The recordings of sessions, and how a model that hears reads them: windows of log-mel.

A session holds its recordings by name. What the model's encoder takes of one is prepared when it is
first asked about, and stands in the place of the samples from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.chat.pictures import PartError, PartMedia, Place
from lookhear.engine.messages import AudioPart
from lookhear.engine.paged.request import Medium

Samples = NDArray[np.float32]
AUDIO_PAD = "<|audio_pad|>"


class Ears(Protocol):
    """How a checkpoint takes a recording."""

    def num_tokens(self, num_samples: int) -> int:
        """Placeholders of so many samples."""

    def windows(self, samples: Samples) -> list[Medium]:
        """samples: [n], mono at 16 kHz, none of which will change."""


class RecordingStore:
    """What sessions hold, for a model that hears. pad: how the template spells the placeholder."""

    def __init__(self, ears: Ears, pad: str = AUDIO_PAD) -> None:
        self._ears, self.pad = ears, pad
        self._held: dict[tuple[str, str], Samples | list[Medium]] = {}  # by session and name

    def hold(self, session: str, name: str, samples: Samples) -> None:
        """samples: [n], mono at 16 kHz. A name that is held already is replaced."""
        self._held[session, name] = samples

    def media_of(
        self, session: str, parts: Sequence[tuple[Place, AudioPart]], room: int
    ) -> dict[Place, PartMedia]:
        """What stands for each part. room: tokens that all of them may take. Raises `PartError`."""
        found: dict[Place, PartMedia] = {}
        for place, part in parts:
            held = self._held.get((session, part.recording))
            if held is None:
                expected = f"expected a recording that is held, got {part.recording!r}"
                raise PartError("invalid_value", expected, place)
            if not isinstance(held, list):
                room = self._left(room, self._ears.num_tokens(len(held)), place)
                held = self._held[session, part.recording] = self._ears.windows(held)
            else:
                room = self._left(room, sum(medium.num_tokens for medium in held), place)
            found[place] = PartMedia([((), medium) for medium in held], "audio")
        return found

    def _left(self, room: int, count: int, place: Place) -> int:
        if count > room:
            raise PartError(
                "context_length_exceeded",
                f"expected recordings that fit the model's context, got {count} tokens where "
                f"{max(0, room)} are left",
                place,
            )
        return room - count

    def forget(self, session: str, name: str | None = None) -> None:
        """A session's recording is gone, or all of them."""
        for key in [key for key in self._held if key[0] == session and name in (None, key[1])]:
            del self._held[key]

    def stats(self) -> Mapping[str, int]:
        """Now: recordings held by sessions, and their bytes."""
        return {
            "recordings": len(self._held),
            "recording_bytes": sum(map(_bytes, self._held.values())),
        }


def _bytes(held: Samples | list[Medium]) -> int:
    if isinstance(held, list):
        return sum(medium.features.nbytes for medium in held)
    return held.nbytes
