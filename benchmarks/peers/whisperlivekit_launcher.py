"""WhisperLiveKit's server, with another vocabulary if need be: by the Python of its environment.

Its torch decoder writes text with the vocabulary of OpenAI's checkpoints, whatever the checkpoint
brings. Our toy has one of its own: without this its words come out as other words.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any


def main(argv: list[str]) -> None:
    """argv: folder that holds assets/multilingual.tiktoken, or "" for OpenAI's vocabulary; then the
    server's own options."""
    folder, *options = argv
    if folder:
        tokenizer: Any = importlib.import_module("whisperlivekit.whisper.tokenizer")
        tokenizer.__file__ = str(Path(folder) / "tokenizer.py")  # it looks for assets beside itself
    sys.argv = ["whisperlivekit", *options]
    runpy.run_module("whisperlivekit.basic_server", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
