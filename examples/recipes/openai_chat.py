# openai_chat.py
import base64
from pathlib import Path

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="unused")
picture = base64.b64encode(Path("scene.png").read_bytes()).decode()
answer = client.chat.completions.create(
    model="demo-qwen3-vl",
    stream=True,
    messages=[
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}},
                {"type": "text", "text": "What colour is the circle?"},
            ],
        }
    ],
)
for chunk in answer:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
