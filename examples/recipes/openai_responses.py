# openai_responses.py
import base64
from pathlib import Path

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="unused")
picture = base64.b64encode(Path("scene.png").read_bytes()).decode()
image = {"type": "input_image", "image_url": f"data:image/png;base64,{picture}", "detail": "auto"}
question = {"type": "input_text", "text": "What colour is the circle?"}
first = client.responses.create(
    model="demo-qwen3-vl", input=[{"role": "user", "content": [image, question]}]
)
print(first.output_text)
# The picture need not be sent again.
second = client.responses.create(
    model="demo-qwen3-vl", previous_response_id=first.id, input="What colour is the circle?"
)
print(second.output_text)
