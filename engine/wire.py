"""Messages and events as bytes: a length-prefixed msgpack header, then the raw samples.

    frame = u32 header length | u32 payload length | header (msgpack) | payload (float32 LE)

The header is ``[type name, fields...]`` in the order of the dataclass; a field that holds samples
is left out of it and travels as the payload. Both ends are the same release of the same package.
"""

from __future__ import annotations

import dataclasses
import struct
import types
import typing
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np

from engine import messages

PREFIX = struct.Struct("<II")
MAX_FRAME_BYTES = 1 << 30


class WireError(RuntimeError):
    """The other end sent something that is not a frame of ours."""


def _types() -> dict[str, type]:
    union = (*typing.get_args(messages.Message), *typing.get_args(messages.Event))
    return {cls.__name__: cls for cls in union}


class Codec:
    """Encodes and decodes frames; knows every message and event of `engine.messages`."""

    def __init__(self) -> None:
        self._types = _types()
        self._builders = {name: _builder(cls) for name, cls in self._types.items()}

    def encode(self, item: object) -> list[bytes | memoryview]:
        """Buffers of one frame, to be written one after another."""
        fields: list[Any] = [type(item).__name__]
        payload = memoryview(b"")
        for spec in dataclasses.fields(item):  # type: ignore[arg-type]
            value = getattr(item, spec.name)
            if isinstance(value, np.ndarray):
                payload = memoryview(np.ascontiguousarray(value, dtype="<f4").tobytes())
                value = None
            fields.append(value)
        header = msgpack.packb(fields, default=_plain)
        return [PREFIX.pack(len(header), payload.nbytes), header, payload]

    def decode(self, header: bytes, payload: bytes) -> Any:
        """The message or event in a frame."""
        name, *values = msgpack.unpackb(header)
        if name not in self._builders:
            raise WireError(f"expected a message or event of engine.messages, got {name!r}")
        samples = np.frombuffer(payload, dtype="<f4")
        return self._builders[name](values, samples)


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    raise TypeError(f"cannot send {type(value).__name__}")


def _builder(cls: type) -> Callable[[list[Any], np.ndarray[Any, Any]], Any]:
    hints = typing.get_type_hints(cls)
    converters = [_converter(hints[f.name]) for f in dataclasses.fields(cls)]

    def build(values: list[Any], samples: np.ndarray[Any, Any]) -> Any:
        return cls(*(c(v, samples) for c, v in zip(converters, values, strict=True)))

    return build


def _converter(hint: Any) -> Callable[[Any, np.ndarray[Any, Any]], Any]:
    """How to turn what msgpack gives back into a field of type hint."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        build = _builder(hint)
        return lambda value, samples: build(value, samples)
    if origin is np.ndarray:
        return lambda value, samples: samples
    if origin is list:
        inner = _converter(args[0])
        return lambda value, samples: [inner(v, samples) for v in value]
    if origin is types.UnionType:
        inner = _converter(next(a for a in args if a is not types.NoneType))
        return lambda value, samples: None if value is None else inner(value, samples)
    return lambda value, samples: value
