"""The openai-agents package with one tool, told nothing but the address and the models. Skipped
where it is not installed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.gateway.running import Running

agents = pytest.importorskip("agents")
realtime = pytest.importorskip("agents.realtime")

pytestmark = pytest.mark.asyncio(loop_scope="module")


def tool(called: list[str]) -> Any:
    @agents.function_tool
    def weather(city: str) -> str:
        """Tells the weather."""
        called.append(city)
        return f"rain in {city}"

    return weather


async def test_a_realtime_agent_calls_its_tool_and_goes_on(seeing: Running) -> None:
    called: list[str] = []
    agent = realtime.RealtimeAgent(name="helper", instructions="Be kind.", tools=[tool(called)])
    url = seeing.http.replace("http", "ws") + "/v1/realtime?model=fake/vision"
    runner = realtime.RealtimeRunner(agent)
    said: list[str] = []
    async with asyncio.timeout(30):
        models = {
            "model_name": "fake/vision",
            "input_audio_transcription": {"model": "fake/whisper"},
        }
        config = {"url": url, "api_key": "none", "initial_model_settings": models}
        async with await runner.run(model_config=config) as session:
            await session.send_message('call weather {"city": "Rome"}')
            async for event in session:
                assert event.type != "error", event
                if event.type != "raw_model_event":
                    continue
                raw = getattr(event.data, "data", None)
                if isinstance(raw, dict) and raw.get("type") == "response.output_text.done":
                    said.append(raw["text"])
                    break
    assert called == ["Rome"]
    assert said == ["you said rain in Rome"]


async def test_an_agent_over_http_calls_its_tool_and_goes_on(seeing: Running) -> None:
    called: list[str] = []
    async with AsyncOpenAI(base_url=f"{seeing.http}/v1", api_key="none") as client:
        model = agents.OpenAIChatCompletionsModel("fake/vision", client)
        agent = agents.Agent(name="helper", model=model, tools=[tool(called)])
        agents.set_tracing_disabled(True)
        result = await agents.Runner.run(agent, 'call weather {"city": "Rome"}')
        assert (called, result.final_output) == (["Rome"], "you said rain in Rome")
        streamed = agents.Runner.run_streamed(agent, 'call weather {"city": "Oslo"}')
        async for _ in streamed.stream_events():
            pass
        assert (called, streamed.final_output) == (["Rome", "Oslo"], "you said rain in Oslo")
