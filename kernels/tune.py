"""`lookhear tune`: measures how kernels are best cut up on this machine's card, and writes it down.

Minutes, once per card. Whatever is served afterwards reads the table at its first launch. The next
run goes on where one ended too early: what stands in the table is not measured again.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

GRACE = 60.0  # seconds beyond its time after which a run is taken for hung


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 written, 1 no card, or one that takes nothing any more."""
    options = _parser().parse_args(argv)
    if not torch.cuda.is_available():
        print("lookhear tune: expected a CUDA device, torch sees none", file=sys.stderr)
        return 1
    from lookhear.kernels.triton.tuning import LostDevice, tune  # Triton: only with a card

    faulthandler.dump_traceback_later(options.seconds + GRACE, exit=True)
    try:
        path = tune(
            options.output, options.kernel or None, seconds=options.seconds,
            workers=options.workers,
        )  # fmt: skip
    except LostDevice as error:
        print(f"lookhear tune: the device was lost, start again to go on: {error}", file=sys.stderr)
        return 1
    finally:
        faulthandler.cancel_dump_traceback_later()
    print(f"written: {path}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lookhear tune", description="Measure kernel configurations on this machine's GPU."
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="default: the user's cache folder, by card"
    )
    parser.add_argument(
        "--kernel", action="append", metavar="NAME", help="only this one; may be repeated"
    )
    parser.add_argument("--seconds", type=float, default=240.0, help="in all, about (default: 240)")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes that compile (default: one a core)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
