"""ONNX files: protocol buffers, of which the weights are read, and few things changed.

The numbers of fields are those of onnx.proto. The `onnx` distribution would bring a compiler of
models along, for what is a walk over tagged bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["ModelFileError", "field", "fields", "in_float", "initializers", "shortened"]

Array = NDArray[np.float32]
Value = int | memoryview

GRAPH = 7  # of ModelProto
NODE, INITIALIZER, INPUT, VALUE_INFO = 1, 5, 11, 13  # of GraphProto
NODE_INPUT, NODE_OUTPUT, OP_TYPE = 1, 2, 4  # of NodeProto
DIMS, DATA_TYPE, NAME, RAW_DATA = 1, 2, 8, 9  # of TensorProto
FLOAT, INT64 = 1, 7  # types of it
# Of ValueInfoProto, TypeProto, Tensor and TensorShapeProto: the way to a dimension's length.
TYPE, TENSOR_TYPE, SHAPE, DIM, DIM_VALUE = 2, 1, 2, 1, 1


class ModelFileError(ValueError):
    """The model file is not what this code knows."""


def initializers(model: bytes) -> Iterator[tuple[str, Array]]:
    """The float tensors of a model's main graph, by name."""
    for number, graph, _ in fields(memoryview(model)):
        if number != GRAPH or isinstance(graph, int):
            continue
        for inner, tensor, _ in fields(graph):
            if inner != INITIALIZER or isinstance(tensor, int):
                continue
            kind, name, shape, raw = _tensor(tensor)
            if kind == FLOAT and raw is not None:
                yield name, np.frombuffer(raw, "<f4").reshape(shape)


def shortened(model: bytes, positions: str, was: int, now: int) -> bytes:
    """A transformer encoder for the last `now` of `was` places, of which its input has a whole
    number of frames each.

    positions: what the name of the table of places ends with, [was, width]. Its last rows are kept;
    a shape that is told as one number, and the last dimension of inputs, become shorter with it.
    """
    found = 0

    def tensor(message: memoryview) -> bytes:
        nonlocal found
        kind, name, shape, raw = _tensor(message)
        if raw is None:
            return bytes(message)
        if kind == INT64 and shape == [1] and int(np.frombuffer(raw, "<i8")[0]) == was:
            new = np.array([now], "<i8").tobytes()
        elif kind == FLOAT and name.endswith(positions) and shape[:1] == [was]:
            found += 1
            new = np.frombuffer(raw, "<f4").reshape(shape)[-now:].tobytes()
            shape = [now, *shape[1:]]
        else:
            return bytes(message)
        dims = b"".join(field(DIMS, length) for length in shape)
        return dims + field(DATA_TYPE, kind) + field(NAME, name.encode()) + field(RAW_DATA, new)

    def graph(message: memoryview) -> bytes:
        changed = _changed(message, INITIALIZER, tensor)
        changed = _changed(memoryview(changed), INPUT, lambda one: _last_dim(one, was, now))
        # The lengths in between are found again from these.
        return _changed(memoryview(changed), VALUE_INFO, None)

    new = _changed(memoryview(model), GRAPH, graph)
    if found != 1:
        raise ModelFileError(f"expected one table of {was} places {positions!r}, found {found}")
    return new


def in_float(model: bytes) -> bytes:
    """The same weights, of a model in 8 bits whose every value is rounded (QuantizeLinear) and
    multiplied out again (DequantizeLinear) on its way: what is no weight is not rounded any more.
    """
    found = 0
    weights: set[str] = set()

    def node(message: memoryview) -> bytes:
        nonlocal found
        told = [(number, bytes(v)) for number, v, _ in fields(message) if not isinstance(v, int)]
        inputs = [value for number, value in told if number == NODE_INPUT]
        kind = dict(told).get(OP_TYPE)
        if kind not in (b"QuantizeLinear", b"DequantizeLinear") or inputs[0].decode() in weights:
            return bytes(message)
        found += 1
        outputs = [field(number, value) for number, value in told if number == NODE_OUTPUT]
        return b"".join([field(NODE_INPUT, inputs[0]), *outputs, field(OP_TYPE, b"Identity")])

    def graph(message: memoryview) -> bytes:
        for number, tensor, _ in fields(message):
            if number == INITIALIZER and not isinstance(tensor, int):
                weights.add(_tensor(tensor)[1])
        # What was told of types in between is found again, too.
        return _changed(memoryview(_changed(message, NODE, node)), VALUE_INFO, None)

    new = _changed(memoryview(model), GRAPH, graph)
    if not found:
        raise ModelFileError("expected a model in 8 bits, found none that rounds its values")
    return new


def _last_dim(value_info: memoryview, was: int, now: int) -> bytes:
    def shape(message: memoryview) -> bytes:
        dims = [value for number, value, _ in fields(message) if number == DIM]
        told = [_length(dim) for dim in dims]
        if not told or not told[-1] or told[-1] % was:
            return bytes(message)
        kept = [field(DIM, bytes(dim)) for dim in dims[:-1] if not isinstance(dim, int)]
        return b"".join([*kept, field(DIM, field(DIM_VALUE, told[-1] // was * now))])

    def tensor(message: memoryview) -> bytes:
        return _changed(message, SHAPE, shape)

    return _changed(value_info, TYPE, lambda kind: _changed(kind, TENSOR_TYPE, tensor))


def _length(dim: Value) -> int | None:
    assert isinstance(dim, memoryview), "a dimension is a message"
    told = {number: value for number, value, _ in fields(dim)}.get(DIM_VALUE)
    return told if isinstance(told, int) else None


def _tensor(message: memoryview) -> tuple[int, str, list[int], memoryview | None]:
    """Its type, name and shape, and its bytes, if they are told as such."""
    shape: list[int] = []
    kind, name, raw = 0, "", None
    for number, value, _ in fields(message):
        if isinstance(value, int):
            if number == DIMS:
                shape.append(value)
            elif number == DATA_TYPE:
                kind = value
        elif number == NAME:
            name = bytes(value).decode()
        elif number == RAW_DATA:
            raw = value
    return kind, name, shape, raw


def _changed(
    message: memoryview, number: int, change: Callable[[memoryview], bytes] | None
) -> bytes:
    """The message with each field of this number made another, or left out."""
    parts: list[bytes | memoryview] = []
    for found, value, whole in fields(message):
        if found != number or isinstance(value, int):
            parts.append(whole)
        elif change is not None:
            parts.append(field(number, change(value)))
    return b"".join(parts)


def field(number: int, value: int | bytes) -> bytes:
    """A field of a message: a number of at least 0, or bytes."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def fields(message: memoryview) -> Iterator[tuple[int, Value, memoryview]]:
    """Of a message, in order: which, a number or the bytes of what has a length, and the bytes of
    all of it. Raises ModelFileError."""
    at = 0
    try:
        while at < len(message):
            start = at
            key, at = _number(message, at)
            value: Value
            if key & 7 == 0:
                value, at = _number(message, at)
            else:
                if key & 7 == 2:
                    length, at = _number(message, at)
                else:
                    length = {1: 8, 5: 4}[key & 7]
                if at + length > len(message):
                    raise IndexError
                value, at = message[at : at + length], at + length
            yield key >> 3, value, message[start:at]
    except (IndexError, KeyError):
        raise ModelFileError("expected an ONNX model, got something else") from None


def _number(message: memoryview, at: int) -> tuple[int, int]:
    """A number of seven bits per byte, low ones first, and where it ends."""
    value, shift = 0, 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)
