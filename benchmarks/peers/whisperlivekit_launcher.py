"""WhisperLiveKit's server with a checkpoint's own vocabulary: run by the Python of its environment.

Its torch decoder writes text with the vocabulary of OpenAI's multilingual checkpoints, whatever
the checkpoint brings. Ours has one of its own: without this its words come out as other words.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any


def main(argv: list[str]) -> None:
    """argv: folder that holds assets/multilingual.tiktoken, then the server's own options."""
    folder, *options = argv
    tokenizer: Any = importlib.import_module("whisperlivekit.whisper.tokenizer")
    tokenizer.__file__ = str(Path(folder) / "tokenizer.py")  # it looks for assets beside itself
    sys.argv = ["whisperlivekit", *options]
    runpy.run_module("whisperlivekit.basic_server", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
