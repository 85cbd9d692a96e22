"""How well texts and pictures belong together: vLLM's `POST /v1/score`, and `POST /v1/rerank` as
Jina, Cohere and vLLM have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from lookhear.engine.messages import ModelCard, Pooled, PoolingSettings
from lookhear.gateway.checks.answers import INT32
from lookhear.gateway.http.errors import wrong
from lookhear.gateway.pooling.asked import (
    Asked,
    Json,
    PoolingFields,
    checked,
    ignored_in,
    usage_of,
)
from lookhear.gateway.pooling.inputs import Given, parse_inputs

# By the names that servers have had for them, the newest first.
QUERIES = ("queries", "text_1", "data_1")
DOCUMENTS = ("documents", "items", "text_2", "data_2")


class RerankFields(PoolingFields):
    """The fields that are read, but for query and documents. top_n: results at most; 0: all."""

    top_n: Annotated[int, Field(ge=0, lt=INT32)] | None = None
    return_documents: bool | None = None


def parse_score(body: Json, max_media: int) -> Asked:
    """Raises ApiError."""
    fields = checked(body, PoolingFields)
    queries = _given(body, QUERIES, max_media)
    documents = _given(body, DOCUMENTS, max_media, splits=True)
    if len(queries) not in (1, len(documents)):
        name, place = _named(body, QUERIES), _named(body, DOCUMENTS)
        expected = f"one, or as many as {place}, which are {len(documents)}"
        raise wrong(name, expected, str(len(queries)))

    def render(card: ModelCard, pooled: Sequence[Pooled], id: str, now: int) -> Json:
        scores = [
            {"index": i, "object": "score", "score": float(one.vectors[0, 0])}
            for i, one in enumerate(pooled)
        ]
        head = {"id": id, "object": "list", "created": now, "model": card.id}
        return {**head, "data": scores, "usage": usage_of(pooled)}

    return Asked(
        model=fields.model,
        ability="score",
        settings=_settings(fields),
        documents=documents,
        queries=tuple(queries),
        render=render,
        ignored=ignored_in(body, PoolingFields, *QUERIES, *DOCUMENTS),
    )


def parse_rerank(body: Json, max_media: int) -> Asked:
    """Raises ApiError."""
    fields = checked(body, RerankFields)
    queries = parse_inputs(body.get("query"), "query", max_media)
    if len(queries) > 1:
        raise wrong("query", "one", str(len(queries)))
    documents = parse_inputs(body.get("documents"), "documents", max_media, splits=True)
    shows = fields.return_documents is not False

    def render(card: ModelCard, pooled: Sequence[Pooled], id: str, now: int) -> Json:
        scores = [float(one.vectors[0, 0]) for one in pooled]
        best = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
        results = [
            {
                "index": i,
                "relevance_score": scores[i],
                **({"document": {"text": documents[i].text}} if shows else {}),
            }
            for i in best[: fields.top_n or None]
        ]
        return {"id": id, "model": card.id, "results": results, "usage": usage_of(pooled)}

    return Asked(
        model=fields.model,
        ability="score",
        settings=_settings(fields),
        documents=documents,
        queries=tuple(queries),
        render=render,
        ignored=ignored_in(body, RerankFields, "query", "documents"),
    )


def _settings(fields: PoolingFields) -> PoolingSettings:
    return PoolingSettings(
        model="",
        kind="score",
        instruction=fields.instruction,
        cache_salt=fields.cache_salt or "",
    )


def _named(body: Json, names: Sequence[str]) -> str:
    return next((name for name in names if body.get(name) is not None), names[0])


def _given(
    body: Json, names: Sequence[str], max_media: int, *, splits: bool = False
) -> list[Given]:
    name = _named(body, names)
    return parse_inputs(body.get(name), name, max_media, splits=splits)
