# blocking.py
from lookhear import Client, TurnCompleted

with Client("http://127.0.0.1:8000") as client:
    for event in client.transcribe("question.wav"):  # or Microphone(), or chunks of PCM
        if isinstance(event, TurnCompleted) and event.text:
            print(f"{event.language}: {event.text.strip()}")
    print("".join(client.chat("What colour is the square?", images=["scene.png"])))
