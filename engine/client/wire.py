"""Messages and events as bytes: a length-prefixed msgpack header, then raw samples or pixels.

    frame = u32 header length | u32 payload length | header (msgpack) | payload (little endian)

The header is ``[type name, fields...]`` in the order of the dataclass, and so is a dataclass among
the fields. Of the one field that may hold an array, only its shape is in the header; the payload
holds the rest. Both ends are the same release of the same package.
"""

from __future__ import annotations

import dataclasses
import struct
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

import msgpack
import numpy as np

from lookhear.engine import messages
from lookhear.engine.client.errors import WireError

PREFIX = struct.Struct("<II")


def _types() -> dict[str, type]:
    union = (*typing.get_args(messages.Message), *typing.get_args(messages.Event))
    return {cls.__name__: cls for cls in union}


class Codec:
    """Encodes and decodes frames; knows every message and event of `engine.messages`."""

    def __init__(self) -> None:
        self._types = _types()
        self._builders = {name: _builder(cls) for name, cls in self._types.items()}
        self._fields = {
            cls: [f.name for f in dataclasses.fields(cls)] for cls in self._types.values()
        }

    def encode(self, item: object) -> list[bytes | memoryview]:
        """Buffers of one frame, to be written one after another. An array that cannot be written to
        is sent as it lies: to copy a large picture would stop the event loop for 0.2 s."""
        fields: list[Any] = [type(item).__name__]
        payload = memoryview(b"")
        for name in self._fields[type(item)]:
            value = getattr(item, name)
            if isinstance(value, np.ndarray):
                # By the field's own type: neither end needs to be told.
                kind = "<f4" if value.dtype.kind == "f" else "|u1"
                payload = _bytes_of(value, kind)
                value = value.shape
            fields.append(value)
        header = msgpack.packb(fields, default=_plain)
        return [PREFIX.pack(len(header), payload.nbytes), header, payload]

    def decode(self, header: bytes, payload: bytes) -> Any:
        """The message or event in a frame."""
        name, *values = msgpack.unpackb(header)
        if name not in self._builders:
            raise WireError(f"expected a message or event of engine.messages, got {name!r}")
        return self._builders[name](values, payload)


def _bytes_of(array: np.ndarray[Any, Any], kind: str) -> memoryview:
    held = np.ascontiguousarray(array, dtype=kind)
    if not held.size or (held is array and held.flags.writeable):
        return memoryview(held.tobytes())  # whoever made it may go on to change it
    return held.data.cast("B")


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return [type(value).__name__, *(getattr(value, field.name) for field in fields)]
    raise TypeError(f"cannot send {type(value).__name__}")


_Convert = Callable[[Any, bytes], Any]  # what msgpack gives back, and the payload -> a field


@cache  # a codec per replica, and the same class in many messages
def _builder(cls: type) -> _Convert:
    hints = typing.get_type_hints(cls)
    converters = [_converter(hints[f.name]) for f in dataclasses.fields(cls)]

    def build(values: list[Any], payload: bytes) -> Any:
        return cls(*(c(v, payload) for c, v in zip(converters, values, strict=True)))

    return build


# What msgpack gives back as it was.
_PLAIN = {str, int, float, bool, bytes, dict, object, Any, typing.Literal}


def _converter(hint: Any) -> _Convert:
    """How to turn what msgpack gives back into a field of type hint. TypeError: nobody knows."""
    hint = _resolved(hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _chosen([hint])
    if origin is np.ndarray:
        kind = np.dtype(typing.get_args(args[1])[0]).newbyteorder("<")
        return lambda shape, payload: np.frombuffer(payload, dtype=kind).reshape(shape)
    if origin is tuple:
        return lambda value, payload: tuple(value)
    if origin is list:
        inner = _converter(args[0])
        if inner is _same:  # they may be hundreds of thousands
            return _same
        return lambda value, payload: [inner(v, payload) for v in value]
    if origin is dict:
        inner = _converter(args[1])
        return lambda value, payload: {key: inner(v, payload) for key, v in value.items()}
    if origin in (types.UnionType, typing.Union):  # the latter, where a Literal is in it
        kinds = [arg for arg in args if arg is not types.NoneType]
        inner = _converter(kinds[0]) if len(kinds) == 1 else _chosen(kinds)
        return lambda value, payload: None if value is None else inner(value, payload)
    if hint not in _PLAIN and origin not in _PLAIN:
        raise TypeError(f"expected a type that can be sent, got {hint!r}")
    return _same


def _same(value: Any, payload: bytes) -> Any:
    return value


def _resolved(hint: Any) -> Any:
    """What an alias stands for: since numpy 2.5, where Python has them, `NDArray` is one."""
    while True:
        origin = typing.get_origin(hint)
        if hasattr(origin, "__value__"):
            hint = origin.__value__[typing.get_args(hint)]
        elif hasattr(hint, "__value__"):
            hint = hint.__value__
        else:
            return hint


def _chosen(kinds: list[type]) -> _Convert:
    """One of several dataclasses, by its name."""
    builders = {cls.__name__: _builder(cls) for cls in kinds}
    return lambda value, payload: builders[value[0]](value[1:], payload)
