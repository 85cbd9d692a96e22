"""transformers takes the files of a view as it takes those of a published folder."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from lookhear.engine.checkpoints.hub import resolve_checkpoint
from lookhear.engine.checkpoints.loader import CheckpointError
from tests.engine.checkpoints import ctranslate2_folders, test_openai_pt

MAKERS = {
    "ct2": lambda folder, theirs: ctranslate2_folders.write(folder / "ct2", theirs),
    "pt": lambda folder, theirs: test_openai_pt.write(folder / "their" / "tiny.pt", theirs),
}


@pytest.fixture(params=MAKERS)
def view(request: pytest.FixtureRequest, theirs: Path, tmp_path: Path) -> Path:
    return resolve_checkpoint(MAKERS[request.param](tmp_path, theirs))


@pytest.mark.parametrize("timestamps", [False, True])
def test_generate_writes_the_same(theirs: Path, tmp_path: Path, timestamps: bool) -> None:
    from transformers import GenerationConfig, WhisperForConditionalGeneration

    view = resolve_checkpoint(ctranslate2_folders.write(tmp_path / "ct2", theirs))
    model: Any = WhisperForConditionalGeneration.from_pretrained(theirs)
    mel = torch.randn(2, 80, 3000, generator=torch.Generator().manual_seed(2))
    written = []
    for folder in (theirs, view):
        model.generation_config = GenerationConfig.from_pretrained(folder)
        # Their own defaults where a published file says nothing.
        model.generation_config.max_initial_timestamp_index = 50
        for task in ("transcribe", "translate"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows = model.generate(
                    mel, return_timestamps=timestamps, task=task, max_new_tokens=12
                )
            written.append(rows.tolist())
    assert written[:2] == written[2:]
    assert written[0] != written[1]


def test_a_view_says_all_that_a_folder_says(theirs: Path, view: Path) -> None:
    # OpenAI's files know neither the heads nor what this vocabulary writes as a space.
    unknown = {"alignment_heads", "suppress_tokens", "begin_suppress_tokens"}
    for name in ("config.json", "generation_config.json", "preprocessor_config.json"):
        known, ours = (json.loads((folder / name).read_text()) for folder in (theirs, view))
        assert known.keys() <= ours.keys(), name
        for key in known.keys() - unknown:
            assert ours[key] == known[key], (name, key)


def test_the_processor_hears_and_spells(theirs: Path, view: Path) -> None:
    from transformers import WhisperFeatureExtractor, WhisperProcessor

    processor: Any = WhisperProcessor.from_pretrained(view)
    usual: Any = WhisperFeatureExtractor(feature_size=80)
    assert processor.feature_extractor.to_dict() == usual.to_dict()
    text = "Grüße, the word!"
    ids = processor.tokenizer(text).input_ids
    assert processor.tokenizer.decode(ids, skip_special_tokens=True) == text
    generation = json.loads((view / "generation_config.json").read_text())
    assert ids[0] == generation["decoder_start_token_id"] and ids[-1] == generation["eos_token_id"]
    assert generation["no_timestamps_token_id"] in ids


def test_a_view_is_a_model_itself(view: Path) -> None:
    assert resolve_checkpoint(view) == view
    assert resolve_checkpoint(str(view)) == view


def test_a_cache_that_cannot_be_written_into_is_told(ct2: Path, cache: Path) -> None:
    cache.parent.write_text("a file, where a folder should be")
    with pytest.raises(CheckpointError) as caught:
        resolve_checkpoint(ct2)
    told = f"{ct2}: a few small files of it cannot be kept in {cache / 'views'}: Not a directory; "
    assert str(caught.value) == told + "XDG_CACHE_HOME may name another place"
