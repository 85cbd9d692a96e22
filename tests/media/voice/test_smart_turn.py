"""The features of the turn model are Whisper's, and what is no such model is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import WhisperFeatureExtractor
from transformers.audio_utils import mel_filter_bank

from lookhear.media.voice import silero
from lookhear.media.voice.smart_turn import (
    LENGTH,
    LogMel,
    SmartTurn,
    TurnModelError,
    mel_filters,
)

LOG_MEL = LogMel()
WHISPER = WhisperFeatureExtractor(chunk_length=8)


def test_the_filters_are_those_of_transformers() -> None:
    theirs = mel_filter_bank(201, 80, 0.0, 8000.0, 16_000, norm="slaney", mel_scale="slaney")
    np.testing.assert_allclose(mel_filters(), theirs.T, rtol=0, atol=1e-7)


@settings(max_examples=15)
@given(
    st.integers(1, LENGTH + 50_000), st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 0.05, 1.0])
)
def test_as_transformers_has_them(length: int, seed: int, level: float) -> None:
    sound = np.random.default_rng(seed).standard_normal(length).astype(np.float32) * level
    last = sound[-LENGTH:]
    padded = np.concatenate([np.zeros(LENGTH - len(last), np.float32), last])
    expected = WHISPER(
        padded,
        sampling_rate=16_000,
        padding="max_length",
        max_length=LENGTH,
        truncation=True,
        do_normalize=True,
        return_tensors="np",
    )["input_features"][0]
    assert np.allclose(LOG_MEL(sound), expected, atol=2e-4)


def test_only_the_last_seconds_count() -> None:
    sound = np.random.default_rng(0).standard_normal(LENGTH).astype(np.float32)
    longer = np.concatenate([np.ones(999, np.float32), sound])
    assert np.array_equal(LOG_MEL(sound), LOG_MEL(longer))


def test_silence_has_features() -> None:
    assert np.isfinite(LOG_MEL(np.zeros(0, np.float32))).all()


def test_nobody_is_told_that_it_is_used(tmp_path: Path) -> None:
    """onnxruntime makes an identifier and reports to Microsoft, if it is not told otherwise."""
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from lookhear.media.voice.smart_turn import SmartTurn, TurnModelError\n"
        "try:\n"
        "    SmartTurn(Path(sys.argv[1]))\n"
        "except TurnModelError:\n"
        "    assert 'onnxruntime' in sys.modules\n"
    )
    home, model = tmp_path / "home", tmp_path / "model"
    home.mkdir()
    model.write_bytes(b"nothing")
    kept = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment = {**kept, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    command = [sys.executable, "-c", program, str(model)]
    subprocess.run(command, env=environment, check=True, timeout=60)
    assert not [path for path in home.rglob("*") if "onnxruntime" in path.name]


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"nothing")
    with pytest.raises(TurnModelError, match="model.onnx: expected an ONNX model"):
        SmartTurn(path)
    other = Path(silero.__file__).with_name(silero.MODEL_FILE)
    with pytest.raises(TurnModelError, match="expected one table of 400 places"):
        SmartTurn(other)
