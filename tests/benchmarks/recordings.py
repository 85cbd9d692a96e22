"""Recordings of four seconds, in the shape of tests/data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import soundfile


def write_recordings(folder: Path) -> None:
    """One held-out utterance, and one long recording of the words w0 to w3, a second each."""
    rate = 16_000
    samples = np.repeat(np.arange(4, dtype="f4") / 8, rate)  # a second each of four levels
    for name in ("en_seen", "long_en"):
        soundfile.write(folder / f"{name}.flac", samples, rate)
    words = [{"word": f"w{n}", "start_s": n + 0.25, "end_s": n + 0.75} for n in range(4)]
    entry = {"file": "en_seen.flac", "start_s": 1.0, "end_s": 3.0, "text": "w1 w2"}
    entry |= {"language": "en", "voice": "v", "seen_voice": False, "words": words[1:3]}
    (folder / "manifest.json").write_text(json.dumps([entry]))
    long = {"file": "long_en.flac", "language": "en", "seconds": 4.0, "text": "w0 w1 w2 w3"}
    sentences = {"sentences": [{"words": words[:2]}, {"words": words[2:]}]}
    (folder / "long_en.json").write_text(json.dumps(long | sentences))
