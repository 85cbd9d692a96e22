"""The seam between the pooling path and the APIs that it is asked by.

A body becomes an `Asked`, and what an engine made of its inputs an object of that API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from lookhear.engine.messages import ModelCard, Pooled, PoolingSettings
from lookhear.gateway.chat.completions.parameters import MAX_SALT
from lookhear.gateway.chat.refusals import Absent, check_absent, invalid
from lookhear.gateway.checks.checks import Text, WireModel
from lookhear.gateway.checks.unread import MOST, unread
from lookhear.gateway.pooling.inputs import Given

Json = dict[str, Any]

MAX_INSTRUCTION = 16_384  # characters

CUTS = "what is too long is refused, and not cut"
ABSENT: Absent = {
    "truncate_prompt_tokens": ((None, 0), CUTS),
    "prompt_embeds": ((None,), "embeddings are parts of a content: type prompt_embeds with data"),
    "embed_dtype": ((None, "float32"), "numbers are float32 here"),
    "endianness": ((None, "little", "native"), "numbers are little endian here"),
    "embedding_types": ((None, ["float"]), "vectors are float32 here"),
    "output_dtype": ((None, "float"), "vectors are float32 here"),
}
HARMLESS = {*ABSENT, "user", "priority", "request_id", "add_special_tokens"}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. model: as the client named it, None: it named none. ability: what that must be
    able to. fields: the name in the body of each setting that an engine's refusal may begin with.
    ignored: what was set and changes nothing."""

    model: str | None
    ability: str
    settings: PoolingSettings
    documents: list[Given]
    render: Callable[[ModelCard, Sequence[Pooled], str, int], Json]  # (…, id, Unix seconds)
    queries: tuple[Given, ...] = ()
    fields: Mapping[str, str] | None = None
    ignored: tuple[str, ...] = ()


class PoolingFields(WireModel):
    """What all of these APIs have."""

    model: Text | None = None
    instruction: Annotated[Text, Field(max_length=MAX_INSTRUCTION)] | None = None
    cache_salt: Annotated[Text, Field(max_length=MAX_SALT)] | None = None


F = TypeVar("F", bound=PoolingFields)


def ignored_in(body: Mapping[str, Any], fields: type[PoolingFields], *read: str) -> tuple[str, ...]:
    """What a body sets that nobody reads. read: names that are read apart."""
    found = unread(body, fields, harmless={*HARMLESS, *read})
    return tuple([path for path, asks in found if asks][:MOST])


def checked(body: Mapping[str, Any], fields: type[F]) -> F:
    """Raises ApiError, naming the field."""
    check_absent(body, ABSENT)
    try:
        return fields.model_validate(body)
    except ValidationError as error:
        raise invalid(error) from None


def usage_of(pooled: Sequence[Pooled]) -> Json:
    """Of all that was read."""
    tokens = sum(one.tokens for one in pooled)
    return {
        "prompt_tokens": tokens,
        "total_tokens": tokens,
        "prompt_tokens_details": {"cached_tokens": sum(one.cached for one in pooled)},
    }
