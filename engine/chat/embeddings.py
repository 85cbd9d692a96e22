"""The embeddings that sessions sent themselves, and what stands for them in a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.chat.pictures import PartError, PartMedia, Place
from lookhear.engine.messages import EmbeddingsPart
from lookhear.engine.paged.request import Medium

Rows = NDArray[np.float32]


class EmbeddingsStore:
    """What sessions hold. width: of the decoder, which reads them."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._held: dict[tuple[str, str], Rows | Medium] = {}  # by session and name

    def hold(self, session: str, name: str, rows: Rows) -> None:
        """rows: [tokens, width], finite. A name that is held already is replaced."""
        self._held[session, name] = rows

    def media_of(
        self, session: str, parts: Sequence[tuple[Place, EmbeddingsPart]], room: int
    ) -> dict[Place, PartMedia]:
        """What stands for each part. room: tokens that all of them may take. Raises `PartError`."""
        found: dict[Place, PartMedia] = {}
        for place, part in parts:
            held = self._held.get((session, part.embeddings))
            if held is None:
                expected = f"expected embeddings that are held, got {part.embeddings!r}"
                raise PartError("invalid_value", expected, place)
            if not isinstance(held, Medium):
                held = self._held[session, part.embeddings] = self._medium(held, place)
            if held.num_tokens > room:
                raise PartError(
                    "context_length_exceeded",
                    f"expected embeddings that fit the model's context, got {held.num_tokens} "
                    f"tokens where {max(0, room)} are left",
                    place,
                )
            room -= held.num_tokens
            found[place] = PartMedia([((), held)], "embeddings")
        return found

    def _medium(self, rows: Rows, place: Place) -> Medium:
        if rows.shape[1] != self._width:
            raise PartError(
                "invalid_value",
                f"expected embeddings of width {self._width}, the model's hidden size; got "
                f"{rows.shape[1]}",
                place,
            )
        return Medium.given(rows)

    def forget(self, session: str, name: str | None = None) -> None:
        """A session's embeddings of that name are gone, or all of them."""
        for key in [key for key in self._held if key[0] == session and name in (None, key[1])]:
            del self._held[key]

    def stats(self) -> Mapping[str, int]:
        """Now: embeddings held by sessions, and their bytes."""
        held = [h.features if isinstance(h, Medium) else h for h in self._held.values()]
        return {"embeddings": len(held), "embedding_bytes": sum(rows.nbytes for rows in held)}
