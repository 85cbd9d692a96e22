"""WhisperLive's server, whose wheel brings no command: run by the Python of its environment."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import Any

SESSIONS = 1000  # more than we send: where it saturates is to be measured, not where it says no


def main(argv: list[str]) -> int:
    """Serves until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", required=True, help="folder in CTranslate2's format")
    parser.add_argument("--batched", action="store_true")
    options = parser.parse_args(argv)
    server: Any = importlib.import_module("whisper_live.server")
    settings: dict[str, Any] = {"single_model": True}  # what its run_server.py does with a folder
    if options.batched:
        # Its other batch settings are its own (up to 16 at once, 50 ms to wait for them, greedy).
        settings |= {
            "batch_enabled": True,
            "batch_max_queue_wait_s": 60.0,
            "batch_max_admissions_per_s": float(SESSIONS),
        }
    server.TranscriptionServer().run(
        options.host,
        port=options.port,
        backend="faster_whisper",
        faster_whisper_custom_model_path=options.model,
        max_clients=SESSIONS,
        max_connection_time=7200,
        **settings,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
