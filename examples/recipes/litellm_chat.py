# litellm_chat.py
import base64
from pathlib import Path

import litellm

server = {"api_base": "http://127.0.0.1:8000/v1", "api_key": "unused"}
with open("question.wav", "rb") as file:
    heard = litellm.transcription(model="openai/demo-qwen3-asr", file=file, **server)
print(heard.text)
picture = base64.b64encode(Path("scene.png").read_bytes()).decode()
image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
answer = litellm.completion(
    model="openai/demo-qwen3-vl",
    messages=[{"role": "user", "content": [image, {"type": "text", "text": heard.text}]}],
    **server,
)
print(answer.choices[0].message.content)
