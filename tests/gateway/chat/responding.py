"""What tests of responses share: requests, and every object and event against the openai package's
own models, strictly, with the order that its API promises."""

from __future__ import annotations

import json
from typing import Any

import httpx
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_item_list import ResponseItemList
from pydantic import TypeAdapter

RESPONSES = "/v1/responses"
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
ENDS = ("response.completed", "response.incomplete", "response.failed")
# Of each kind of item: the events between its `added` and its `done`.
TEXTS = {"message": "output_text", "reasoning": "reasoning_text"}


async def respond(http: httpx.AsyncClient, input: Any, **fields: Any) -> httpx.Response:
    body = {"model": "fake/vision", "input": input, **fields}
    content = json.dumps({key: value for key, value in body.items() if value != ...})
    return await http.post(RESPONSES, content=content, headers={"content-type": "application/json"})


def said(*parts: dict[str, Any], role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


def text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def check_response(body: dict[str, Any]) -> Response:
    """A response. Raises pydantic.ValidationError."""
    response = Response.model_validate(body, strict=True)
    usage = response.usage
    if response.status == "in_progress":
        assert usage is None and response.output == []
    elif response.status != "failed":
        assert usage is not None
        assert usage.total_tokens == usage.input_tokens + usage.output_tokens
        assert response.output
        (last, *before) = reversed(response.output)
        assert all(getattr(item, "status", None) == "completed" for item in before)
        assert getattr(last, "status", None) == response.status
    assert (response.status == "incomplete") is (response.incomplete_details is not None)
    assert (response.status == "failed") is (response.error is not None)
    return response


def check_items(body: dict[str, Any]) -> ResponseItemList:
    """A page of items. Raises pydantic.ValidationError."""
    return ResponseItemList.model_validate(body, strict=True)


def events_of(text: str) -> list[dict[str, Any]]:
    """The events of a stream that has ended; the name of each is its type."""
    *frames, rest = text.split("\n\n")
    assert rest == ""
    events = []
    for each in frames:
        name, data = each.split("\n")
        event: dict[str, Any] = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


def check_events(text: str) -> Response:
    """A whole stream -> the response that it ends with, which is what the events before it say."""
    events = events_of(text)
    for event in events:
        EVENT.validate_python(event, strict=True)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    for event in events[:2]:
        assert check_response(event["response"]).status == "in_progress"
    *middle, last = events[2:]
    assert last["type"] in ENDS
    response = check_response(last["response"])
    assert last["type"] == f"response.{response.status}"
    items: list[dict[str, Any]] = []
    while middle:
        items.append(_item(middle, len(items)))
    assert items == last["response"]["output"]
    return response


def _item(events: list[dict[str, Any]], index: int) -> dict[str, Any]:
    """Takes the events of the next item -> it, as they tell it."""
    added = events.pop(0)
    assert added["type"] == "response.output_item.added"
    item: dict[str, Any] = added["item"]
    mine = []
    while events and events[0]["type"] != "response.output_item.added":
        mine.append(events.pop(0))
    assert {event["output_index"] for event in [added, *mine]} == {index}
    assert item["status"] == "in_progress"
    assert mine[-1]["type"] == "response.output_item.done"
    done: dict[str, Any] = mine.pop()["item"]
    assert all(event["item_id"] == item["id"] == done["id"] for event in mine)
    kinds = [event["type"] for event in mine]
    told = "".join(event["delta"] for event in mine if "delta" in event)
    if item["type"] == "function_call":
        start, is_whole = "response.function_call_arguments", done["status"] == "completed"
        assert kinds[: len(kinds) - is_whole] == [f"{start}.delta"] * (len(kinds) - is_whole)
        assert (kinds[-1:] == [f"{start}.done"]) is is_whole
        assert item["arguments"] == "" and done["arguments"] == told
        if is_whole:
            assert mine[-1]["arguments"] == told
        return done
    start = f"response.{TEXTS[item['type']]}"
    assert kinds[0] == "response.content_part.added"
    assert kinds[-2:] == [f"{start}.done", "response.content_part.done"]
    assert set(kinds[1:-2]) <= {f"{start}.delta"}
    assert item["content"] == [] and done["content"] == [mine[-1]["part"]]
    assert mine[0]["part"]["text"] == "" and mine[-1]["part"]["text"] == told == mine[-2]["text"]
    if item["type"] == "message":
        tokens = [token for event in mine[1:-2] for token in event["logprobs"]]
        assert tokens == mine[-2]["logprobs"] == mine[-1]["part"]["logprobs"]
    return done
