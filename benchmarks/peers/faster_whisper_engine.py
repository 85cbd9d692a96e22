"""faster-whisper (CTranslate2) as a worker: its public `WhisperModel.transcribe`, greedy."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.worker import Options, Read, Transcribe, serve


class Multilingual:
    """CTranslate2's model, saying that it is multilingual. Of a random checkpoint it says that it
    is not, and the prompt would lack the language and the task."""

    is_multilingual = True

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def load(folder: Path, mode: str) -> Transcribe:
    """mode: one of CTranslate2's compute types."""
    library: Any = importlib.import_module("faster_whisper")  # if it is installed
    model = library.WhisperModel(str(folder), device="cpu", cpu_threads=1, compute_type=mode)
    model.model = Multilingual(model.model)

    def transcribe(audio: NDArray[np.float32]) -> list[int]:
        segments, _ = model.transcribe(
            audio,
            language="en",
            beam_size=1,
            temperature=0.0,
            without_timestamps=True,
            condition_on_previous_text=False,
            compression_ratio_threshold=None,
            log_prob_threshold=None,
            no_speech_threshold=None,
            suppress_tokens=[],
        )
        return [token for segment in segments for token in segment.tokens]

    return transcribe


def load_reader(options: Options) -> Read:
    """Files of any length: greedy, its own voice detector on, else its defaults. In batches, these
    are its defaults too: windows are cut at pauses, without timestamps or the text before."""
    library: Any = importlib.import_module("faster_whisper")
    model = library.WhisperModel(
        options.folder, device="cpu", cpu_threads=options.threads, compute_type=options.mode
    )

    settings: dict[str, Any] = {"language": options.language, "beam_size": 1, "vad_filter": True}
    if options.batch > 1:
        model = library.BatchedInferencePipeline(model)
        settings["batch_size"] = options.batch

    def read(audio: NDArray[np.float32]) -> str:
        segments, _ = model.transcribe(audio, **settings)
        return " ".join(segment.text.strip() for segment in segments)

    return read


if __name__ == "__main__":
    serve(load, load_reader, sys.argv[1:])
