# openai_file.py
from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="unused")
with open("talk.wav", "rb") as file:
    heard = client.audio.transcriptions.create(
        model="demo-qwen3-asr", file=file, response_format="verbose_json"
    )
print(heard.language)
for segment in heard.segments or []:
    print(segment.text.strip())
