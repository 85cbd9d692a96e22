"""The network in numpy gives what an ONNX runtime makes of the same file, in any company."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lookhear.media.voice import silero
from lookhear.media.voice.silero import CONTEXT, WINDOW, ModelFileError, SileroModel, SileroStream

DATA = Path(__file__).parents[1] / "data"
MODEL = Path(silero.__file__).with_name(silero.MODEL_FILE)
ROUNDING = 1e-5

Samples = NDArray[np.float32]


@cache
def model() -> SileroModel:
    return SileroModel()


@cache
def windows() -> Samples:
    """[n, CONTEXT + WINDOW] of silence, speech, a pause, speech."""
    samples, _ = soundfile.read(DATA / "speech.flac", dtype="float32")
    padded = np.concatenate([np.zeros(CONTEXT, np.float32), samples])
    rows = np.lib.stride_tricks.sliding_window_view(padded, CONTEXT + WINDOW)[::WINDOW]
    return np.ascontiguousarray(rows, dtype=np.float32)


@cache
def reference() -> Samples:
    """[n] probabilities of the windows, one after another."""
    session = onnxruntime.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    state, rate = np.zeros((2, 1, 128), np.float32), np.array(16000, dtype=np.int64)
    found = []
    for window in windows():
        probability, state = session.run(None, {"input": window[None], "state": state, "sr": rate})
        found.append(probability[0, 0])
    return np.array(found, dtype=np.float32)


def test_the_same_as_the_onnx_runtime() -> None:
    assert reference().max() > 0.99 and reference().min() < 0.01
    [together] = model().judge([SileroStream()], [windows()])
    np.testing.assert_allclose(together, reference(), atol=ROUNDING)
    stream = SileroStream()
    single = [model().judge([stream], [window[None]])[0][0] for window in windows()]
    np.testing.assert_allclose(single, reference(), atol=ROUNDING)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=4), min_size=1, max_size=5))
def test_neighbours_change_nothing(rounds: list[list[int]]) -> None:
    """Streams that take different numbers of windows of the same recording, in some batches."""
    streams = [SileroStream() for _ in range(4)]
    places = [0] * 4
    for counts in rounds:
        chosen = [windows()[places[i] + 40 :][:count] for i, count in enumerate(counts)]
        for i, judged in enumerate(model().judge(streams[: len(counts)], chosen)):
            assert len(judged) == len(chosen[i])
            places[i] += len(judged)
    for stream, place in zip(streams, places, strict=True):
        alone = SileroStream()
        model().judge([alone], [windows()[40 : 40 + place]])
        np.testing.assert_allclose(stream.hidden, alone.hidden, atol=ROUNDING)
        np.testing.assert_allclose(stream.cell, alone.cell, atol=ROUNDING)


def test_nothing_to_judge() -> None:
    nothing = np.zeros((0, CONTEXT + WINDOW), np.float32)
    assert model().judge([], []) == []
    assert [len(found) for found in model().judge([SileroStream()], [nothing])] == [0]


def test_reset_is_a_new_stream() -> None:
    stream = SileroStream()
    first = model().judge([stream], [windows()[40:50]])[0]
    stream.reset()
    assert np.array_equal(model().judge([stream], [windows()[40:50]])[0], first)


@pytest.mark.parametrize("data", [b"not a model", b"", b"\x0a\xff", MODEL.read_bytes()[:500_000]])
def test_a_file_that_is_no_such_model(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match="expected"):
        SileroModel(path)
