"""The exported folder says the same as the network that was trained, in standard form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tools.recipes.whisper import tokenizer as tk
from tools.recipes.whisper.export import special_tokens, standard_weights, write_configs
from tools.recipes.whisper.log_mel import LogMel
from tools.recipes.whisper.network import CompactIds, Network, Size
from tools.recipes.whisper.train import alignment_loss


@pytest.fixture(scope="module")
def network() -> Network:
    torch.manual_seed(0)
    ids = CompactIds(300)
    return Network(Size(encoder_layers=2), ids.rows, 5).eval()


def test_special_tokens_have_whisper_s_ids() -> None:
    names = {name: i for i, name in special_tokens()}
    assert names["<|endoftext|>"] == tk.EOT
    assert names["<|startoftranscript|>"] == tk.SOT
    assert {c: names[f"<|{c}|>"] for c in tk.LANGUAGE_IDS} == tk.LANGUAGE_IDS
    assert names["<|nospeech|>"] == tk.NO_SPEECH
    assert names["<|notimestamps|>"] == tk.NO_TIMESTAMPS
    assert names["<|0.00|>"] == tk.FIRST_TIMESTAMP
    assert names["<|30.00|>"] == tk.VOCABULARY - 1


def test_exported_probabilities_equal_the_trained_ones(network: Network, tmp_path: Path) -> None:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    ids = CompactIds(300)
    write_configs(tmp_path, network.size)
    config = WhisperConfig(**json.loads((tmp_path / "config.json").read_text()))
    model: Any = WhisperForConditionalGeneration(config)
    model.eval()
    weights = {k: v.float() for k, v in standard_weights(network, ids).items()}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert (set(missing), unexpected) == ({"proj_out.weight"}, [])
    model.tie_weights()
    mel = torch.randn(1, 80, 3000)
    tokens = [tk.SOT, tk.LANGUAGE_IDS["es"], tk.TRANSCRIBE, 17, 250, tk.FIRST_TIMESTAMP + 90]
    with torch.no_grad():
        theirs = model(mel, decoder_input_ids=torch.tensor([tokens])).logits[0].log_softmax(-1)
        table = network.embeddings()
        source = network.encoder(mel)
        compact = torch.tensor([ids.to_compact(tokens)])
        hidden, _ = network.decode(compact, source, table)
        ours = network.logits(hidden, table, ids.unused)[0].log_softmax(-1)
    known = [i for i, full in enumerate(ids.full) if full >= 0]
    full = [ids.full[i] for i in known]
    # fp16 storage of the exported weights bounds the agreement.
    torch.testing.assert_close(theirs[:, full], ours[:, known], atol=0.02, rtol=0.02)


def test_log_mel_equals_the_feature_extractor() -> None:
    from transformers import WhisperFeatureExtractor

    torch.manual_seed(1)
    wave = torch.randn(3 * 16000) * 0.1
    make: Any = WhisperFeatureExtractor
    extractor = make(feature_size=80)
    theirs = extractor(
        wave.numpy(), sampling_rate=16000, return_tensors="pt", max_length=3 * 16000
    ).input_features
    torch.testing.assert_close(LogMel()(wave[None]), theirs, atol=1e-4, rtol=0)


def test_alignment_loss_prefers_the_spoken_frames() -> None:
    weights = torch.full((1, 4, 3, 10), 0.01)
    weights[0, :, 1, 5] = 0.91
    hit = alignment_loss(weights, torch.tensor([[0, 1, 4, 7]]))
    miss = alignment_loss(weights, torch.tensor([[0, 1, 0, 3]]))
    assert float(hit) < 0.1 < float(miss)
    assert float(alignment_loss(weights, torch.zeros(0, 4, dtype=torch.long))) == 0
