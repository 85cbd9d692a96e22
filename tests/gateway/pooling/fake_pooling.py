"""The half of the fake engine that makes vectors and scores: known ones, of what it was shown.

A vector is (letters, pictures, 1); a score is a share of the document's words that its query has. A
token is a word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lookhear.engine.client.client import InputRefused
from lookhear.engine.messages import (
    HoldEmbeddings,
    HoldPicture,
    ImagePart,
    ModelCard,
    Pooled,
    PoolingInput,
    StartPooling,
    TextPart,
)

VECTORS = ModelCard(
    "fake/vectors",
    "qwen3-vl",
    [],
    1_700_000_000,
    2_100_000,
    has_word_times=False,
    abilities=["embed", "score", "image"],
    context_tokens=4096,
)


def text_of(given: PoolingInput) -> str:
    parts = [part for message in given.messages for part in message.parts]
    return " ".join(part.text for part in parts if isinstance(part, TextPart))


def pictures_of(given: PoolingInput) -> list[str]:
    parts = [part for message in given.messages for part in message.parts]
    return [part.picture for part in parts if isinstance(part, ImagePart)]


@dataclass
class FakePooling:
    """refusal: of the next request. gate: requests wait for it. asked: all of them, and the sizes
    of their pictures. cancelled: sessions. given: embeddings of clients."""

    refusal: InputRefused | None = None
    gate: asyncio.Event | None = None
    asked: list[StartPooling] = field(default_factory=list)
    sizes: list[list[tuple[int, ...]]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    given: list[HoldEmbeddings] = field(default_factory=list)

    async def pool(
        self, message: StartPooling, held: Sequence[HoldPicture | HoldEmbeddings]
    ) -> list[Pooled]:
        pictures = [item for item in held if isinstance(item, HoldPicture)]
        names = {picture.picture for picture in pictures}
        for given in (*message.documents, *message.queries):
            assert all(name in names for name in pictures_of(given))
        self.asked.append(message)
        self.given += [item for item in held if isinstance(item, HoldEmbeddings)]
        self.sizes.append([picture.pixels.shape for picture in pictures])
        if self.gate is not None:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.append(message.session)
                raise
        if self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            raise refusal
        return [self._pooled(message, i) for i in range(len(message.documents))]

    def _pooled(self, message: StartPooling, index: int) -> Pooled:
        document = message.documents[index]
        words = text_of(document).split()
        tokens = len(document.tokens) or len(words)
        if message.settings.kind == "score":
            query = message.queries[index if len(message.queries) > 1 else 0]
            asked = text_of(query).split()
            shared = sum(word in asked for word in words) / max(1, len(words))
            vectors = np.array([[shared]], np.float32)
        else:
            letters = sum(map(len, words)) or len(document.tokens)
            one = [float(letters), float(len(pictures_of(document))), 1.0]
            count = tokens if message.settings.kind == "tokens" else 1
            vectors = np.array([one[: message.settings.dimensions]] * count, np.float32)
        return Pooled(message.session, index, vectors, tokens, 1)
