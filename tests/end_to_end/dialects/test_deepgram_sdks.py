"""Deepgram's own SDKs, told the server's URL and nothing else.

They are not among the test's requirements: LOOKHEAR_DEEPGRAM_PYTHON names an interpreter that has
deepgram-sdk, LOOKHEAR_NODE_FOLDER a folder with `npm install @deepgram/sdk`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest

from lookhear.bench.recordings.dataset import Audio, held_out
from lookhear.commands.private_server import ServerProcess
from tests.end_to_end.agents.test_sdks import needs_node, run, run_node
from tests.end_to_end.conftest import SERVE

PYTHON = os.environ.get("LOOKHEAR_DEEPGRAM_PYTHON", sys.executable)
SAID = next(u for u in held_out() if u.language == "en" and u.seen_voice)
KEY = "a-key"

LIVE_PY = """
import sys, threading
from deepgram import DeepgramClient
from deepgram.environment import DeepgramClientEnvironment
from deepgram.core.events import EventType

http, ws = f"http://127.0.0.1:{sys.argv[1]}", f"ws://127.0.0.1:{sys.argv[1]}"
places = DeepgramClientEnvironment(base=http, production=ws, agent=ws, agent_rest=http)
client = DeepgramClient(api_key=sys.argv[3], environment=places)
said, shown, kinds = [], [], []

def hear(message):
    kinds.append(type(message).__name__)
    if message.type == "Results":
        heard = message.channel.alternatives[0]
        (said if message.is_final else shown).append(heard.transcript)

options = dict(model="nova-3", language="en-US", encoding="linear16", sample_rate="24000")
with client.listen.v1.connect(
    **options, interim_results="true", keyterm=["phone", "living room"], endpointing="300"
) as connection:
    connection.on(EventType.MESSAGE, hear)
    connection.on(EventType.ERROR, lambda error: kinds.append(repr(error)))
    listening = threading.Thread(target=connection.start_listening)
    listening.start()
    with open(sys.argv[2], "rb") as file:
        data = file.read()[44:]
    connection.send_keep_alive()
    for first in range(0, len(data), 3200):
        connection.send_media(data[first : first + 3200])
    connection.send_finalize()
    connection.send_close_stream()
    listening.join(60)
print(" ".join(filter(None, said)))
print(bool(shown) and kinds[-1], set(kinds) <= {"ListenV1Results", "ListenV1Metadata"})
"""
FLUX_PY = """
import sys, threading
from deepgram import DeepgramClient
from deepgram.environment import DeepgramClientEnvironment
from deepgram.core.events import EventType
from deepgram.listen.v2.types import ListenV2Configure, ListenV2ConfigureThresholds

http, ws = f"http://127.0.0.1:{sys.argv[1]}", f"ws://127.0.0.1:{sys.argv[1]}"
places = DeepgramClientEnvironment(base=http, production=ws, agent=ws, agent_rest=http)
client = DeepgramClient(api_key=sys.argv[3], environment=places)
said, kinds = [], []

def hear(message):
    kinds.append(type(message).__name__)
    if message.type == "TurnInfo":
        kinds.append(message.event)
        if message.event == "EndOfTurn":
            said.append(message.transcript)
            kinds.append(message.trigger)

options = dict(model="flux-general-en", encoding="linear16", sample_rate="24000")
with client.listen.v2.connect(
    **options, eager_eot_threshold="0.4", eot_threshold="0.7", eot_timeout_ms="5000"
) as connection:
    connection.on(EventType.MESSAGE, hear)
    connection.on(EventType.ERROR, lambda error: kinds.append(repr(error)))
    listening = threading.Thread(target=connection.start_listening)
    listening.start()
    with open(sys.argv[2], "rb") as file:
        data = file.read()[44:]
    thresholds = ListenV2ConfigureThresholds(eot_threshold=0.8, eot_timeout_ms=3000)
    connection.send_configure(ListenV2Configure(type="Configure", thresholds=thresholds))
    for first in range(0, len(data), 3840):
        connection.send_media(data[first : first + 3840])
    connection.send_force_end_turn()
    connection.send_close_stream()
    listening.join(60)
print(" ".join(said))
known = {"ListenV2Connected", "ListenV2ConfigureSuccess", "ListenV2TurnInfo", "manual"}
turns = {"StartOfTurn", "Update", "EagerEndOfTurn", "TurnResumed", "EndOfTurn"}
print(kinds[:2], kinds[-3:], set(kinds) - known - turns)
"""
REFUSED_PY = """
import sys
from deepgram import DeepgramClient
from deepgram.core.api_error import ApiError
from deepgram.environment import DeepgramClientEnvironment
from websockets.exceptions import InvalidStatus

ws = f"ws://127.0.0.1:{sys.argv[1]}"
places = DeepgramClientEnvironment(base=ws, production=ws, agent=ws, agent_rest=ws)
for key, query in ((sys.argv[2], {"diarize": "true"}), ("wrong", {})):
    client = DeepgramClient(api_key=key, environment=places)
    try:
        with client.listen.v1.connect(
            model="nova-3", encoding="linear16", sample_rate="16000", **query
        ):
            print("let in")
    except ApiError as error:
        print(error.status_code)
    except InvalidStatus as error:  # newer than the one that the SDK knows
        print(error.response.status_code)
"""
FILE_PY = """
import sys
from deepgram import DeepgramClient
from deepgram.errors import BadRequestError
from deepgram.environment import DeepgramClientEnvironment

http, ws = f"http://127.0.0.1:{sys.argv[1]}", f"ws://127.0.0.1:{sys.argv[1]}"
places = DeepgramClientEnvironment(base=http, production=ws, agent=ws, agent_rest=http)
media = DeepgramClient(api_key=sys.argv[3], environment=places).listen.v1.media
with open(sys.argv[2], "rb") as file:
    data = file.read()
answer = media.transcribe_file(
    request=data, model="nova-3", smart_format=True, utterances=True, detect_language=True
)
[channel], [utterance] = answer.results.channels, answer.results.utterances
print(channel.alternatives[0].transcript)
print(utterance.transcript)
print(channel.detected_language, len(channel.alternatives[0].words))
try:
    media.transcribe_file(request=data, model="nova-3", diarize=True)
except BadRequestError as error:
    print(error.body["err_code"], "diarize" in error.body["err_msg"])
"""
FILE_JS = """
import { DeepgramClient } from "@deepgram/sdk";
import { readFileSync } from "node:fs";
const [port, path, apiKey] = process.argv.slice(2);
const http = `http://127.0.0.1:${port}`, ws = `ws://127.0.0.1:${port}`;
const environment = { base: http, production: ws, agent: ws, agentRest: http };
const client = new DeepgramClient({ apiKey, environment });
const answer = await client.listen.v1.media.transcribeFile(
  readFileSync(path), { model: "nova-3", language: "en", utterances: true });
console.log(answer.results.channels[0].alternatives[0].transcript);
console.log(answer.results.utterances[0].words.length, answer.metadata.channels);
"""
LIVE_JS = """
import { DeepgramClient } from "@deepgram/sdk";
import { readFileSync } from "node:fs";
const [port, path, apiKey] = process.argv.slice(2);
const http = `http://127.0.0.1:${port}`, ws = `ws://127.0.0.1:${port}`;
const environment = { base: http, production: ws, agent: ws, agentRest: http };
const client = new DeepgramClient({ apiKey, environment });
const connection = await client.listen.v1.connect({
  model: "nova-3", language: "en-US", encoding: "linear16", sample_rate: 24000,
  interim_results: "true", keyterm: ["phone", "living room"], endpointing: 300,
});
const said = [], kinds = [];
connection.on("message", (message) => {
  kinds.push(message.type);
  if (message.type === "Results" && message.is_final)
    said.push(message.channel.alternatives[0].transcript);
});
connection.on("error", (error) => kinds.push(String(error)));
connection.on("close", (event) => {
  console.log(said.filter((text) => text).join(" "));
  console.log(kinds.at(-1), event.code);
  process.exit(0);
});
connection.connect();
await connection.waitForOpen();
const data = readFileSync(path).subarray(44);
connection.sendKeepAlive({ type: "KeepAlive" });
for (let first = 0; first < data.length; first += 3200)
  connection.sendMedia(data.subarray(first, first + 3200));
connection.sendFinalize({ type: "Finalize" });
connection.sendCloseStream({ type: "CloseStream" });
"""
FLUX_JS = """
import { DeepgramClient } from "@deepgram/sdk";
import { readFileSync } from "node:fs";
const [port, path, apiKey] = process.argv.slice(2);
const http = `http://127.0.0.1:${port}`, ws = `ws://127.0.0.1:${port}`;
const environment = { base: http, production: ws, agent: ws, agentRest: http };
const client = new DeepgramClient({ apiKey, environment });
const connection = await client.listen.v2.connect({
  model: "flux-general-en", encoding: "linear16", sample_rate: 24000,
  eager_eot_threshold: 0.4, eot_threshold: 0.7, eot_timeout_ms: 5000,
});
const said = [], kinds = [];
connection.on("message", (message) => {
  kinds.push(message.event ?? message.type);
  if (message.event === "EndOfTurn") said.push(message.transcript);
});
connection.on("error", (error) => kinds.push(String(error)));
connection.on("close", (event) => {
  console.log(said.join(" "));
  console.log(kinds.slice(0, 2).join(" "), kinds.at(-1), event.code);
  process.exit(0);
});
connection.connect();
await connection.waitForOpen();
const data = readFileSync(path).subarray(44);
const thresholds = { eot_threshold: 0.8, eot_timeout_ms: 3000 };
connection.sendConfigure({ type: "Configure", thresholds });
for (let first = 0; first < data.length; first += 3840)
  connection.sendMedia(data.subarray(first, first + 3840));
connection.sendForceEndTurn({ type: "ForceEndTurn" });
connection.sendCloseStream({ type: "CloseStream" });
"""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    arguments = ["--model", "demo-whisper", "--api-key", KEY, *SERVE]
    with ServerProcess(arguments=arguments, start_seconds=120.0) as process:
        yield process.port


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A WAV file of one utterance: 16 bits, 24 kHz, after a header of 44 bytes."""
    path: Path = tmp_path_factory.mktemp("said") / "said.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 24_000, 0, "NONE", ""))
        file.writeframes(Audio().of(SAID).tobytes())
    return path


@pytest.fixture
def python() -> str:
    """An interpreter with the SDK."""
    if subprocess.run([PYTHON, "-c", "import deepgram"], capture_output=True).returncode != 0:
        pytest.skip("deepgram-sdk is not installed; LOOKHEAR_DEEPGRAM_PYTHON names where it is")
    return PYTHON


def test_live_in_python(port: int, recording: Path, python: str) -> None:
    out = run([python, "-c", LIVE_PY, str(port), str(recording), KEY])
    assert out == [SAID.text, "ListenV1Metadata True"]


def test_what_is_refused_in_python(port: int, python: str) -> None:
    assert run([python, "-c", REFUSED_PY, str(port), KEY]) == ["400", "401"]


def test_live_in_javascript(port: int, recording: Path, tmp_path: Path) -> None:
    needs_node("@deepgram/sdk")
    out = run_node(LIVE_JS, tmp_path, str(port), str(recording), KEY)
    assert out == [SAID.text, "Metadata 1000"]


def test_turns_in_python(port: int, recording: Path, python: str) -> None:
    out = run([python, "-c", FLUX_PY, str(port), str(recording), KEY])
    first, last = ["ListenV2Connected", "ListenV2ConfigureSuccess"], ["EndOfTurn", "manual"]
    assert out == [SAID.text, f"{first} {['ListenV2TurnInfo', *last]} set()"]


def test_turns_in_javascript(port: int, recording: Path, tmp_path: Path) -> None:
    needs_node("@deepgram/sdk")
    out = run_node(FLUX_JS, tmp_path, str(port), str(recording), KEY)
    assert out == [SAID.text, "Connected ConfigureSuccess EndOfTurn 1000"]


def test_files_in_python(port: int, recording: Path, python: str) -> None:
    out = run([python, "-c", FILE_PY, str(port), str(recording), KEY])
    words = len(SAID.text.split())
    assert out == [SAID.text, SAID.text, f"en {words}", "Bad Request True"]


def test_files_in_javascript(port: int, recording: Path, tmp_path: Path) -> None:
    needs_node("@deepgram/sdk")
    out = run_node(FILE_JS, tmp_path, str(port), str(recording), KEY)
    assert out == [SAID.text, f"{len(SAID.text.split())} 1"]
