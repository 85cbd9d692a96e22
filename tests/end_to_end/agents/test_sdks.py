"""The agents SDKs of OpenAI, the AI SDK and Anthropic's, told the server's URL and nothing else:
neither their names of models nor what they set at first is in their way. With one tool, which is
forced, since the demo model is too small to choose one: it is called, and what it said is
answered.

LOOKHEAR_AGENTS_PYTHON names another interpreter that has openai-agents, LOOKHEAR_NODE_FOLDER a
folder with `npm install @openai/agents ai @ai-sdk/openai @anthropic-ai/sdk zod`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lookhear.commands.private_server import ServerProcess

PYTHON = os.environ.get("LOOKHEAR_AGENTS_PYTHON", sys.executable)
NODE = Path(os.environ.get("LOOKHEAR_NODE_FOLDER", "."))
RECORDING = Path(__file__).parents[3] / "tools/demo/lookhear_demo/recordings/question-colour.opus"
QUESTION = "What colour is the circle?"
RULES = "Answer in one word."
ANSWER = "I see no picture."
CALLED = "called with a city that there is"

AGENTS_PY = f"""
import asyncio, sys
from agents.realtime import RealtimeAgent, RealtimeRunner

async def main():
    runner = RealtimeRunner(RealtimeAgent(name="A", instructions="{RULES}"))
    session = await runner.run(model_config={{"url": sys.argv[1], "api_key": "unused"}})
    async with session:
        await session.send_message("{QUESTION}")
        async for event in session:
            assert event.type != "error", event
            if event.type != "raw_model_event" or event.data.type != "raw_server_event":
                continue
            told = event.data.data
            if told["type"] == "session.updated":
                print(told["session"]["instructions"])
            elif told["type"] == "response.done":
                print(told["response"]["output"][0]["content"][0]["text"])
                return

asyncio.run(main())
"""
AGENTS_JS = f"""
import {{ RealtimeAgent, RealtimeSession, OpenAIRealtimeWebSocket }} from "@openai/agents/realtime";
const url = process.argv[2];
const agent = new RealtimeAgent({{ name: "A", instructions: "{RULES}" }});
const transport = new OpenAIRealtimeWebSocket({{ url }});
const session = new RealtimeSession(agent, {{ transport }});
session.on("error", (error) => {{ console.log(JSON.stringify(error)); process.exit(1); }});
transport.on("*", (event) => {{
  if (event.type === "session.updated") console.log(event.session.instructions);
  if (event.type !== "response.done") return;
  console.log(event.response.output[0].content[0].text);
  session.close();
}});
await session.connect({{ apiKey: "unused", url }});
session.sendMessage("{QUESTION}");
"""
AI_JS = f"""
import {{ createOpenAI }} from "@ai-sdk/openai";
import {{ experimental_transcribe, generateText, streamText }} from "ai";
import {{ readFileSync }} from "node:fs";
const openai = createOpenAI({{ baseURL: process.argv[2], apiKey: "unused" }});
const asked = {{ system: "{RULES}", prompt: "{QUESTION}" }};
const whole = await generateText({{ model: openai.chat("gpt-4o"), ...asked }});
console.log(whole.text, whole.response.modelId);
const {{ textStream }} = streamText({{ model: openai.chat("gpt-5-mini"), ...asked }});
let text = "";
for await (const piece of textStream) text += piece;
console.log(text);
const audio = readFileSync(process.argv[3]);
for (const name of ["whisper-1", "gpt-4o-mini-transcribe"])
  console.log((await experimental_transcribe({{ model: openai.transcription(name), audio }})).text);
"""
AGENTS_PY_TOOL = f"""
import asyncio, os, sys
from typing import Literal
os.environ |= {{"OPENAI_BASE_URL": sys.argv[1], "OPENAI_API_KEY": "unused"}}
from agents import Agent, ModelSettings, Runner, function_tool, set_default_openai_api

@function_tool
def weather(city: Literal["Rome", "Oslo"]) -> str:
    print("{CALLED}" if city in ("Rome", "Oslo") else city)
    return f"Rain in {{city}}."

set_default_openai_api("chat_completions")
forced = ModelSettings(tool_choice="required", parallel_tool_calls=False)
agent = Agent(name="A", instructions="{RULES}", tools=[weather], model_settings=forced)
print(asyncio.run(Runner.run(agent, "{QUESTION}")).final_output)
"""
REALTIME_PY_TOOL = f"""
import asyncio, sys
from typing import Literal
from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeRunner
from agents.realtime.model_inputs import RealtimeModelSendSessionUpdate

async def main():
    @function_tool
    async def weather(city: Literal["Rome", "Oslo"]) -> str:
        print("{CALLED}" if city in ("Rome", "Oslo") else city)
        update = RealtimeModelSendSessionUpdate(session_settings={{"tool_choice": "none"}})
        await session.model.send_event(update)
        return f"Rain in {{city}}."

    agent = RealtimeAgent(name="A", instructions="{RULES}", tools=[weather])
    forced = {{"tool_choice": "required"}}
    config = {{"url": sys.argv[1], "api_key": "unused", "initial_model_settings": forced}}
    session = await RealtimeRunner(agent).run(model_config=config)
    async with session:
        await session.send_message("{QUESTION}")
        async for event in session:
            assert event.type != "error", event
            if event.type != "raw_model_event" or event.data.type != "raw_server_event":
                continue
            told = event.data.data
            if told["type"] == "session.updated":
                print(told["session"]["instructions"])
            elif told["type"] == "response.output_text.done":
                print(told["text"])
                return

asyncio.run(main())
"""
REALTIME_JS_TOOL = f"""
import {{
  RealtimeAgent, RealtimeSession, OpenAIRealtimeWebSocket, tool,
}} from "@openai/agents/realtime";
import {{ z }} from "zod";
const url = process.argv[2];
const weather = tool({{
  name: "weather",
  description: "Tells the weather.",
  parameters: z.object({{ city: z.enum(["Rome", "Oslo"]) }}),
  execute: ({{ city }}) => {{
    console.log(["Rome", "Oslo"].includes(city) ? "{CALLED}" : city);
    transport.updateSessionConfig({{ toolChoice: "none" }});
    return `Rain in ${{city}}.`;
  }},
}});
const agent = new RealtimeAgent({{ name: "A", instructions: "{RULES}", tools: [weather] }});
const transport = new OpenAIRealtimeWebSocket({{ url }});
const session = new RealtimeSession(agent, {{ transport, config: {{ toolChoice: "required" }} }});
session.on("error", (error) => {{ console.log(JSON.stringify(error)); process.exit(1); }});
transport.on("*", (event) => {{
  if (event.type === "session.updated") console.log(event.session.instructions);
  if (event.type !== "response.output_text.done") return;
  console.log(event.text);
  session.close();
}});
await session.connect({{ apiKey: "unused", url }});
session.sendMessage("{QUESTION}");
"""
AI_JS_TOOL = f"""
import {{ createOpenAI }} from "@ai-sdk/openai";
import {{ generateText, stepCountIs, tool }} from "ai";
import {{ z }} from "zod";
const openai = createOpenAI({{ baseURL: process.argv[2], apiKey: "unused" }});
const weather = tool({{
  description: "Tells the weather.",
  inputSchema: z.object({{ city: z.enum(["Rome", "Oslo"]) }}),
  execute: ({{ city }}) => {{
    console.log(["Rome", "Oslo"].includes(city) ? "{CALLED}" : city);
    return `Rain in ${{city}}.`;
  }},
}});
const result = await generateText({{
  model: openai.chat("gpt-4o"),
  system: "{RULES}",
  prompt: "{QUESTION}",
  tools: {{ weather }},
  stopWhen: stepCountIs(2),
  prepareStep: ({{ stepNumber }}) => ({{ toolChoice: stepNumber === 0 ? "required" : "none" }}),
}});
console.log(result.text);
"""

ANTHROPIC_JS = f"""
import Anthropic from "@anthropic-ai/sdk";
const client = new Anthropic({{ baseURL: process.argv[2], apiKey: "unused" }});
const weather = {{
  name: "weather",
  description: "Tells the weather.",
  input_schema: {{
    type: "object",
    properties: {{ city: {{ type: "string", enum: ["Rome", "Oslo"] }} }},
    required: ["city"],
  }},
}};
const messages = [{{ role: "user", content: "{QUESTION}" }}];
const asked = {{ model: "claude", max_tokens: 64, system: "{RULES}", tools: [weather], messages }};
const {{ input_tokens }} = await client.messages.countTokens({{
  model: "claude", system: "{RULES}", tools: [weather], messages,
}});
const first = await client.messages
  .stream({{ ...asked, tool_choice: {{ type: "tool", name: "weather" }} }})
  .finalMessage();
const {{ cache_read_input_tokens: cached, input_tokens: fresh }} = first.usage;
console.log(cached + fresh === input_tokens ? "counted" : JSON.stringify(first.usage));
const call = first.content.find((block) => block.type === "tool_use");
console.log(["Rome", "Oslo"].includes(call.input.city) ? "{CALLED}" : JSON.stringify(call));
messages.push({{ role: "assistant", content: first.content }});
messages.push({{
  role: "user",
  content: [{{ type: "tool_result", tool_use_id: call.id, content: "Rain." }}],
}});
const second = await client.messages.create({{ ...asked, tool_choice: {{ type: "none" }} }});
console.log(second.content.map((block) => block.text).join(""));
"""


@pytest.fixture
def port(seeing_server: ServerProcess) -> int:
    return seeing_server.port


def run(command: list[str]) -> list[str]:
    """-> the lines that it prints"""
    environment = os.environ | {"NO_PROXY": "127.0.0.1", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("\n")[:-1]


def run_node(program: str, folder: Path, *arguments: str) -> list[str]:
    path = folder / "program.mjs"
    path.write_text(program, "utf-8")
    (folder / "node_modules").symlink_to(NODE / "node_modules")
    return run(["node", str(path), *arguments])


def needs_node(package: str) -> None:
    if shutil.which("node") is None or not (NODE / "node_modules" / package).is_dir():
        pytest.skip(f"{package} is not installed; LOOKHEAR_NODE_FOLDER names where it is")


def needs_agents() -> None:
    there = subprocess.run([PYTHON, "-c", "import agents.realtime"], capture_output=True)
    if there.returncode != 0:
        pytest.skip("openai-agents is not installed; LOOKHEAR_AGENTS_PYTHON names where it is")


def called_and_answered(out: list[str]) -> bool:
    """Whether the tool was called once, and something was said behind it."""
    place = out.index(CALLED)
    answer = [line for line in out[place + 1 :] if line != RULES]
    return CALLED not in answer and bool("".join(answer).strip())


def test_openai_agents_in_python(port: int) -> None:
    needs_agents()
    out = run([PYTHON, "-c", AGENTS_PY, f"ws://127.0.0.1:{port}/v1/realtime"])
    assert set(out[:-1]) == {RULES} and out[-1] == ANSWER


def test_openai_agents_in_javascript(port: int, tmp_path: Path) -> None:
    needs_node("@openai/agents")
    out = run_node(AGENTS_JS, tmp_path, f"ws://127.0.0.1:{port}/v1/realtime")
    # It sets its tracing first; what it sends next has the instructions.
    assert out[-2:] == [RULES, ANSWER]


@pytest.mark.parametrize("model", ["openai.chat", "openai"])
def test_the_ai_sdk(port: int, tmp_path: Path, model: str) -> None:
    """Its default is the Responses API."""
    needs_node("@ai-sdk/openai")
    script = AI_JS.replace("openai.chat", model)
    out = run_node(script, tmp_path, f"http://127.0.0.1:{port}/v1", str(RECORDING))
    assert out == [f"{ANSWER} demo-qwen3-vl", ANSWER, QUESTION, QUESTION]


def test_a_tool_of_openai_agents_in_python(port: int) -> None:
    needs_agents()
    assert called_and_answered(run([PYTHON, "-c", AGENTS_PY_TOOL, f"http://127.0.0.1:{port}/v1"]))
    out = run([PYTHON, "-c", REALTIME_PY_TOOL, f"ws://127.0.0.1:{port}/v1/realtime"])
    assert out[0] == RULES and called_and_answered(out)


def test_a_tool_of_openai_agents_in_javascript(port: int, tmp_path: Path) -> None:
    needs_node("@openai/agents")
    out = run_node(REALTIME_JS_TOOL, tmp_path, f"ws://127.0.0.1:{port}/v1/realtime")
    assert RULES in out[: out.index(CALLED)] and called_and_answered(out)


@pytest.mark.parametrize("model", ["openai.chat", "openai"])
def test_a_tool_of_the_ai_sdk(port: int, tmp_path: Path, model: str) -> None:
    needs_node("@ai-sdk/openai")
    script = AI_JS_TOOL.replace("openai.chat", model)
    assert called_and_answered(run_node(script, tmp_path, f"http://127.0.0.1:{port}/v1"))


def test_a_tool_of_the_anthropic_sdk_in_javascript(port: int, tmp_path: Path) -> None:
    needs_node("@anthropic-ai/sdk")
    counted, *out = run_node(ANTHROPIC_JS, tmp_path, f"http://127.0.0.1:{port}")
    assert counted == "counted" and called_and_answered(out)
