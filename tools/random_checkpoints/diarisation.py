"""Nemotron-3-Diarization checkpoint folders with random weights, as transformers writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

SPEAKERS = 4
STREAMING: dict[str, Any] = {
    "num_speakers": SPEAKERS,
    "fifo_length": 20,
    "speaker_cache_update_period": 16,
    "speaker_cache_length": 24,
}


def build_random_diariser(folder: Path, *, seed: int = 0, behind: int = 0) -> Path:
    """Its weights are so large that speakers come and go. behind: places before a chunk that it
    sees again."""
    from transformers import (
        Nemotron3DiarizationConfig,
        Nemotron3DiarizationForAudioFrameClassification,
        Nemotron3DiarizationProcessor,
        NemotronAsrStreamingFeatureExtractor,
    )

    config = Nemotron3DiarizationConfig(
        audio_config={
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 64,
            "num_mel_bins": 128,
        },
        head_config={"hidden_size": 16, "num_speakers": SPEAKERS, "audio_hidden_size": 32},
        streaming_config=STREAMING,
        chunk_length=30,
        chunk_right_context=5,
        chunk_left_context=behind,
        fifo_length=8,
        speaker_cache_update_period=20,
    )
    model = Nemotron3DiarizationForAudioFrameClassification(config)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(0.3 * torch.randn(weight.shape, generator=draw))
        model.classifier.out_proj.weight.mul_(4)
        model.classifier.out_proj.bias.zero_()
    model.save_pretrained(folder)
    extractor: Any = NemotronAsrStreamingFeatureExtractor
    processor: Any = Nemotron3DiarizationProcessor
    processor(extractor(feature_size=128)).save_pretrained(folder)
    return folder
