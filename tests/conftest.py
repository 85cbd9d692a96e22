"""Triton's interpreter for the kernels, unless a GPU's suite says otherwise (TRITON_INTERPRET=0),
no deadlines for examples, and what goes to which of several workers.

The variables are set here and not beside the tests that need them: Triton and torch read them when
they are first imported.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Sound in real time, or in a browser: one after the other on one worker, so that at most one
# other test computes beside them.
LIVE = ("clients/test_browser_", "end_to_end/test_browser", "end_to_end/test_first_minute")

os.environ.setdefault("TRITON_INTERPRET", "1")
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A file's tests share what it starts: they stay together."""
    if config.getoption("dist", "no") != "loadgroup":
        return
    for item in items:
        name = item.path.relative_to(HERE).as_posix()
        group = "live" if name.startswith(LIVE) else name
        item.add_marker(pytest.mark.xdist_group(group))
