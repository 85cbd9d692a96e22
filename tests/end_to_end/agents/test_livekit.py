"""A LiveKit agent with one tool, told the server's URL and nothing else: it keeps its instructions,
the tool is called, and what it said is answered, over chat completions and over the socket.

LiveKit is not among the test's requirements: LOOKHEAR_RECIPES_PYTHON names an interpreter that has
livekit-agents and livekit-plugins-openai.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lookhear.commands.private_server import ServerProcess
from tests.end_to_end.agents.test_sdks import CALLED, QUESTION, RULES, called_and_answered, run

PYTHON = os.environ.get("LOOKHEAR_RECIPES_PYTHON", sys.executable)

# The demo model is too small to choose a tool, so it is forced; behind the first call it is not.
AGENT = f"""
import asyncio, sys
from typing import Literal
from livekit.agents import Agent, AgentSession, function_tool
from livekit.plugins import openai

class Helper(Agent):
    def __init__(self):
        super().__init__(instructions="{RULES}")

    @function_tool
    async def weather(self, city: Literal["Rome", "Oslo"]) -> str:
        "Tells the weather."
        if not called:
            print("{CALLED}" if city in ("Rome", "Oslo") else city)
        called.append(city)
        return f"Rain in {{city}}."

    async def on_enter(self):
        if sys.argv[2] == "realtime":
            session = self.realtime_llm_session
            session.on("openai_server_event_received", told)

def told(event):
    if event["type"] == "session.updated":
        print(event["session"]["instructions"])

async def main():
    kind = openai.realtime.RealtimeModel if sys.argv[2] == "realtime" else openai.LLM
    model = kind(base_url=sys.argv[1], api_key="unused", tool_choice="required")
    async with AgentSession(llm=model) as session:
        session.on("error", lambda event: print(event.error))
        await session.start(Helper())
        result = await session.run(user_input="{QUESTION}")
        print(result.events[-1].item.text_content[:20])

called = []
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def port(request: pytest.FixtureRequest) -> int:
    there = subprocess.run([PYTHON, "-c", "import livekit.plugins.openai"], capture_output=True)
    if there.returncode != 0:
        pytest.skip("LiveKit is not installed; LOOKHEAR_RECIPES_PYTHON names where it is")
    server: ServerProcess = request.getfixturevalue("seeing_server")
    return server.port


@pytest.mark.parametrize("kind", ["chat", "realtime"])
def test_an_agent_with_a_tool(port: int, kind: str) -> None:
    out = run([PYTHON, "-c", AGENT, f"http://127.0.0.1:{port}/v1", kind])
    if kind == "realtime":
        assert RULES in out[: out.index(CALLED)]
    assert called_and_answered(out)
