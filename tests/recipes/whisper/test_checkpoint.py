"""The shipped checkpoint: loads as a standard Whisper and hears the held-out recordings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tools.recipes.whisper import tokenizer as tk
from tools.recipes.whisper.evaluate import (
    Item,
    Transcriber,
    load_items,
    silence,
    transcription,
)

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tools" / "demo" / "lookhear_demo" / "whisper"
DATA = ROOT / "tests" / "data"


@pytest.fixture(scope="module")
def model() -> Transcriber:
    torch.set_num_threads(1)
    return Transcriber(FOLDER)


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return load_items(DATA, every=24)


def test_folder_is_at_most_20_mb() -> None:
    assert sum(p.stat().st_size for p in FOLDER.iterdir()) <= 20_000_000


def test_manifest_agrees_with_the_recordings() -> None:
    import soundfile

    entries = json.loads((DATA / "manifest.json").read_text(encoding="utf-8"))
    length = {f: soundfile.info(DATA / f).duration for f in {e["file"] for e in entries}}
    for language in tk.LANGUAGE_IDS:
        assert sum(e["language"] == language for e in entries) >= 200
    for e in entries:
        assert e["end_s"] < length[e["file"]]
        assert [w["word"] for w in e["words"]] == e["text"].split()
        times = [t for w in e["words"] for t in (w["start_s"], w["end_s"])]
        assert times == sorted(times)
        assert e["start_s"] <= times[0] and times[-1] <= e["end_s"] + 0.01


@pytest.mark.parametrize("language", list(tk.LANGUAGE_IDS))
def test_long_recordings(language: str) -> None:
    import soundfile

    manifest = json.loads((DATA / f"long_{language}.json").read_text(encoding="utf-8"))
    duration = soundfile.info(DATA / manifest["file"]).duration
    assert 120 <= duration <= 300
    assert abs(duration - manifest["seconds"]) < 0.1
    assert manifest["text"] == " ".join(s["text"] for s in manifest["sentences"])


def test_unseen_sentences_are_heard(model: Transcriber, items: list[Item]) -> None:
    rates = transcription(model, items)
    assert sum(rates.values()) / len(rates) < 0.1


def test_languages_are_told_apart(model: Transcriber, items: list[Item]) -> None:
    tokens = model.first_token([i.samples for i in items])
    right = [t == tk.LANGUAGE_IDS[i.entry["language"]] for t, i in zip(tokens, items, strict=True)]
    assert sum(right) >= 0.9 * len(right)


def test_silence_and_noise_give_no_text(model: Transcriber) -> None:
    assert silence(model, count=16)["text_rate"] <= 0.1


def test_tokenizer_round_trip(model: Transcriber, items: list[Item]) -> None:
    tokenizer = model.processor.tokenizer
    assert len(tokenizer) == tk.VOCABULARY
    for item in items:
        ids = tokenizer.encode(" " + item.entry["text"], add_special_tokens=False)
        assert tokenizer.decode(ids).strip() == item.entry["text"]
        assert len(ids) <= 2.5 * len(item.words)
