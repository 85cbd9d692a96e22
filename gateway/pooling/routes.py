"""The paths of vectors and scores, by every name that clients have for them."""

from __future__ import annotations

from functools import partial

from starlette.routing import Route

from lookhear.gateway.pooling.embeddings import parse_embeddings, parse_pooling
from lookhear.gateway.pooling.endpoint import Parse, answer
from lookhear.gateway.pooling.scores import parse_rerank, parse_score

PATHS: dict[str, Parse] = {
    "/v1/embeddings": parse_embeddings,
    "/pooling": parse_pooling,
    "/v1/score": parse_score,
    "/score": parse_score,
    "/v1/rerank": parse_rerank,
    "/v2/rerank": parse_rerank,
    "/rerank": parse_rerank,
}


def pooling_routes() -> list[Route]:
    """All of them."""
    return [
        Route(path, partial(answer, parse=parse), methods=["POST"]) for path, parse in PATHS.items()
    ]
