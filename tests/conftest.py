"""Triton's interpreter for the kernels, unless a GPU's suite says otherwise (TRITON_INTERPRET=0),
a toy for default, no deadlines for examples, a collector of garbage that leaves alone what was
loaded, and what goes to which of several workers.

The variables are set here and not beside the tests that need them: Triton and torch read them when
they are first imported.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest

# Sound in real time, in a browser: one after the other on one worker. They begin.
LIVE = ("clients/browser/test_", "end_to_end/test_browser", "end_to_end/test_first_minute")
# What waits more than it computes: for the clock, for sockets, for processes. The first worker does
# these while the others compute, and goes before them where both want a core.
WAITING = ("benchmarks/bench/", "clients/", "end_to_end/")
# Files that compute for longest begin, so that nobody is left with one of them at the end.
LONG = ("kernels/triton/compilation/", "benchmarks/gpu/", "real/", "test_package", "test_slim")
POLITENESS = 5  # of those that compute

os.environ.setdefault("TRITON_INTERPRET", "1")
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # of tests that import onnxruntime themselves
# What is served where nobody names a model: no test depends on what a cache or a network has.
os.environ["LOOKHEAR_MODEL"] = "demo-whisper"
os.environ["LOOKHEAR_TURN_MODEL"] = "off"
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the cores are for the other workers
with contextlib.suppress(ImportError):  # a GPU box may lack it
    from hypothesis import HealthCheck, settings

    # How long an example takes is a matter of who else computes. Where the whole suite decides
    # about a change, it draws the same examples every time; elsewhere it looks for new ones.
    settings.register_profile(
        "lookhear",
        deadline=None,
        derandomize=bool(os.environ.get("CI")),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("lookhear")


def file_of(node_id: str) -> str:
    """The file of a test, from the folder of tests on."""
    return node_id.split("::", 1)[0].removeprefix("tests/")


def order(file: str) -> int:
    """Of files that are dealt out to several workers."""
    return 0 if file.startswith(LIVE) else 1 if file.startswith(LONG) else 2


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests are two million objects that stay: to look at them again and again takes
    as long as to load them. None of what tests make is among them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()  # and what little of it is garbage: to find that takes each worker a second


def is_worker(config: pytest.Config) -> bool:
    """And not a run of its own that a test has started: that inherits a worker's variables."""
    return hasattr(config, "workerinput")


def pytest_unconfigure(config: pytest.Config) -> None:
    """What tests have left behind is looked at, and what was loaded ends with the process: nobody
    needs to look for cycles there, but for those of Triton, which complains of what is left where
    a process ends by and by."""
    gc.collect()
    if "triton" in sys.modules and not is_worker(config):
        gc.unfreeze()
    else:
        gc.freeze()


@pytest.fixture(scope="module")
def left_alone_again() -> Iterator[None]:
    """For tests of what tells the collector to look at everything again. What became
    garbage since goes before, or weights of true size would stay for good."""
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: order(file_of(item.nodeid)))


def pytest_configure(config: pytest.Config) -> None:
    if is_worker(config):
        # All has been reported then, and who registered later has cleaned up: to take two million
        # objects apart again would keep everybody waiting for seconds.
        atexit.register(os._exit, 0)
    # gw0 is the first worker, and who has no name is alone.
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
        os.nice(POLITENESS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file's tests share what it starts: they stay together."""
    from xdist.scheduler import LoadFileScheduling

    def scope(node_id: str) -> str:
        file = file_of(node_id)
        return "live" if file.startswith(LIVE) else file

    scheduling = LoadFileScheduling(config, log)
    scheduling._split_scope = scope
    assign = scheduling._assign_work_unit

    def assign_what_suits(node: Any) -> None:
        queue, waits = scheduling.workqueue, node.gateway.id == "gw0"
        suits = [unit for unit in queue if unit.startswith(("live", *WAITING)) == waits]
        if suits:
            queue.move_to_end(suits[0], last=False)
        assign(node)

    scheduling._assign_work_unit = assign_what_suits
    config.option.loadscopereorder = False
    return scheduling
