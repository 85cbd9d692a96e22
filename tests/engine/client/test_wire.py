"""Every message and event survives the wire."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine import messages
from lookhear.engine.client.errors import WireError
from lookhear.engine.client.wire import PREFIX, Codec, _converter, _resolved

TYPES = (*typing.get_args(messages.Message), *typing.get_args(messages.Event))
# What travels: finite numbers of at most 64 bits, and samples.
STRATEGIES: dict[type, st.SearchStrategy[object]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False),
}
SAMPLES = st.lists(st.floats(-1, 1, width=32), max_size=20).map(lambda x: np.array(x, np.float32))

PIXELS = st.tuples(st.integers(1, 3), st.integers(1, 3)).map(
    lambda size: np.arange(size[0] * size[1] * 3, dtype=np.uint8).reshape(*size, 3)
)


def strategy(hint: Any) -> st.SearchStrategy[object]:
    """Values of a field of type hint."""
    hint = _resolved(hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is np.ndarray:
        return SAMPLES if typing.get_args(args[1])[0] is np.float32 else PIXELS
    if origin is list:
        return st.lists(strategy(args[0]), max_size=3)
    if origin is tuple and args[1:] == (...,):
        return st.lists(strategy(args[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*(strategy(arg) for arg in args))
    if origin is dict:
        return st.dictionaries(strategy(args[0]), strategy(args[1]), max_size=3)
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin in (types.UnionType, typing.Union):  # the latter, where a Literal is in it
        return st.one_of(*(strategy(arg) for arg in args))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return st.builds(
            hint, **{f.name: strategy(hints[f.name]) for f in dataclasses.fields(hint)}
        )
    if hint is Any:  # a variable of a chat template
        return st.none() | st.booleans() | st.text(max_size=3)
    assert isinstance(hint, type)
    return STRATEGIES.get(hint, st.from_type(hint))


def through_the_wire(item: object) -> object:
    codec = Codec()
    frame = b"".join(codec.encode(item))
    header_bytes, payload_bytes = PREFIX.unpack(frame[: PREFIX.size])
    assert len(frame) == PREFIX.size + header_bytes + payload_bytes
    header = frame[PREFIX.size : PREFIX.size + header_bytes]
    return codec.decode(header, frame[PREFIX.size + header_bytes :])


def same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return a == b


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_round_trip(cls: Any, data: st.DataObject) -> None:
    item = data.draw(strategy(cls))
    back = through_the_wire(item)
    assert type(back) is type(item)
    for f in dataclasses.fields(cls):
        assert same(getattr(back, f.name), getattr(item, f.name))


def test_an_array_is_one_where_its_type_is_an_alias() -> None:
    """As `NDArray` is since numpy 2.5 with Python 3.12; else its shape would be taken for it."""
    some = typing.TypeVar("some")
    array = np.ndarray[tuple[Any, ...], np.dtype[some]]
    for alias, args in (
        (types.SimpleNamespace(__value__=array), (np.float32,)),
        (types.SimpleNamespace(__value__=array[np.float32]), ()),
    ):
        hint = types.GenericAlias(alias, args) if args else alias  # type: ignore[arg-type]
        found = _converter(hint)([2, 3], np.arange(6, dtype="<f4").tobytes())
        assert np.array_equal(found, np.arange(6, dtype=np.float32).reshape(2, 3))


@pytest.mark.parametrize("hint", [list[int], list[list[float]], list[bytes]], ids=str)
def test_what_arrives_as_it_was_is_not_gone_through(hint: Any) -> None:
    """Numbers about a long prompt are hundreds of thousands, and the event loop waits for them."""
    value: list[object] = [[1.0]]
    assert _converter(hint)(value, b"") is value


def test_a_type_that_nobody_can_send_is_named() -> None:
    with pytest.raises(TypeError, match="expected a type that can be sent, got .*complex"):
        _converter(complex)


def test_an_unknown_type_is_refused() -> None:
    import msgpack

    with pytest.raises(WireError, match="expected a message or event"):
        Codec().decode(msgpack.packb(["Nonsense", 1]), b"")


def test_what_cannot_be_written_to_is_not_copied() -> None:
    """And what can be is: it may change before it is sent."""
    frozen = np.frombuffer(bytes(4000), np.float32)
    for samples, is_shared in ((frozen, True), (np.zeros(1000, np.float32), False)):
        *_, payload = Codec().encode(messages.AppendAudio("s", "t", samples, 0))
        assert np.shares_memory(np.frombuffer(payload, np.uint8), samples) is is_shared
        assert bytes(payload) == samples.tobytes()
