"""`response_format`: answers that are JSON, or JSON of a schema."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from lookhear.gateway.checks.checks import Text, WireModel, check_json, shown

MAX_SCHEMA_BYTES = 64 * 1024  # of JSON without blanks
MAX_SCHEMA_DEPTH = 64
ANY_OBJECT = '{"type":"object"}'


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    check_json(schema, MAX_SCHEMA_DEPTH)
    size = len(_written(schema).encode())
    if size > MAX_SCHEMA_BYTES:
        raise ValueError(f"expected at most {MAX_SCHEMA_BYTES} bytes of JSON, got {size}")
    return schema


def _written(schema: dict[str, Any]) -> str:
    try:
        return json.dumps(schema, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise ValueError("expected JSON, got a number that is not finite") from None


def _name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise ValueError(f"expected 1 to 64 letters, digits, _ and -, got {shown(name)}")
    return name


class JsonSchema(WireModel):
    """name, description, strict: taken and not used; an answer keeps to its schema anyway."""

    name: Annotated[str, AfterValidator(_name)]
    description: Text | None = None
    content: Annotated[dict[str, Any], AfterValidator(_schema)] = Field(alias="schema")
    strict: bool | None = None


class ResponseFormat(WireModel):
    """How answers are to look; `CheckedFormat` is it with a schema where one belongs."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    def on_wire(self) -> dict[str, Any]:
        """As the client gave it."""
        return self.model_dump(by_alias=True, exclude_unset=True)

    def schema_text(self) -> str | None:
        """The schema that the answer keeps to, as JSON text."""
        if self.type == "json_object":
            return ANY_OBJECT
        if self.type == "json_schema":
            assert self.json_schema is not None
            return _written(self.json_schema.content)
        return None


def _complete(format: ResponseFormat) -> ResponseFormat:
    if (format.type == "json_schema") != (format.json_schema is not None):
        expected = "json_schema with it" if format.json_schema is None else "no json_schema with it"
        raise ValueError(f"expected {expected}, got {shown(format.type)} for the type")
    return format


CheckedFormat = Annotated[ResponseFormat, AfterValidator(_complete)]
