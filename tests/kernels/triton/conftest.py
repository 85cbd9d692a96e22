"""Triton's interpreter, without the work that it does again and again: half of its time."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from triton import language as tl
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter


@pytest.fixture(scope="session", autouse=True)
def quick_interpreter() -> None:
    _take_the_languages_place_once_a_launch()
    _make_types_once()
    _leave_alone_what_is_alike()
    _look_for_overflow_where_it_is_told()


def _take_the_languages_place_once_a_launch() -> None:
    """And not for each call of a function within a kernel."""
    take_place, launch = interpreter._patch_lang, interpreter.GridExecutor.__call__
    in_place: set[Any] = set()

    def take_place_once(function: Any) -> Any:
        if function in in_place:
            return None
        in_place.add(function)
        return take_place(function)

    def launch_anew(self: Any, *args: Any, **kwargs: Any) -> Any:
        in_place.clear()
        return launch(self, *args, **kwargs)

    interpreter._patch_lang = take_place_once
    interpreter.GridExecutor.__call__ = launch_anew


def _make_types_once() -> None:
    """That of a block, with what a tensor of it says of itself; and what it is to numpy."""
    make_type, numpy_type = tl.block_type.__init__, interpreter._get_np_dtype
    numpy_scalar = cache(numpy_type)
    made: dict[tuple[int, tuple[int, ...]], dict[str, Any]] = {}  # they hold what the keys name

    def made_before(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple([getattr(size, "value", size) for size in shape])
        found = made.get((id(element_ty), sizes))
        if found is None:
            make_type(self, element_ty, shape)
            found = made[id(element_ty), sizes] = self.__dict__.copy()
            found["of_tensors"] = _described(self.shape, self.numel)
            found["sizes"] = sizes
        self.__dict__.update(found)

    def describe(self: Any, handle: Any, type: Any) -> None:
        shape, numel = type.of_tensors if type.is_block() else scalar
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = shape, numel

    def known_type(kind: Any) -> Any:
        element = kind.scalar
        return numpy_type(kind) if isinstance(element, tl.pointer_type) else numpy_scalar(element)

    scalar = _described((), 1)
    tl.block_type.__init__ = made_before
    tl.tensor.__init__ = describe
    interpreter._get_np_dtype = known_type


def _leave_alone_what_is_alike() -> None:
    """Of two blocks of one shape nothing is to be changed: to find that out size by size takes
    longer than most operations."""
    broadcast = TritonSemantic.broadcast_impl_value

    def broadcast_others(self: Any, lhs: Any, rhs: Any) -> Any:
        left, right = lhs.type, rhs.type
        if left.is_block() and right.is_block() and left.sizes == right.sizes:
            return lhs, rhs
        return broadcast(self, lhs, rhs)

    TritonSemantic.broadcast_impl_value = broadcast_others


def _look_for_overflow_where_it_is_told() -> None:
    """Each sum and product of whole numbers is computed a second time, for an assertion that is
    made with TRITON_DEBUG alone."""
    look = TritonSemantic.binary_op_sanitize_overflow_impl

    def look_if_told(self: Any, *args: Any) -> None:
        if self.builder.options.debug:
            look(self, *args)

    TritonSemantic.binary_op_sanitize_overflow_impl = look_if_told


def _described(shape: Any, numel: int) -> tuple[Any, Any]:
    return tl.tuple([tl.constexpr(size) for size in shape]), tl.constexpr(numel)
