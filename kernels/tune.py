"""`lookhear tune`: measures how kernels are best cut up on this machine's card, and writes it down.

Minutes, once per card. Whatever is served afterwards reads the table at its first launch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 written, 1 no card."""
    options = _parser().parse_args(argv)
    if not torch.cuda.is_available():
        print("lookhear tune: expected a CUDA device, torch sees none", file=sys.stderr)
        return 1
    from lookhear.kernels.triton.tuning import tune  # Triton: only where there is a card

    path = tune(options.output, options.kernel or None, seconds=options.seconds)
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
    parser.add_argument(
        "--seconds", type=float, default=240.0, help="of measurements at most (default: 240)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
