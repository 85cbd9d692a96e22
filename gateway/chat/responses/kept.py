"""Responses that are kept, over HTTP: `/v1/responses/{id}` and its `input_items`."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lookhear.gateway.chat.dialect import Json
from lookhear.gateway.chat.responses.dialect import NOT_KEPT
from lookhear.gateway.chat.responses.store import Kept, Store
from lookhear.gateway.checks.checks import shown
from lookhear.gateway.http.errors import ApiError, wrong
from lookhear.gateway.http.paging import limit_of, place_of
from lookhear.gateway.services.services import services

MOST_LISTED, LISTED = 100, 20  # items of a page


@dataclass(frozen=True, slots=True)
class KeptResponses:
    """store: None if nothing is kept."""

    store: Store | None

    async def one(self, request: Request) -> Response:
        """The response, or, if it is to be deleted, that it was. Raises ApiError."""
        kept = self._kept(request)
        if request.method == "DELETE":
            assert self.store is not None
            id = kept.response["id"]
            self.store.delete(id, kept.owner)
            return JSONResponse({"id": id, "object": "response", "deleted": True})
        if request.query_params.get("stream", "false") != "false":
            why = "a response that is over is not streamed again"
            got = shown(request.query_params["stream"])
            raise wrong("stream", f"false or nothing, {why}", got, "unsupported_parameter")
        return JSONResponse(kept.response)

    async def compact(self, _: Request) -> Response:
        """What was said is kept as it was said. Raises ApiError."""
        message = "nothing is compacted here: expected what is to be kept as input of a response"
        raise ApiError(404, message, code="unsupported_endpoint")

    async def cancel(self, request: Request) -> Response:
        """Only who made a response in the background could wish to, and nobody does here. Raises
        ApiError."""
        id = self._kept(request).response["id"]
        expected = "the id of a response that is made in the background, none is here"
        raise wrong("response_id", expected, shown(id), "unsupported_parameter")

    async def input_items(self, request: Request) -> Response:
        """What the response answers, the newest first unless `order` is asc. Raises ApiError."""
        kept, query = self._kept(request), request.query_params
        order = query.get("order", "desc")
        if order not in ("asc", "desc"):
            raise wrong("order", "asc or desc", shown(order))
        items = [each.wire for each in kept.input]
        if order == "desc":
            items.reverse()
        after = place_of(query, "after", items, "the id of an item of this response")
        items = items[0 if after is None else after + 1 :]
        return JSONResponse(_page(items, limit_of(query, LISTED, MOST_LISTED)))

    def _kept(self, request: Request) -> Kept:
        id = request.path_params["id"]
        owner = services(request).access.owner(request.headers)
        kept = None if self.store is None else self.store.get(id, owner)
        if kept is None:
            why = "" if self.store is not None else f" ({NOT_KEPT})"
            message = f"expected the id of a response that is kept here, got {shown(id)}{why}"
            raise ApiError(404, message, code="response_not_found")
        return kept


def _page(items: list[Json], limit: int) -> Json:
    page = items[:limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else "",
        "last_id": page[-1]["id"] if page else "",
        "has_more": len(items) > limit,
    }
