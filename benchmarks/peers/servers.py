"""Live servers side by side: the peers and ours, on one checkpoint and one cap of threads.

`with PeerServer(PEERS["whisperlive"], checkpoint, threads=2) as server:` gives a server that
answers at server.url in the protocol server.wire, and ends it with everything that it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from benchmarks.peers.checkpoints import (
    DEMO_WHISPER,
    alignment_heads,
    ctranslate2_folder,
    tiktoken_folder,
)
from benchmarks.peers.environments import environment
from lookhear.server import ServerFailed, free_port

START_SECONDS = 120.0
STOP_SECONDS = 10.0
_POLL_SECONDS = 0.1
# The names that BLAS libraries, torch, CTranslate2 and onnxruntime ask for.
THREAD_CAPS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "ORT_NUM_THREADS",
)
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Peer:
    """A server and its best honest settings on a CPU.

    wire: a name in benchmarks.wires.registry. environment: in benchmarks.peers.environments, None
    for this Python. command: what follows the interpreter; {port}, {language}, {here} (this folder)
    and the forms of the checkpoint {huggingface}, {ctranslate2}, {tiktoken} and {alignment_heads}
    are filled in, and an option whose value is unknown is left out with it. settings: the options
    that are a choice, each with its reason. path: of its WebSocket. ready: path that answers 200
    when it is, None to ask over the WebSocket.
    """

    name: str
    wire: str
    environment: str | None
    command: tuple[str, ...]
    path: str
    ready: str | None
    settings: Mapping[str, str] = field(default_factory=dict)

    def argv(self, checkpoint: Path, *, port: int, language: str) -> list[str]:
        """Of the server's process. NotInstalled, SourceError."""
        python = sys.executable
        if self.environment is not None:
            python = str(environment(self.environment).require().python)
        wanted = "\n".join([*self.command, *self.settings])
        values: dict[str, str | None] = {
            "port": str(port),
            "language": language,
            "huggingface": str(checkpoint),
            "here": str(_HERE),
        }
        if "{ctranslate2}" in wanted:
            values["ctranslate2"] = str(ctranslate2_folder(checkpoint))
        if "{tiktoken}" in wanted:
            values["tiktoken"] = str(tiktoken_folder(checkpoint))
        if "{alignment_heads}" in wanted:
            values["alignment_heads"] = alignment_heads(checkpoint)
        arguments = list(self.command)
        for setting in self.settings:
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
                "--buffer_trimming_sec 4": "for the same reason: WER 40 % with its 15",
            },
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


class PeerServer:
    """A peer's server as a child, watched until it answers, ended with us.

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
        self._start_seconds = start_seconds
        self.command = peer.argv(checkpoint, port=self.port, language=language)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the child)
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Of its WebSocket."""
        return f"ws://127.0.0.1:{self.port}{self.peer.path}"

    @property
    def wire(self) -> str:
        return self.peer.wire

    @property
    def pid(self) -> int:
        assert self._child is not None, "not started"
        return self._child.pid

    @property
    def log(self) -> str:
        """Everything that the server printed."""
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace")

    def start(self) -> None:
        """Returns when it answers. ServerFailed."""
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
        caps = dict.fromkeys(THREAD_CAPS, str(self.threads))
        self._child = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **caps, **offline},
            start_new_session=True,  # a group of its own: we end all of it
        )
        if hasattr(os, "sched_setaffinity"):
            cores = sorted(os.sched_getaffinity(0))[: self.threads]
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(self._child.pid, cores)
        deadline = time.monotonic() + self._start_seconds
        while not self._answers():
            if self._child.poll() is not None:
                raise ServerFailed(
                    f"{self.peer.name} ended with status {self._child.returncode}:\n{self._tail()}"
                )
            if time.monotonic() > deadline:
                raise ServerFailed(
                    f"{self.peer.name} does not answer after {self._start_seconds:.0f} s:\n"
                    f"{self._tail()}"
                )
            time.sleep(_POLL_SECONDS)

    def _answers(self) -> bool:
        if self.peer.ready is not None:
            url = f"http://127.0.0.1:{self.port}{self.peer.ready}"
            try:
                with urllib.request.urlopen(url, timeout=5.0) as response:
                    return bool(response.status == 200)
            except (urllib.error.URLError, OSError):
                return False
        return self._holds_a_session()

    def _holds_a_session(self) -> bool:
        """WhisperLive loads its model for the first client: be that. ServerFailed."""
        hello: dict[str, str | bool] = {"uid": "ready?", "language": self._language}
        hello |= {"task": "transcribe", "model": "small", "use_vad": True}
        try:
            with connect(self.url, proxy=None, open_timeout=5.0, close_timeout=1.0) as socket:
                socket.send(json.dumps(hello))
                message = json.loads(socket.recv(timeout=self._start_seconds))
                if message.get("message") != "SERVER_READY":
                    raise ServerFailed(f"{self.peer.name} said {message}:\n{self._tail()}")
                socket.send(b"END_OF_AUDIO")
        except (OSError, WebSocketException):
            return False
        return True

    def _tail(self, lines: int = 15) -> str:
        return "\n".join(self.log.rstrip().splitlines()[-lines:])

    def stop(self) -> None:
        """End the child and its own, kill them if they take longer than a few seconds."""
        if self._child is None:
            return
        for how in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(STOP_SECONDS)
        self._child.wait()

    def __enter__(self) -> PeerServer:
        try:
            self.start()
        except BaseException:
            self.stop()
            self._log.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._log.close()
