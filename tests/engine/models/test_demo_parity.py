"""The packaged checkpoint against transformers, on speech that it never saw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lookhear import kernels
from lookhear.bench.recordings.dataset import stretch
from lookhear.engine.checkpoints.hub import resolve_checkpoint
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.model import WhisperModel

DATA = Path(__file__).parents[2] / "data"
WINDOW = 30 * 16_000  # samples: what the published feature extractor pads to
MAX_TOKENS = 40
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def folder() -> Path:
    return resolve_checkpoint("demo-whisper")


@pytest.fixture(scope="module")
def ours(folder: Path) -> WhisperModel:
    return WhisperModel.from_folder(folder, trim_head=False)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    from transformers import WhisperForConditionalGeneration

    model: Any = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    return model.eval()


def clips(count: int) -> list[tuple[np.ndarray, str]]:
    """Samples at 16 kHz and the language of some held-out utterances of each language."""
    found: list[tuple[np.ndarray, str]] = []
    entries = json.loads((DATA / "manifest.json").read_text("utf-8"))
    for language in ("en", "es", "de"):
        some = [e for e in entries if e["language"] == language and e["seen_voice"]][:count]
        samples, rate = stretch(DATA / some[0]["file"], 0.0, some[-1]["end_s"])
        step = rate // 16_000
        for entry in some:
            part = samples[int(entry["start_s"] * rate) : int(entry["end_s"] * rate)]
            found.append((np.ascontiguousarray(part[::step]), language))
    return found


def features(samples: np.ndarray, mels: int) -> Tensor:
    padded = np.zeros((1, WINDOW), np.float32)
    padded[0, : len(samples)] = samples
    return kernels.log_mel(torch.from_numpy(padded), kernels.mel_filters(mels))


@torch.inference_mode()
def our_logits(model: WhisperModel, encoded: Tensor, tokens: list[int]) -> Tensor:
    """[tokens, vocab] of one pass over all tokens. encoded: of the window."""
    self_cache, cross_cache = model.new_self_cache(1), model.new_cross_cache(1)
    row, slot = self_cache.allocate(), cross_cache.allocate()
    assert row is not None and slot is not None
    cross_cache.write([slot], model.project_cross(encoded), [encoded.shape[1]])
    count = len(tokens)
    hidden = model.decode(
        torch.tensor([tokens]),
        torch.arange(count)[None],
        torch.tensor([row]),
        torch.tensor([0]),
        torch.tensor([count]),
        torch.tensor([slot]),
        self_cache,
        cross_cache,
    )
    return model.logits(hidden[0])


@torch.inference_mode()
def test_features_logits_and_greedy_tokens(folder: Path, ours: WhisperModel, theirs: Any) -> None:
    """Where each of our tokens is the likeliest of theirs, too, both write the same text."""
    from transformers import WhisperFeatureExtractor

    extractor: Any = WhisperFeatureExtractor.from_pretrained(folder)
    tokenizer = WhisperTokenizer.from_folder(folder)
    for samples, language in clips(2):
        log_mel = features(samples, ours.dims.num_mels)
        published = extractor(samples, sampling_rate=16_000, return_tensors="pt").input_features
        assert (log_mel - published).abs().max() <= TOLERANCE
        tokens = [tokenizer.sot, tokenizer.languages[language], tokenizer.transcribe]
        tokens.append(tokenizer.no_timestamps)
        start, encoded = len(tokens), ours.encode(log_mel)
        while len(tokens) < MAX_TOKENS and tokens[-1] != tokenizer.eot:
            logits = our_logits(ours, encoded, tokens)
            tokens.append(int(logits[-1].argmax()))
        assert tokens[-1] == tokenizer.eot
        expected = theirs(published, decoder_input_ids=torch.tensor([tokens[:-1]])).logits[0]
        seen = torch.isfinite(logits)
        assert (logits - expected)[seen].abs().max() <= TOLERANCE
        assert expected[start - 1 :].argmax(-1).tolist() == tokens[start:]
