"""A process that carries out tests one by one, as `gpu_check` names them.

    python -m benchmarks.gpu.worker FILE ...

Collects once. Its first line of JSON says the ids of all tests; each line that it reads is an id,
each line that it then writes that test's outcome. It ends when nothing more comes, and after a
failure that leaves the device unusable: what follows would fail for no fault of its own.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

import pytest
from _pytest.runner import runtestprotocol


class Worker:
    """pytest's loop over its tests, driven through two pipes."""

    def __init__(self, orders: TextIO, answers: TextIO) -> None:
        self._orders, self._answers = orders, answers

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Carries out what is asked for, in that order."""
        items = {item.nodeid: item for item in session.items}
        self._say({"collected": list(items), "errors": session.testsfailed})
        for line in self._orders:
            found = outcome(runtestprotocol(items[line.strip()], log=False, nextitem=None))
            found["is_usable"] = found["outcome"] != "failed" or _is_device_usable()
            self._say(found)
            if not found["is_usable"]:
                break
        return True

    def _say(self, document: dict[str, Any]) -> None:
        self._answers.write(json.dumps(document) + "\n")
        self._answers.flush()


def outcome(reports: list[pytest.TestReport]) -> dict[str, Any]:
    """Of one test, from the reports of its set-up, call and tear-down."""
    worst = next((r for r in reports if r.failed), None) or next(
        (r for r in reports if r.skipped), reports[-1]
    )
    message = ""
    if worst.failed:
        crash = getattr(worst.longrepr, "reprcrash", None)
        message = crash.message if crash is not None else str(worst.longrepr)
    elif worst.skipped:
        message = worst.longrepr[2] if isinstance(worst.longrepr, tuple) else str(worst.longrepr)
    return {
        "name": worst.nodeid,
        "outcome": worst.outcome,
        "seconds": round(sum(report.duration for report in reports), 2),
        "properties": {key: str(value) for key, value in reports[-1].user_properties},
        "message": message,
        "text": worst.longreprtext[-4000:] if worst.failed else "",
    }


def _is_device_usable() -> bool:
    """An illegal access, say, stays with its process: every later call says it again.
    Whose tests have not loaded torch has no device."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return True
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def main(files: list[str]) -> int:
    """Exit status: pytest's."""
    # What tests print goes elsewhere than what this process answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    orders = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(2, 1)
    arguments = ["-c", "tests/gpu/pytest.ini", "--rootdir", ".", "-q", "-p", "no:cacheprovider"]
    return int(pytest.main([*arguments, *files], plugins=[Worker(orders, answers)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
