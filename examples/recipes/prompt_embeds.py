# prompt_embeds.py
import base64
from importlib.resources import files

from openai import OpenAI
from safetensors.torch import load_file, save
from transformers import AutoTokenizer

folder = files("lookhear_demo") / "qwen3_vl"
tokens = AutoTokenizer.from_pretrained(folder)("What colour is the circle?").input_ids
table = load_file(folder / "model.safetensors")["model.language_model.embed_tokens.weight"]
data = base64.b64encode(save({"embeddings": table[tokens]})).decode()
picture = base64.b64encode(open("scene.png", "rb").read()).decode()

client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="unused")
answer = client.chat.completions.create(
    model="demo-qwen3-vl",
    messages=[
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}},
                {"type": "prompt_embeds", "data": data},
            ],
        }
    ],
)
print(answer.choices[0].message.content)
