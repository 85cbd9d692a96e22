"""Any schemas and tools, sensible or not, to a server: an answer, or a refusal that names the
field; never an error of ours. LOOKHEAR_FUZZ=10000 tries so many."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lookhear.commands.private_server import ServerProcess
from tests.engine.sampling.any_schemas import EXAMPLES, NAMED, OBJECTS, SCHEMAS, TOOLS

MESSAGES = [{"role": "user", "content": "What colour is the circle?"}]
PARTS = ("tools", "tool_choice", "response_format", "structured_outputs", "body")


def formatted(schema: Any, *, strict: bool) -> dict[str, Any]:
    given = {"name": "a", "schema": schema, "strict": strict}
    return {"response_format": {"type": "json_schema", "json_schema": given}}


def tooled(functions: list[Any], choice: Any) -> dict[str, Any]:
    tools = [{"type": "function", "function": function} for function in functions]
    return {"tools": tools, "tool_choice": choice}


FORMS = st.builds(formatted, OBJECTS | SCHEMAS, strict=st.booleans()) | st.builds(
    lambda pattern: {"structured_outputs": {"regex": pattern}},
    st.text("ab(|)[]*+?{}^\\1,", max_size=8),
)
CALLS = st.builds(tooled, TOOLS, st.sampled_from(["auto", "required", *NAMED]))


@pytest.fixture(scope="module")
def http(seeing_server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=seeing_server.address.base_url, timeout=120.0) as client:
        yield client


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(FORMS | CALLS | st.builds(lambda a, b: a | b, FORMS, CALLS), st.booleans())
def test_whatever_is_asked_is_answered_or_refused_by_name(
    http: httpx.Client, asked: dict[str, Any], stream: bool
) -> None:
    body = {"messages": MESSAGES, "max_tokens": 6, "stream": stream, **asked}
    answer = http.post("/v1/chat/completions", content=json.dumps(body))
    if answer.status_code == 200:
        assert "server_error" not in answer.text, (asked, answer.text)
        return
    error = answer.json()["error"]
    assert answer.status_code == 400, (asked, error)
    assert error["type"] == "invalid_request_error" and error["message"]
    assert error["param"].startswith(PARTS), (asked, error)


def test_the_server_is_as_it_was(http: httpx.Client) -> None:
    answer = http.post("/v1/chat/completions", json={"messages": MESSAGES, "max_tokens": 6})
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"]
