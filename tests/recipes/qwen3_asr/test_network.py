"""The trained network's folder: transformers and our engine compute from it what it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.qwen3_asr.prompt import build_prompt
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.qwen3_asr.export import load_network, write_folder
from tools.recipes.qwen3_asr.network import Network, Size, token_counts
from tools.recipes.qwen3_asr.tokenizer import write_tokenizer

SMALL = Size(channels=4, encoder_width=16, encoder_layers=2, width=24, inner=32, layers=2)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Network, Path]:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("run")
    write_tokenizer(folder / "tokenizer", 0, 400, 400)
    network = Network(SMALL, 408, 5)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(weight.half())  # as the folder will hold it
    write_folder(network, folder / "tokenizer", folder / "model")
    return network, folder / "model"


def test_transformers_computes_the_same(exported: tuple[Network, Path]) -> None:
    from transformers import Qwen3ASRForConditionalGeneration

    network, folder = exported
    reader: Any = Qwen3ASRForConditionalGeneration
    theirs = reader.from_pretrained(folder, dtype=torch.float32)
    tokenizer = QwenTokenizer.from_folder(folder)
    frames = torch.tensor([1737])
    mel = torch.randn(1, 128, 1800)
    mel[:, :, 1737:] = 0
    counts = token_counts(frames)
    prompt = build_prompt(tokenizer, int(counts), context="Madrid", language="Spanish")
    tokens = torch.tensor([prompt.tokens])
    with torch.no_grad():
        hidden, attended, source = network(mel, counts, tokens, torch.tensor([prompt.audio_start]))
        mask = (torch.arange(1800)[None] < frames[:, None]).long()
        wanted = theirs(input_ids=tokens, input_features=mel, input_features_mask=mask).logits
    torch.testing.assert_close(network.logits(hidden), wanted, atol=1e-4, rtol=1e-4)
    assert [w.shape for w in attended] == [(1, 4, tokens.shape[1], tokens.shape[1])] * 2
    assert network.phoneme_guesses(source).shape == (1, 234, 4, 5)


def test_engine_reads_the_folder(exported: tuple[Network, Path]) -> None:
    network, folder = exported
    model = Qwen3AsrModel.from_folder(folder)
    frames = torch.tensor([930])
    mel = torch.randn(1, 128, 1000)
    mel[:, :, 930:] = 0
    with torch.no_grad():
        source = network.model.audio_tower(mel, token_counts(frames))
        wanted = network.model.multi_modal_projector(source)[0, : int(token_counts(frames))]
    torch.testing.assert_close(model.encoder.encode(mel[0, :, :930]), wanted, atol=1e-4, rtol=1e-4)
    tokenizer = QwenTokenizer.from_folder(folder)
    assert model.end_tokens == tuple(tokenizer.token(n) for n in ("<|endoftext|>", "<|im_end|>"))
    assert Traits.from_folder(folder).longest_window_seconds == 20


@pytest.mark.parametrize("language", [None, "German"])
@pytest.mark.parametrize("context", [None, "Madrid coffee"])
def test_processor_s_request_is_our_prompt(
    exported: tuple[Network, Path], language: str | None, context: str | None
) -> None:
    from transformers import AutoProcessor

    _, folder = exported
    reader: Any = AutoProcessor
    processor = reader.from_pretrained(folder)
    wave = np.random.default_rng(0).standard_normal(20_000).astype(np.float32)
    request = processor.apply_transcription_request(wave, language=language, prompt=context)
    prompt = build_prompt(
        QwenTokenizer.from_folder(folder),
        int(token_counts(torch.tensor(20_000 // 160))),
        context=context or "",
        language=language,
    )
    assert tuple(request["input_ids"][0].tolist()) == prompt.tokens


def test_state_of_a_run_is_loaded(tmp_path: Path) -> None:
    network = Network(Size(), 408, 5)
    torch.save({"net": network.state_dict()}, tmp_path / "state.pt")
    loaded = load_network(tmp_path)
    assert loaded.vocabulary == 408 and loaded.classes == 5
    assert torch.equal(loaded.phonemes.weight, network.phonemes.weight)
