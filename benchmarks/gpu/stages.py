"""What the stages of a step take, for `benchmarks.host`: their methods are timed while it runs.

Profilers of Python's own cannot say it: since 3.12 they lose count behind torch's contexts (calls
that never end, and stages that lie within each other for ever).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from lookhear.engine.core.core import EngineCore
from lookhear.engine.paged.media import MediaEmbeddings
from lookhear.engine.paged.passes import PagedPasses
from lookhear.engine.paged.runner import PagedRunner
from lookhear.engine.qwen3_asr.windows import DeviceWindows, HostWindows
from lookhear.engine.sampling.sampler import Sampler
from lookhear.engine.speech.live import LiveTurn
from lookhear.engine.whisper.runner import WhisperRunner

STAGES: Mapping[str, tuple[tuple[type, str], ...]] = {
    "messages": ((EngineCore, "submit"),),
    "schedule": ((EngineCore, "_schedule"),),
    "schedule: request": ((LiveTurn, "make_request"),),
    "schedule: windows": ((HostWindows, "hear"), (DeviceWindows, "hear")),
    "schedule: place": ((PagedRunner, "place"),),
    "launch": ((EngineCore, "_launch"),),
    "launch: encode": ((MediaEmbeddings, "encode"),),
    "launch: encode (whisper)": ((WhisperRunner, "_encode"),),
    "launch: integers": ((PagedPasses, "_integers"),),
    "launch: choice": ((Sampler, "launch"),),
    "wait": ((EngineCore, "_wait"),),
    "commit": ((EngineCore, "_commit"),),
    "commit: absorb": ((LiveTurn, "absorb"),),
    "has work": ((EngineCore, "has_work"),),
}


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """Seconds of this thread by stage, filled while the context lasts: all that a stage calls
    included, the clocks of stages within, too. What is not called has none."""
    seconds: dict[str, float] = {}
    with ExitStack() as stack:
        for stage, methods in STAGES.items():
            for owner, name in methods:
                plain: Any = vars(owner)[name]
                if isinstance(plain, property):
                    assert plain.fget is not None
                    replaced: Any = property(_timed(plain.fget, stage, seconds))
                else:
                    replaced = _timed(plain, stage, seconds)
                stack.enter_context(patch.object(owner, name, replaced))
        yield seconds


def _timed(
    function: Callable[..., Any], stage: str, seconds: dict[str, float]
) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        start = time.thread_time()
        try:
            return function(*arguments, **named)
        finally:
            seconds[stage] = seconds.get(stage, 0.0) + time.thread_time() - start

    return call
