"""The `lookhear` command that ends with the program that started it, though that be killed:
`python -m lookhear.commands.ended_with_us PID ARGUMENTS`. On Linux; elsewhere it goes on."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

from lookhear.commands.main import main

_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """From now on this process is told to end, by SIGTERM, when its parent is gone."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it was gone before that could be asked for
        os._exit(1)


if __name__ == "__main__":
    end_with(int(sys.argv.pop(1)))
    raise SystemExit(main())
