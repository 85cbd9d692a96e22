"""Live servers side by side: the peers and ours, on one checkpoint and one cap of threads.

`with PeerServer(PEERS["whisperlive"], checkpoint, threads=2) as server:` gives a server that
answers at server.url in the protocol server.wire, and ends it with everything that it started.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from benchmarks.peers.checkpoints import (
    DEMO_WHISPER,
    alignment_heads,
    ctranslate2_folder,
    is_toy,
    tiktoken_folder,
)
from benchmarks.peers.environments import environment
from lookhear.commands.private_server import ChildServer, ServerFailed, free_port
from lookhear.errors import ConnectionFailed
from lookhear.transport.address import Server

START_SECONDS = 120.0
# The names that BLAS libraries, torch, CTranslate2 and onnxruntime ask for.
THREAD_CAPS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "ORT_NUM_THREADS",
)
_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Peer:
    """A server and its best honest settings on a CPU.

    wire: a name in `bench.wires.registry`. environment: in benchmarks.peers.environments, None
    for this Python. command: what follows the interpreter; {port}, {language}, {here} (this folder)
    and the forms of the checkpoint {huggingface}, {ctranslate2}, {tiktoken} and {alignment_heads}
    are filled in, and an option whose value is unknown is left out with it. settings: the options
    that are a choice, each with its reason. for_toys: those that demo-whisper needs, and that would
    harm a real Whisper, for which the peers' own defaults are made. path: of its WebSocket. ready:
    path that answers 200 when it is, None to ask over the WebSocket.
    """

    name: str
    wire: str
    environment: str | None
    command: tuple[str, ...]
    path: str
    ready: str | None
    settings: Mapping[str, str] = field(default_factory=dict)
    for_toys: Mapping[str, str] = field(default_factory=dict)

    def argv(self, checkpoint: Path, *, port: int, language: str) -> list[str]:
        """Of the server's process. NotInstalled, SourceError."""
        python = sys.executable
        if self.environment is not None:
            python = str(environment(self.environment).require().python)
        toy = is_toy(checkpoint)
        settings = [*self.settings, *(self.for_toys if toy else ())]
        wanted = "\n".join([*self.command, *settings])
        values: dict[str, str | None] = {
            "port": str(port),
            "language": language,
            "huggingface": str(checkpoint),
            "here": str(_HERE),
        }
        if "{ctranslate2}" in wanted:
            values["ctranslate2"] = str(ctranslate2_folder(checkpoint))
        if "{tiktoken}" in wanted:
            values["tiktoken"] = str(tiktoken_folder(checkpoint)) if toy else ""
        if "{alignment_heads}" in wanted:
            values["alignment_heads"] = alignment_heads(checkpoint)
        arguments = list(self.command)
        for setting in settings:
            option, _, value = setting.partition(" ")
            if value and values.get(value.strip("{}"), value) is None:
                continue
            arguments += [option, value] if value else [option]
        return [python, *(argument.format(**values) for argument in arguments)]


_LIVEKIT = ("-P", "{here}/whisperlivekit_launcher.py", "{tiktoken}", "--port", "{port}")
_LIVE = ("-P", "{here}/whisperlive_launcher.py", "--port", "{port}")
_LIVEKIT_SETTINGS = {
    "--host 127.0.0.1": "loopback",
    "--language {language}": "one for the server: one per session takes a lock per decode",
    "--pcm-input": "raw samples, no ffmpeg process per session",
    "--warmup-file=": "ours is warmed up by sessions that do not count; theirs is a download",
    "--log-level WARNING": "its default, DEBUG, formats every hypothesis",
}
PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer(
            "lookhear",
            "openai",
            None,
            ("-m", "lookhear", "serve", "--host", "127.0.0.1", "--port", "{port}"),
            "/v1/realtime?intent=transcription",
            "/ready",
            {
                "--model {huggingface}": "the same checkpoint",
                "--max-sessions 1000": "where it saturates is to be measured",
                "--max-live-turns 1000": "the same",
                "--max-lag 0": "the same",
            },
        ),
        Peer(
            "whisperlivekit-alignatt",
            "whisperlivekit",
            "whisperlivekit",
            _LIVEKIT,
            "/asr",
            "/health",
            _LIVEKIT_SETTINGS
            | {
                "--backend-policy simulstreaming": "AlignAtt, its default",
                "--backend faster-whisper": "its fast encoder, with the decoder in torch",
                "--encoder-model-path {ctranslate2}": "weights of that encoder",
                "--decoder-model-path {huggingface}": "weights of that decoder",
                "--custom-alignment-heads {alignment_heads}": "the checkpoint names its heads",
            },
            {
                "--audio-max-len 8": "demo-whisper hears long windows badly: WER 29 % with its 30",
                "--max-context-tokens 0": "it was made for short prompts: WER 10 to 20 % with more",
            },
        ),
        Peer(
            "whisperlivekit-localagreement",
            "whisperlivekit",
            "whisperlivekit",
            _LIVEKIT,
            "/asr",
            "/health",
            _LIVEKIT_SETTINGS
            | {
                "--backend-policy localagreement": "the policy",
                "--backend faster-whisper": "the fastest of its backends on a CPU",
                "--model_dir {ctranslate2}": "the same checkpoint",
            },
            {"--buffer_trimming_sec 4": "for the same reason: WER 40 % with its 15"},
        ),
        Peer(
            "whisperlive",
            "whisperlive",
            "whisperlive",
            _LIVE,
            "/",
            None,
            {"--model {ctranslate2}": "the same checkpoint; it computes in int8 on a CPU"},
        ),
        Peer(
            "whisperlive-batched",
            "whisperlive",
            "whisperlive",
            _LIVE,
            "/",
            None,
            {
                "--model {ctranslate2}": "the same checkpoint; it computes in int8 on a CPU",
                "--batched": "one decode for several sessions",
            },
        ),
    )
}


class PeerServer(ChildServer):
    """A peer's server as a child.

    checkpoint: folder in Hugging Face's format. threads: of every thread pool, and cores that the
    server may run on. port: 0 for any free one. NotInstalled, SourceError, ServerFailed.
    """

    def __init__(
        self,
        peer: Peer,
        checkpoint: Path = DEMO_WHISPER,
        *,
        threads: int = 2,
        port: int = 0,
        language: str = "en",
        start_seconds: float = START_SECONDS,
    ) -> None:
        self.peer = peer
        self.port = free_port(port)
        self.threads = threads
        self._language = language
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
        super().__init__(
            peer.name,
            peer.argv(checkpoint, port=self.port, language=language),
            start_seconds=start_seconds,
            environment={**os.environ, **dict.fromkeys(THREAD_CAPS, str(threads)), **offline},
        )

    @property
    def url(self) -> str:
        """Of its WebSocket."""
        return f"ws://127.0.0.1:{self.port}{self.peer.path}"

    @property
    def wire(self) -> str:
        """Its protocol, a name in `bench.wires.registry`."""
        return self.peer.wire

    def _launch(self) -> subprocess.Popen[bytes]:
        if not hasattr(os, "sched_setaffinity"):
            return super()._launch()
        # The child has this thread's cores, from its first instruction on: it counts them.
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, sorted(cores)[: self.threads])
        try:
            return super()._launch()
        finally:
            os.sched_setaffinity(0, cores)

    def _answers(self) -> bool:
        if self.peer.ready is None:
            return self._holds_a_session()
        try:
            address = Server(f"http://127.0.0.1:{self.port}")
            return address.exchange(self.peer.ready, timeout=5.0)[0] == 200
        except ConnectionFailed:
            return False

    def _holds_a_session(self) -> bool:
        """WhisperLive loads its model for the first client: be that. ServerFailed."""
        hello: dict[str, str | bool] = {"uid": "ready?", "language": self._language}
        hello |= {"task": "transcribe", "model": "small", "use_vad": True}
        try:
            with connect(self.url, proxy=None, open_timeout=5.0, close_timeout=1.0) as socket:
                socket.send(json.dumps(hello))
                message = json.loads(socket.recv(timeout=self._start_seconds))
                if message.get("message") != "SERVER_READY":
                    raise ServerFailed(f"{self.peer.name} said {message}:\n{self.log_tail()}")
                socket.send(b"END_OF_AUDIO")
        except (OSError, WebSocketException):
            return False
        return True
