"""`lookhear tune`: measures how kernels are best cut up on this machine's card, and writes it down.

Minutes, once per card. Whatever is served afterwards reads the table at its first launch. The next
run goes on where one ended too early: what stands in the table is not measured again.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from lookhear.kernels.triton.configs import DEFAULTS

GRACE = (
    60.0  # seconds beyond its time, or its last sign of life, after which a run is taken for hung
)
MOST_SECONDS = 1e6


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 written, 1 no card, or one that takes nothing any more."""
    options = _parser().parse_args(argv)
    if not torch.cuda.is_available():
        print("lookhear tune: expected a CUDA device, torch sees none", file=sys.stderr)
        return 1
    from lookhear.kernels.triton.tuning import LostDevice, tune  # Triton: only with a card

    end = time.monotonic() + options.seconds

    def goes_on() -> None:
        left = max(0.0, end - time.monotonic())
        faulthandler.dump_traceback_later(left + GRACE, exit=True)

    goes_on()
    try:
        path = tune(
            options.output, options.kernel or None, seconds=options.seconds,
            workers=options.workers, goes_on=goes_on,
        )  # fmt: skip
    except LostDevice as error:
        print(f"lookhear tune: the device was lost, start again to go on: {error}", file=sys.stderr)
        return 1
    finally:
        faulthandler.cancel_dump_traceback_later()
    print(f"written: {path}")
    return 0


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.0 < seconds <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"expected more than 0, at most {MOST_SECONDS:.0f}, got {text!r}"
        )
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lookhear tune", description="Measure kernel configurations on this machine's GPU."
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="default: the user's cache folder, by card"
    )
    parser.add_argument(
        "--kernel",
        action="append",
        choices=tuple(DEFAULTS),
        metavar="NAME",
        help="only this one; may be repeated",
    )
    parser.add_argument(
        "--seconds", type=_seconds, default=240.0, help="in all, about (default: 240)"
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes that compile (default: one a core)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
