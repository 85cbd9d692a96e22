"""OpenAI's `POST /v1/embeddings`, and vLLM's `POST /pooling`, which also has a vector per token."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
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
from lookhear.gateway.pooling.inputs import parse_conversation, parse_inputs

ROLES = {
    "query": "query",
    "search_query": "query",
    "document": "document",
    "search_document": "document",
    "passage": "document",
}


class EmbeddingFields(PoolingFields):
    """The fields that are read, but for the input."""

    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1, lt=INT32)] | None = None
    normalize: bool | None = None
    input_type: (
        Literal["query", "search_query", "document", "search_document", "passage"] | None
    ) = None


class PoolingRequestFields(EmbeddingFields):
    """The same of `/pooling`. task: a vector of each input, or of each token."""

    task: Literal["embed", "token_embed"] | None = None


def parse_embeddings(body: Json, max_media: int) -> Asked:
    """Raises ApiError."""
    return _asked(body, checked(body, EmbeddingFields), EmbeddingFields, max_media, "vector")


def parse_pooling(body: Json, max_media: int) -> Asked:
    """Raises ApiError."""
    fields = checked(body, PoolingRequestFields)
    kind = "tokens" if fields.task == "token_embed" else "vector"
    return _asked(body, fields, PoolingRequestFields, max_media, kind)


def _asked(
    body: Json, fields: EmbeddingFields, known: type[EmbeddingFields], max_media: int, kind: str
) -> Asked:
    if body.get("messages") is not None:
        if body.get("input") is not None:
            raise wrong("messages", "none beside input", "some")
        documents = parse_conversation(body["messages"], max_media)
    else:
        documents = parse_inputs(body.get("input"), "input", max_media, tokens=True, empty=False)
    base = fields.encoding_format == "base64"
    name = "pooling" if known is PoolingRequestFields else "embedding"

    def render(card: ModelCard, pooled: Sequence[Pooled], id: str, now: int) -> Json:
        told = [_told(i, one, name, kind, base=base) for i, one in enumerate(pooled)]
        head = {"id": id, "object": "list", "created": now, "model": card.id}
        return {**head, "data": told, "usage": usage_of(pooled)}

    return Asked(
        model=fields.model,
        ability="embed",
        settings=PoolingSettings(
            model="",
            kind=kind,
            dimensions=fields.dimensions,
            normalise=fields.normalize,
            instruction=fields.instruction,
            role=ROLES.get(fields.input_type or "", ""),
            cache_salt=fields.cache_salt or "",
        ),
        documents=documents,
        render=render,
        fields={"kind": "task" if name == "pooling" else "model"},
        ignored=ignored_in(body, known, "input", "messages"),
    )


def _told(index: int, pooled: Pooled, name: str, kind: str, *, base: bool) -> Json:
    vectors = pooled.vectors if kind == "tokens" else pooled.vectors[0]
    value: Any
    if base:
        value = base64.b64encode(np.ascontiguousarray(vectors, "<f4").tobytes()).decode()
    else:
        value = vectors.tolist()
    return {
        "index": index,
        "object": name,
        "data" if name == "pooling" else "embedding": value,
    }
