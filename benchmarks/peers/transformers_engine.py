"""transformers as a worker: its feature extractor and `generate`, greedy."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

from benchmarks.peers.worker import Transcribe, serve


def load(folder: Path, mode: str) -> Transcribe:
    """mode: a dtype, and after a dash the attention if not the default one: bfloat16-eager."""
    torch.set_num_threads(1)
    logging: Any = importlib.import_module("transformers.utils.logging")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    dtype, _, attention = mode.partition("-")
    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    model: Any = WhisperForConditionalGeneration.from_pretrained(
        folder, dtype=getattr(torch, dtype), attn_implementation=attention or "sdpa"
    )
    model.eval()
    end = model.generation_config.eos_token_id

    def transcribe(audio: NDArray[np.float32]) -> list[int]:
        features = extractor(audio, sampling_rate=16_000, return_tensors="pt").input_features
        with torch.inference_mode():
            tokens = model.generate(
                features.to(model.dtype), language="en", task="transcribe", return_timestamps=False
            )
        return [token for token in tokens[0].tolist() if token < end]

    return transcribe


if __name__ == "__main__":
    serve(load, sys.argv[1:])
