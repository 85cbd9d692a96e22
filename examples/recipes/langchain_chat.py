# langchain_chat.py
import base64
from pathlib import Path

from langchain_openai import ChatOpenAI, OpenAIEmbeddings

server = {"model": "demo-qwen3-vl", "base_url": "http://127.0.0.1:8000/v1", "api_key": "unused"}
model = ChatOpenAI(**server)
picture = base64.b64encode(Path("scene.png").read_bytes()).decode()
image = {"type": "image", "base64": picture, "mime_type": "image/png"}
question = {"type": "text", "text": "What colour is the circle?"}
for chunk in model.stream([{"role": "user", "content": [image, question]}]):
    print(chunk.text, end="", flush=True)
print()

# Its texts as they are: else tokens of OpenAI's models come.
vectors = OpenAIEmbeddings(**server, check_embedding_ctx_length=False)
print(len(vectors.embed_query("a red circle")), "numbers")
