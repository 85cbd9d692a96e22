"""A copy of this checkout for a bare machine with a GPU: `python -m tools.slim FOLDER`.

What the programs of docs/gpu.md need and nothing else: the engine, its kernels and tests, the
benchmarks, the demo checkpoints but the aligner; no recordings, pages, pictures, gateway or earlier
results. Such a machine needs torch, triton, transformers, numpy and pytest, and no network.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = (
    "LICENSE", "Makefile", "pyproject.toml", "benchmarks", "clients/lookhear", "engine", "kernels",
    "tests/engine", "tests/gpu", "tools/demo",
    "tools/random_checkpoints",
)  # fmt: skip
LEFT_OUT = (
    "benchmarks/results", "tools/demo/lookhear_demo/qwen3_aligner",
    "tools/demo/lookhear_demo/recordings",
)  # fmt: skip
NO_CODE = {".flac", ".ipynb", ".jpg", ".md", ".onnx", ".opus", ".png", ".svg", ".wav"}


def wanted() -> list[Path]:
    """What is copied, relative to the checkout: what git knows or would add, and is kept here."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *KEPT],
        cwd=ROOT, check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    paths = {Path(name) for name in listed.stdout.decode().split("\0") if name}
    return sorted(path for path in paths if _is_wanted(path))


def _is_wanted(path: Path) -> bool:
    if path.suffix in NO_CODE or any(path.is_relative_to(folder) for folder in LEFT_OUT):
        return False
    source = ROOT / path
    if source.is_symlink():  # to a folder beside: of use where that comes along
        target = source.resolve().relative_to(ROOT)
        return any(
            target.is_relative_to(kept) or Path(kept).is_relative_to(target) for kept in KEPT
        )
    return source.is_file()


def copy(target: Path) -> int:
    """Bytes written. ValueError where there is something already."""
    if target.exists() and any(target.iterdir()):
        raise ValueError(f"{target}: expected a new or empty folder")
    for path in wanted():
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, place, follow_symlinks=False)
    return sum(p.lstat().st_size for p in target.rglob("*") if p.is_symlink() or p.is_file())


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 written, 1 not."""
    parser = argparse.ArgumentParser(prog="python -m tools.slim", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, help="new or empty")
    options = parser.parse_args(argv)
    try:
        size = copy(options.folder)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{options.folder}: {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
