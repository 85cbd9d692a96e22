"""Peers' servers as children: started, watched, ended. And files through an engine of its own."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import soxr

from benchmarks.peers.checkpoints import DEMO_WHISPER
from benchmarks.peers.environments import environment
from benchmarks.peers.files import OFFLINE, transcribe_files
from benchmarks.peers.servers import PEERS, Peer, PeerServer
from benchmarks.peers.worker import PeerFailed
from lookhear.bench.recordings.dataset import Audio, held_out
from lookhear.bench.wires.registry import WIRES
from lookhear.commands.private_server import ServerFailed
from lookhear.wer import word_errors

# Answers /ready, and has a child of its own that must not outlive it.
GOOD = """
import http.server, os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("threads", os.environ["OMP_NUM_THREADS"], len(os.sched_getaffinity(0)), flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/ready" else 404)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def fake(script: str, **fields: str) -> Peer:
    return Peer("fake", "openai", None, ("-c", script, "{port}"), "/asr", "/ready", **fields)  # type: ignore[arg-type]


def test_a_server_lives_as_long_as_its_block() -> None:
    with PeerServer(fake(GOOD), threads=1, start_seconds=120) as server:
        assert server.url == f"ws://127.0.0.1:{server.port}/asr" and server.wire == "openai"
        family = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
        assert len(family) == 2
        cores = 1 if hasattr(os, "sched_setaffinity") else os.cpu_count()
        assert f"threads 1 {cores}" in server.log
    gone, alive = psutil.wait_procs(family, timeout=60)
    assert not alive


def test_a_server_that_does_not_come_up_says_why() -> None:
    script = "import sys; print('no such model'); sys.exit(3)"
    with pytest.raises(ServerFailed, match=r"fake ended with status 3:\nno such model"):
        PeerServer(fake(script), start_seconds=120).__enter__()


def test_a_server_that_never_answers_is_ended() -> None:
    server = PeerServer(fake("import time; time.sleep(600)"), start_seconds=0.5)
    with pytest.raises(ServerFailed, match="does not answer after 0 s|after 1 s"):
        server.__enter__()
    assert not psutil.pid_exists(server.pid)


def test_every_peer_has_a_wire_and_reasons() -> None:
    for name, peer in PEERS.items():
        assert peer.name == name and peer.wire in WIRES
        assert all(peer.settings.values())


def test_settings_become_options(tmp_path: Path) -> None:
    peer = Peer(
        "x",
        "openai",
        None,
        ("-m", "x", "--port", "{port}"),
        "/",
        None,
        {"--flag": "y", "--path {huggingface}": "y", "--heads {alignment_heads}": "y"},
    )
    argv = peer.argv(DEMO_WHISPER, port=7, language="en")
    assert argv[:5] == [sys.executable, "-m", "x", "--port", "7"]
    assert argv[5:9] == ["--flag", "--path", str(DEMO_WHISPER), "--heads"]
    (tmp_path / "generation_config.json").write_text("{}")
    argv = peer.argv(tmp_path, port=7, language="en")
    assert argv[5:] == ["--flag", "--path", str(tmp_path)]  # unknown heads are left out


def test_a_real_checkpoint_is_given_no_settings_for_toys(tmp_path: Path) -> None:
    """Neither a toy's vocabulary nor its short windows: the peers' own defaults are for these."""
    command = ("-m", "x", "{tiktoken}", "--port", "{port}")
    peer = Peer("x", "openai", None, command, "/", None, {"--a": "y"}, {"--short 4": "y"})
    assert peer.argv(tmp_path, port=7, language="en")[3:] == ["", "--port", "7", "--a"]
    toy = peer.argv(DEMO_WHISPER, port=7, language="en")
    assert (Path(toy[3]) / "assets" / "multilingual.tiktoken").is_file()
    assert toy[4:] == ["--port", "7", "--a", "--short", "4"]


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["lookhear", "faster-whisper", "faster-whisper-batched", "transformers"]
)
def test_an_engine_reads_files(name: str) -> None:
    peer = OFFLINE[name]
    if peer.environment is not None and not environment(peer.environment).installed:
        pytest.skip(f"{name}: lookhear bench peers install {peer.environment}")
    utterance = next(u for u in held_out(limit=1) if u.language == "en")
    audio = soxr.resample(Audio().of(utterance).astype("<f4") / 32768, 24_000, 16_000)
    run = transcribe_files(name, DEMO_WHISPER, [audio, audio])
    assert run.texts[0] == run.texts[1]
    assert word_errors(utterance.text, run.texts[0]).rate < 0.3
    assert len(run.seconds) == len(run.cpu_seconds) == 2 and min(run.seconds) > 0
    assert run.peak_rss > 50 * 2**20 and run.load_seconds > 0


def test_an_engine_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OFFLINE, "broken", replace(OFFLINE["lookhear"], mode="auto"))
    with pytest.raises(PeerFailed, match="broken ended early"):
        transcribe_files("broken", tmp_path, [np.zeros(16_000, "<f4")])
