"""Frames to commands, and what a refused one leaves behind."""

from __future__ import annotations

import gc
import itertools
import weakref

from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.checks.outline import SMALL
from lookhear.gateway.realtime.openai.dialect import OpenAIDialect
from lookhear.gateway.realtime.session.parsing import parsed


class Frame(str):
    """One that can be found again."""

    __slots__ = ("__weakref__",)


def test_a_refused_frame_is_not_held_until_garbage_is_collected() -> None:
    numbers = itertools.count()
    dialect = OpenAIDialect({}, lambda prefix: f"{prefix}_{next(numbers)}")
    gc.collect()
    gc.disable()
    try:
        frame = Frame('{"type": "session.update", "session": [' + "[]," * SMALL + "[]]}")
        held = weakref.ref(frame)
        (problem,) = parsed(dialect, [frame], 1000)
        del frame
        is_held = held() is not None
    finally:
        gc.enable()
    assert isinstance(problem, ProtocolError) and problem.code == "event_too_large"
    assert not is_held
