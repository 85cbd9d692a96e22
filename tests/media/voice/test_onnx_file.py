"""An encoder that is made shorter computes what the whole one computes of its last places; one in 8
bits that is made to compute in float rounds its weights alone."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from lookhear.media.voice.onnx_file import (
    ModelFileError,
    field,
    fields,
    in_float,
    initializers,
    shortened,
)

WAS, NOW, BINS = 6, 2, 3
TABLE = "encoder.places"


def message(*parts: tuple[int, int | bytes]) -> bytes:
    return b"".join(field(number, value) for number, value in parts)


def node(kind: str, inputs: list[str], output: str, *attributes: bytes) -> bytes:
    names = [(1, name.encode()) for name in inputs]
    told = [(5, attribute) for attribute in attributes]
    return message(*names, (2, output.encode()), (4, kind.encode()), *told)


def integers(name: str, *values: int) -> bytes:
    return message((1, name.encode()), *[(8, value) for value in values], (20, 7))


def tensor(name: str, values: NDArray[np.generic]) -> bytes:
    kind = {"float32": 1, "int8": 3, "int64": 7}[values.dtype.name]
    dims = [(1, length) for length in values.shape]
    return message(*dims, (2, kind), (8, name.encode()), (9, values.tobytes()))


def tensor_type(name: str, *dims: int) -> bytes:
    """The first of them is the batch, of any length."""
    lengths = [message((1, length)) for length in dims]
    shape = message((1, message((2, b"n"))), *[(1, length) for length in lengths])
    return message((1, name.encode()), (2, message((1, message((1, 1), (2, shape))))))


def model(places: NDArray[np.float32]) -> bytes:
    """Two frames to a place, by their maximum, and what is known of the place added."""
    was = len(places)
    shape = [tensor(name, np.array([n], "<i8")) for name, n in (("a", -1), ("b", was), ("c", BINS))]
    axis = message((1, b"axis"), (3, 0), (20, 2))
    graph = [
        node("MaxPool", ["frames"], "y", integers("kernel_shape", 2), integers("strides", 2)),
        node("Transpose", ["y"], "t", integers("perm", 0, 2, 1)),
        node("Concat", ["a", "b", "c"], "shape", axis),
        node("Reshape", ["t", "shape"], "r"),
        node("Add", ["r", TABLE], "sums"),
    ]
    parts: list[tuple[int, int | bytes]] = [(1, one) for one in graph]
    parts += [(2, b"g"), *[(5, one) for one in shape], (5, tensor(TABLE, places))]
    parts += [(11, tensor_type("frames", BINS, 2 * was)), (12, tensor_type("sums", was, BINS))]
    parts += [(13, tensor_type("r", was, BINS))]
    return message((1, 8), (7, message(*parts)), (8, message((2, 13))))


def rounding(weights: NDArray[np.int8], scale: float, step: float) -> bytes:
    """Frames times weights in 8 bits; the frames, of two dimensions, and the sums are rounded to
    whole steps."""
    graph = [
        node("DequantizeLinear", ["w", "scale"], "weights"),
        node("QuantizeLinear", ["frames", "step"], "rounded"),
        node("DequantizeLinear", ["rounded", "step"], "x"),
        node("MatMul", ["x", "weights"], "y"),
        node("QuantizeLinear", ["y", "step"], "few"),
        node("DequantizeLinear", ["few", "step"], "sums"),
    ]
    numbers = [("scale", np.float32(scale)), ("step", np.float32(step))]
    parts: list[tuple[int, int | bytes]] = [(1, one) for one in graph]
    parts += [(2, b"g"), (5, tensor("w", weights))]
    parts += [(5, tensor(name, np.asarray(value))) for name, value in numbers]
    inner, outer = weights.shape
    parts += [(11, tensor_type("frames", inner)), (12, tensor_type("sums", outer))]
    return message((1, 8), (7, message(*parts)), (8, message((2, 13))))


def run(model: bytes, frames: NDArray[np.float32]) -> NDArray[np.float32]:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    [found] = session.run(None, {"frames": frames})
    assert isinstance(found, np.ndarray)
    return found


def test_the_last_places_are_as_they_were() -> None:
    draw = np.random.default_rng(0)
    places = draw.standard_normal((WAS, BINS)).astype(np.float32)
    frames = draw.standard_normal((2, BINS, 2 * WAS)).astype(np.float32)
    whole = model(places)
    short = shortened(whole, TABLE, WAS, NOW)
    last = np.ascontiguousarray(frames[:, :, -2 * NOW :])
    assert np.array_equal(run(short, last), run(whole, frames)[:, -NOW:])
    assert np.array_equal(dict(initializers(short))[TABLE], places[-NOW:])


def test_as_long_as_it_was_it_is_the_same() -> None:
    places = np.ones((WAS, BINS), np.float32)
    frames = np.ones((1, BINS, 2 * WAS), np.float32)
    whole = model(places)
    assert np.array_equal(run(shortened(whole, TABLE, WAS, WAS), frames), run(whole, frames))


def test_in_float_only_weights_are_rounded() -> None:
    draw = np.random.default_rng(1)
    weights = draw.integers(-127, 128, (BINS, 4)).astype(np.int8)
    frames = draw.uniform(0, 1, (5, BINS)).astype(np.float32)
    whole = rounding(weights, 0.01, 0.25)
    exact = frames @ (weights * np.float32(0.01))
    assert np.abs(run(whole, frames) - exact).max() > 0.1
    assert np.allclose(run(in_float(whole), frames), exact, atol=1e-6)
    with pytest.raises(ModelFileError, match="expected a model in 8 bits"):
        in_float(model(np.ones((WAS, BINS), np.float32)))


def test_another_model_is_refused() -> None:
    other = model(np.ones((WAS, BINS), np.float32))
    with pytest.raises(ModelFileError, match="expected one table of 8 places"):
        shortened(other, TABLE, 8, 2)
    with pytest.raises(ModelFileError, match="expected an ONNX model"):
        shortened(other[:-1], TABLE, WAS, NOW)


def test_fields_are_as_they_were_written() -> None:
    written = message((1, 300), (2, b"x" * 200), (19, 0))
    found = list(fields(memoryview(written)))
    assert [(number, value) for number, value, _ in found] == [(1, 300), (2, b"x" * 200), (19, 0)]
    assert b"".join(whole for _, _, whole in found) == written
