"""Adapters over HTTP: `POST /v1/load_lora_adapter` and `/v1/unload_lora_adapter`, as vLLM has them.

Only where the operator has named a folder (`--adapters`), and only what is below it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lookhear.engine.client.client import EngineRequestError, EngineUnavailable
from lookhear.engine.messages import LoadAdapter, ModelCard, UnloadAdapter
from lookhear.gateway.chat.endpoint import read_object
from lookhear.gateway.chat.refusals import invalid
from lookhear.gateway.checks.checks import Text, WireModel, is_clients_fault, shown
from lookhear.gateway.http.errors import ApiError, unavailable, wrong
from lookhear.gateway.http.requests import body_of, done_with_body
from lookhear.gateway.services.services import Services, served, services
from lookhear.gateway.telemetry.log import log_event

MAX_BODY = 64 * 1024
DUPLICATE = "duplicate_adapter"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class AdapterName(WireModel):
    """model: the base; absent: the first that takes adapters."""

    lora_name: Annotated[Text, Field(min_length=1, max_length=128)]
    model: Text | None = None


class AdapterPlace(AdapterName):
    """lora_path: below the folder; absent: the name. load_inplace: vLLM's; one of the same name is
    replaced only with it."""

    lora_path: Annotated[Text, Field(min_length=1, max_length=1024)] | None = None
    load_inplace: bool | None = None


A = TypeVar("A", bound=AdapterName)


async def load(request: Request) -> Response:
    """Raises ApiError."""
    gateway = services(request)
    asked, card = await _read(request, gateway, AdapterPlace)
    id = f"{card.id}:{asked.lora_name}"
    if any(model.is_called(id) for model in gateway.models if not model.parent):
        expected = f"another name, for {shown(id)} is a model of its own here"
        raise wrong("lora_name", expected, shown(asked.lora_name), DUPLICATE)
    folder = _folder(gateway, asked.lora_path or asked.lora_name)
    message = LoadAdapter(gateway.ids("adapter"), card.id, asked.lora_name, str(folder))
    try:
        loaded = await gateway.engine.load_adapter(message, replaces=bool(asked.load_inplace))
    except (EngineRequestError, EngineUnavailable) as error:
        able = [model for model in gateway.models if model.can("adapters") and not model.parent]
        guessed = card if not asked.model and len(able) > 1 else None
        raise _refusal(error, "lora_path", guessed) from None
    log_event("adapter loaded", model=card.id, adapter=asked.lora_name, version=loaded.version)
    told = {"id": id, "object": "adapter", "parent": card.id}
    return JSONResponse({**told, "rank": loaded.rank, "version": loaded.version})


async def unload(request: Request) -> Response:
    """Raises ApiError."""
    gateway = services(request)
    asked, card = await _read(request, gateway, AdapterName)
    message = UnloadAdapter(gateway.ids("adapter"), card.id, asked.lora_name)
    try:
        await gateway.engine.unload_adapter(message)
    except (EngineRequestError, EngineUnavailable) as error:
        raise _refusal(error, "lora_name") from None
    log_event("adapter unloaded", model=card.id, adapter=asked.lora_name)
    id = f"{card.id}:{asked.lora_name}"
    return JSONResponse({"id": id, "object": "adapter", "deleted": True})


async def _read(request: Request, gateway: Services, fields: type[A]) -> tuple[A, ModelCard]:
    gateway.check_loaded()
    if gateway.config.adapter_folder is None:
        text = "expected a server that takes adapters (--adapters FOLDER), this one takes none"
        raise ApiError(403, text, code="adapters_are_off")
    if gateway.siblings.number:
        text = "expected a server of one process, this one has several (--workers)"
        raise ApiError(403, text, code="adapters_are_off")
    body = await body_of(request, MAX_BODY)
    try:
        asked = fields.model_validate(read_object(body, MAX_BODY))
    except ValidationError as error:
        raise invalid(error) from None
    done_with_body(request)
    if NAME.fullmatch(asked.lora_name) is None:
        expected = "letters, digits, dots, dashes and underscores"
        raise wrong("lora_name", expected, shown(asked.lora_name))
    # Who names a model means that one: none stands in here.
    base = [replace(card, stands_in=False) for card in gateway.models if not card.parent]
    card = served(asked.model, base, "adapters")
    await gateway.until_ready(card.id)
    return asked, card


def _folder(gateway: Services, path: str) -> Path:
    """Below the operator's, links followed."""
    assert gateway.config.adapter_folder is not None
    root = gateway.config.adapter_folder.resolve()
    try:
        folder = (root / path).resolve()
        is_there = folder.is_relative_to(root) and folder.is_dir()
    except (OSError, ValueError):  # a name that no file can have
        is_there = False
    if not is_there:
        raise wrong("lora_path", "a folder below that of --adapters", shown(path))
    return folder


def _refusal(
    error: EngineRequestError | EngineUnavailable, param: str, guessed: ModelCard | None = None
) -> ApiError:
    """guessed: the model that was asked, of several, since the client named none."""
    if isinstance(error, EngineUnavailable):
        return unavailable(error)
    if error.code == DUPLICATE:
        return ApiError(400, f"lora_name: {error}", code=error.code, param="lora_name")
    if is_clients_fault(error.code):
        whose = f" ({guessed.id} was asked, no model was named)" if guessed else ""
        return ApiError(400, f"{param}: {error}{whose}", code=error.code, param=param)
    return ApiError(500, str(error), code=error.code)


def adapter_routes() -> list[Route]:
    """Both."""
    return [
        Route("/v1/load_lora_adapter", load, methods=["POST"]),
        Route("/v1/unload_lora_adapter", unload, methods=["POST"]),
    ]
