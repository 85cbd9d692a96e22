"""What was shown in a session: pictures of what is left out of the context make room for others."""

from __future__ import annotations

from collections.abc import Container, Iterable

from lookhear.gateway.checks.checks import wrong
from lookhear.gateway.realtime.pictures.media_store import MediaStore
from lookhear.gateway.realtime.protocol.conversation import ImageContent, Item


def forget_pictures(items: Iterable[Item], left_out: Container[str], store: MediaStore) -> None:
    """Of items whose ids are left out: no answer sees them again. Nobody answers just now."""
    for item in items:
        if item.id in left_out:
            for part in item.content:
                if isinstance(part, ImageContent) and part.picture is not None:
                    store.release([part.picture])
                    part.picture = None


def check_pictures(item: Item, path: str) -> None:
    """What is asked about again has to be there. path: of the reference. Raises ProtocolError."""
    if any(isinstance(part, ImageContent) and part.picture is None for part in item.content):
        expected = "an item that fits into the context, or its pictures in an item of their own"
        raise wrong(path, expected, f"{item.id}, whose pictures are forgotten")
