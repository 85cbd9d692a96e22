# deepgram_turns.py
"""Turns of a conversation through Deepgram's SDK (Flux): when to think, and when to answer."""

import wave
from threading import Thread

from deepgram import DeepgramClient
from deepgram.core.events import EventType
from deepgram.environment import DeepgramClientEnvironment

HTTP, WS = "http://127.0.0.1:8000", "ws://127.0.0.1:8000"
place = DeepgramClientEnvironment(base=HTTP, production=WS, agent=WS, agent_rest=HTTP)
client = DeepgramClient(api_key="unused", environment=place)


def show(message):
    if message.type == "TurnInfo" and message.event == "EndOfTurn":
        print(message.transcript)  # EagerEndOfTurn: begin an answer; TurnResumed: give it up


with wave.open("question.wav", "rb") as file:
    rate, data = str(file.getframerate()), file.readframes(file.getnframes())
with client.listen.v2.connect(
    model="flux-general-en", encoding="linear16", sample_rate=rate, eager_eot_threshold="0.4"
) as connection:
    connection.on(EventType.MESSAGE, show)
    listening = Thread(target=connection.start_listening)
    listening.start()
    for first in range(0, len(data), 4800):
        connection.send_media(data[first : first + 4800])
    connection.send_close_stream()
    listening.join()
