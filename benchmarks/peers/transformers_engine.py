"""transformers as a worker: its feature extractor and `generate`, greedy."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration, WhisperTokenizer

from benchmarks.peers.worker import RATE, Options, Read, Transcribe, serve

WINDOW = 30 * RATE


def _silence() -> None:
    logging: Any = importlib.import_module("transformers.utils.logging")
    logging.set_verbosity_error()
    logging.disable_progress_bar()


def load(folder: Path, mode: str) -> Transcribe:
    """mode: a dtype, and after a dash the attention if not the default one: bfloat16-eager."""
    torch.set_num_threads(1)
    _silence()
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


def load_reader(options: Options) -> Read:
    """Files of any length, beyond 30 s by its sequential algorithm. Greedy."""
    torch.set_num_threads(options.threads)
    _silence()
    extractor = WhisperFeatureExtractor.from_pretrained(options.folder)
    tokenizer: Any = WhisperTokenizer.from_pretrained(options.folder)
    model: Any = WhisperForConditionalGeneration.from_pretrained(
        options.folder, dtype=getattr(torch, options.mode)
    )
    model.eval()

    def read(audio: NDArray[np.float32]) -> str:
        long = len(audio) > WINDOW
        inputs = extractor(
            audio,
            sampling_rate=RATE,
            return_tensors="pt",
            truncation=not long,
            padding="longest" if long else "max_length",
            return_attention_mask=True,
        )
        with torch.inference_mode():
            tokens = model.generate(
                inputs.input_features.to(model.dtype),
                attention_mask=inputs.attention_mask,
                language=options.language,
                task="transcribe",
                return_timestamps=long,
            )
        return str(tokenizer.decode(tokens[0], skip_special_tokens=True)).strip()

    return read


if __name__ == "__main__":
    serve(load, load_reader, sys.argv[1:])
