# anthropic_messages.py
import base64
from pathlib import Path

from anthropic import Anthropic

client = Anthropic(base_url="http://127.0.0.1:8000", api_key="unused")
picture = base64.b64encode(Path("scene.png").read_bytes()).decode()
source = {"type": "base64", "media_type": "image/png", "data": picture}
question = {"type": "text", "text": "What colour is the circle?"}
with client.messages.stream(
    model="demo-qwen3-vl",
    max_tokens=100,
    messages=[{"role": "user", "content": [{"type": "image", "source": source}, question]}],
) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
print()
