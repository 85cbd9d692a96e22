# openai_vectors.py
from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="unused")
texts = ["a blue square", "a red circle", "a green star"]
found = client.embeddings.create(model="demo-qwen3-vl", input=texts)
print(len(found.data), "vectors of", len(found.data[0].embedding), "numbers")

body = {"model": "demo-qwen3-vl", "query": "a red circle", "documents": texts, "top_n": 1}
ranked = client.post("/rerank", cast_to=dict, body=body)
print("the most alike:", ranked["results"][0]["document"]["text"])
