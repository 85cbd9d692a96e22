"""Vectors of texts and pictures, and scores of pairs of them.

A session is one request. Order, gateway to engine: `HoldPicture`* and `HoldEmbeddings`* before the
`StartPooling` that names them. Engine to gateway: a `Pooled` for each document, in any order; or
`PoolingFailed`, as the last one. Who asks closes the session when it has all, or wants no more of
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.messages.chat import ChatMessage


@dataclass(frozen=True, slots=True)
class PoolingInput:
    """What is read. messages: of one of a user, its parts; with is_conversation, all as they are.
    tokens: ids instead, as they are."""

    messages: list[ChatMessage] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    is_conversation: bool = False


@dataclass(frozen=True, slots=True)
class PoolingSettings:
    """kind: "vector", one of each document; "tokens", one of each token; "score", of a query and a
    document, as high as they belong together. dimensions: a vector is cut to so many. normalise:
    whether it then has the length 1; None: as the checkpoint says. instruction: what it is for, in
    words; None: as the checkpoint says. role: "query", "document" or "": with a checkpoint that
    tells them apart. cache_salt: see `AnswerSettings`."""

    model: str
    kind: str = "vector"
    dimensions: int | None = None
    normalise: bool | None = None
    instruction: str | None = None
    role: str = ""
    cache_salt: str = ""


@dataclass(frozen=True, slots=True)
class StartPooling:
    """Answered by as many `Pooled` as there are documents. queries: for scores, one for each
    document, or one for all."""

    session: str
    settings: PoolingSettings
    documents: list[PoolingInput]
    queries: list[PoolingInput] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Pooled:
    """Of the document of that place. vectors: [1, width], [tokens, width], or [1, 1] with the
    score. tokens: that were read for it; a query that several documents share counts once. cached:
    of these, found instead of read."""

    session: str
    index: int
    vectors: NDArray[np.float32]
    tokens: int
    cached: int


@dataclass(frozen=True, slots=True)
class PoolingFailed:
    """code: machine word. message: begins with the setting that is to blame, if one is. side,
    index: the "query" or "document" that is to blame, if one is."""

    session: str
    code: str
    message: str
    side: str = ""
    index: int | None = None
