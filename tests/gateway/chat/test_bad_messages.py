"""Whatever comes instead of a message in Anthropic's API."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.gateway.chat.messages.dialect import Messages, MessageTokens
from lookhear.gateway.http.errors import ApiError
from lookhear.gateway.telemetry.ids import Ids

KINDS = st.sampled_from(
    ["text", "image", "document", "tool_use", "tool_result", "thinking", "content", "base64", "url"]
    + ["user", "assistant", "system", "auto", "any", "tool", "none", "enabled", "json_schema", "f"]
)
NAMES = st.sampled_from(
    ["type", "role", "content", "text", "source", "media_type", "data", "url", "title", "id"]
    + ["name", "input", "tool_use_id", "is_error", "thinking", "description", "input_schema"]
    + ["format", "schema"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | KINDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    ["system", "max_tokens", "tools", "tool_choice", "thinking", "output_config", "stop_sequences"]
    + ["metadata", "model", "stream", "temperature"]
)


@settings(deadline=None)
@given(st.dictionaries(FIELDS, JSON, max_size=3), JSON)
def test_anything_is_a_question_or_a_refusal_that_names_its_place(
    fields: dict[str, Any], messages: Any
) -> None:
    body = {"max_tokens": 9, "messages": [{"role": "user", "content": "a"}], **fields}
    for asked in (body, {**body, "messages": messages}):
        whole = Messages(Ids())
        for dialect in (whole, MessageTokens(whole)):
            try:
                dialect.parse(asked, 4, "")
            except ApiError as error:
                assert error.status == 400 and error.code and error.param
                error.message.encode()
