"""Asking a core for vectors and scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import (
    ChatMessage,
    CloseSession,
    Part,
    Pooled,
    PoolingFailed,
    PoolingInput,
    PoolingSettings,
    StartPooling,
    TextPart,
)

Given = str | Sequence[Part] | Sequence[int] | PoolingInput


def given(value: Given) -> PoolingInput:
    """A text, parts of a message, or tokens."""
    if isinstance(value, PoolingInput):
        return value
    if isinstance(value, str):
        return PoolingInput([ChatMessage("user", [TextPart(value)] if value else [])])
    tokens = [token for token in value if isinstance(token, int)]
    if tokens:
        return PoolingInput(tokens=tokens)
    parts = [part for part in value if not isinstance(part, int)]
    return PoolingInput([ChatMessage("user", parts)])


def start(
    documents: Sequence[Given], queries: Sequence[Given] = (), session: str = "p", **settings: Any
) -> StartPooling:
    kind = settings.pop("kind", "score" if queries else "vector")
    asked = PoolingSettings(**{"model": "m", "kind": kind, **settings})
    return StartPooling(session, asked, [given(d) for d in documents], [given(q) for q in queries])


def finish(core: EngineCore, session: str = "p") -> list[Pooled] | PoolingFailed:
    """Steps until the session has all that it asked for, or its refusal."""
    events: list[Any] = []
    while core.has_work:
        events += core.step()
        core.check()
    core.submit(CloseSession(session))
    failed = [e for e in events if isinstance(e, PoolingFailed) and e.session == session]
    if failed:
        assert len(failed) == 1
        return failed[0]
    found = [e for e in events if isinstance(e, Pooled) and e.session == session]
    return sorted(found, key=lambda e: e.index)


def pool(core: EngineCore, *documents: Given, **settings: Any) -> list[Pooled]:
    queries = settings.pop("queries", ())
    core.submit(start(documents, queries, **settings))
    found = finish(core, settings.get("session", "p"))
    assert isinstance(found, list), found
    assert [one.index for one in found] == list(range(len(documents)))
    return found


def vectors(core: EngineCore, *documents: Given, **settings: Any) -> NDArray[np.float32]:
    """[documents, width]"""
    return np.concatenate([one.vectors for one in pool(core, *documents, **settings)])


def scores(core: EngineCore, *documents: Given, **settings: Any) -> list[float]:
    return [float(one.vectors[0, 0]) for one in pool(core, *documents, **settings)]


def refusal(core: EngineCore, *documents: Given, **settings: Any) -> PoolingFailed:
    queries = settings.pop("queries", ())
    core.submit(start(documents, queries, **settings))
    found = finish(core)
    assert isinstance(found, PoolingFailed), found
    return found
