"""Work that goes deeper than the stack of an ordinary thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

# Of addresses; memory is taken as it is used. The longest chains of references that a schema of
# 64 KiB can hold take more than 16 MB and less than 32.
LARGE_STACK = 64 << 20

T = TypeVar("T")


def on_large_stack(work: Callable[[], T]) -> T:
    """What it returns or raises, from a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        usual = threading.stack_size(LARGE_STACK)  # of threads that start from now on
        try:
            done = pool.submit(work)
        finally:
            threading.stack_size(usual)
        return done.result()
