# README: chat
"""A question about a picture; the answer is printed while it is written."""

from lookhear import Client

with Client("http://127.0.0.1:8000") as client:
    for text in client.chat("What colour is the circle?", images=["scene.png"]):
        print(text, end="", flush=True)
    print()
