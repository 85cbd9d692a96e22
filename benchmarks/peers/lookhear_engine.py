"""Our engine as a worker: the runner that the engine itself uses, on one request at a time."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.peers.worker import Options, Read, Transcribe, serve
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.request import Phase, Priority
from lookhear.engine.device.allocator import keep_freed_memory
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    FileFailed,
    FileTranscribed,
    TranscribeFile,
    TranscriptionSettings,
)
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.model import WhisperModel
from lookhear.engine.whisper.request import WhisperRequest
from lookhear.engine.whisper.runner import WhisperRunner
from lookhear.kernels import default_cpu_dtype
from lookhear.media.voice.silero import SileroModel
from lookhear.media.voice.stretches import speech_stretches

WINDOW = 30 * 16_000


def load(folder: Path, mode: str) -> Transcribe:
    """mode: a dtype, or "auto" for what the engine takes on this CPU."""
    torch.set_num_threads(1)
    dtype = default_cpu_dtype() if mode == "auto" else getattr(torch, mode)
    tokenizer = WhisperTokenizer.from_folder(folder)
    runner = WhisperRunner(WhisperModel.from_folder(folder, dtype=dtype), tokenizer, max_rows=1)
    keep_freed_memory()  # as the engine's process does

    def transcribe(audio: NDArray[np.float32]) -> list[int]:
        request = WhisperRequest(
            key="one",
            priority=Priority.BATCH,
            samples=audio,
            window_samples=WINDOW,
            head=(tokenizer.sot,),
            language=tokenizer.languages["en"],
            detect_language=False,
            tail=(tokenizer.transcribe, tokenizer.no_timestamps),
        )
        sequence = runner.place(request)
        while sequence.phase is not Phase.DONE:
            demand = sequence.demand()
            failures = runner.launch([(sequence, demand.known + demand.draft)])()
            assert not failures, failures
        runner.release(sequence)
        return list(sequence.result().tokens)

    return transcribe


def load_reader(options: Options) -> Read:
    """Files of any length: voices first, then the engine core, as /v1/audio/transcriptions."""
    config = EngineConfig(model=options.folder, dtype=options.mode, threads=options.threads)
    core = build_core(config, lambda stage, share: None).core
    keep_freed_memory()  # as the engine's process does
    settings = TranscriptionSettings(model=options.folder, language=options.language)
    silero = SileroModel()

    def read(audio: NDArray[np.float32]) -> str:
        speech = speech_stretches(silero, audio)
        core.submit(TranscribeFile("file", settings, audio, speech=speech))
        while True:
            for event in core.step():
                match event:
                    case FileTranscribed():
                        return event.text
                    case FileFailed():
                        raise RuntimeError(event.message)

    return read


if __name__ == "__main__":
    serve(load, load_reader, sys.argv[1:])
