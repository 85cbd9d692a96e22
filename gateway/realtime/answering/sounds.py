"""What was said in a session, as it sounds: so much is kept, and older speech is text alone."""

from __future__ import annotations

from collections.abc import Iterable

from lookhear.gateway.realtime.pictures.media_store import MediaStore
from lookhear.gateway.realtime.protocol.conversation import Item
from lookhear.gateway.realtime.protocol.refusals import too_much_sound


def seconds_of(items: Iterable[Item]) -> float:
    """Of all that is kept."""
    return sum(part.spoken.seconds for item in items for part in item.speech if part.spoken)


def forget_sounds(items: Iterable[Item], store: MediaStore, most: float) -> None:
    """If there is more than that: keep the newest half of it, and what has no text. Once for many
    turns, for the prompt changes from the first of them on. items: oldest first, that nobody
    answers just now."""
    items = list(items)
    left = seconds_of(items)
    if left <= most:
        return
    for item in items:
        for part in item.speech:
            if left <= most / 2:
                return
            if part.spoken is not None and part.transcript is not None:
                left -= part.spoken.seconds
                store.release([part.spoken])
                part.spoken = None


def check_sounds(items: Iterable[Item], path: str, most: float) -> None:
    """What nobody transcribes can only be heard, so it has to have room. path: of the newest item.
    Raises ProtocolError."""
    untold = (part for item in items for part in item.speech if not part.is_told)
    if sum(part.spoken.seconds for part in untold if part.spoken is not None) > most:
        raise too_much_sound(most, path)
