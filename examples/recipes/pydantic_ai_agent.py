# pydantic_ai_agent.py
import asyncio
from pathlib import Path

from pydantic_ai import Agent, BinaryContent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(base_url="http://127.0.0.1:8000/v1", api_key="unused")
agent = Agent(OpenAIChatModel("demo-qwen3-vl", provider=provider))
picture = BinaryContent(Path("scene.png").read_bytes(), media_type="image/png")


async def main() -> None:
    async with agent.run_stream(["What colour is the circle?", picture]) as answer:
        async for text in answer.stream_text(delta=True):
            print(text, end="", flush=True)
    print()
    print(answer.usage.output_tokens, "tokens")


asyncio.run(main())
