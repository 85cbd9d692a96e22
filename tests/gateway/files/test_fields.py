"""Fields of the form of a file, as clients write them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.gateway.files.test_http import post
from tests.gateway.running import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("path", ["transcriptions", "translations"])
async def test_of_a_long_prompt_the_engine_is_given_the_end(
    path: str, shared: Running, http: httpx.AsyncClient
) -> None:
    end = "🦉" + 8191 * "o"
    answer = await post(http, path, prompt=2_000_000 * "x" + end)
    assert answer.status_code == 200, answer.text
    assert shared.engine.files[-1].settings.prompt == end
    answer = await post(http, path, prompt=end)
    assert answer.status_code == 200, answer.text
    assert shared.engine.files[-1].settings.prompt == end


@pytest.mark.parametrize("name", [r"\ud800", 200_000 * "k"], ids=["half a character", "long"])
async def test_a_name_that_no_voice_detector_knows_is_shown_as_far_as_it_can_be(
    name: str, http: httpx.AsyncClient
) -> None:
    answer = await post(http, chunking_strategy=f'{{"type": "server_vad", "{name}": 1}}')
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["param"] == "chunking_strategy" and name[:50] in error["message"]
    assert len(answer.text) < 1000


@pytest.mark.parametrize("suffix", ["", "[]", "[0]"])
async def test_a_list_may_be_numbered(suffix: str, http: httpx.AsyncClient) -> None:
    name, form = f"timestamp_granularities{suffix}", "verbose_json"
    fields: dict[str, Any] = {"response_format": form, name: "word"}
    answer = await post(http, **fields)
    assert answer.status_code == 200, answer.text
    assert answer.json()["words"] and "segments" not in answer.json()
    answer = await post(http, **fields | {name: "page"})
    assert answer.status_code == 400
