"""The shipped demo-qwen3-asr: a standard folder that hears the held-out recordings."""

from __future__ import annotations

from pathlib import Path

import pytest
import soundfile
import torch

from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.qwen3_asr.prompt import build_prompt
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.kernels import log_mel, mel_filters
from tests.engine.models.driving import Decoder
from tools.recipes.qwen3_asr.evaluate import (
    Transcriber,
    long_recordings,
    pieces,
    questions,
    silence,
    transcription,
)
from tools.recipes.speech.spoken_questions import RECORDED
from tools.recipes.whisper.evaluate import Item, Samples, load_items

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tools" / "demo" / "lookhear_demo" / "qwen3_asr"
RECORDINGS = ROOT / "tools" / "demo" / "lookhear_demo" / "recordings"
DATA = ROOT / "tests" / "data"


@pytest.fixture(scope="module")
def theirs() -> Transcriber:
    torch.set_num_threads(1)
    return Transcriber(FOLDER)


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return load_items(DATA, every=24)


def _greedy(model: Qwen3AsrModel, tokenizer: QwenTokenizer, wave: Samples) -> list[int]:
    """Our engine's model on one clip, no header given; the end token left out."""
    filters = mel_filters(model.encoder.dims.num_mels)
    audio = model.encoder.encode(log_mel(torch.from_numpy(wave)[None], filters)[0])
    prompt = build_prompt(tokenizer, len(audio))
    tokens = torch.tensor(prompt.tokens)
    places = torch.arange(prompt.audio_start, prompt.audio_start + prompt.audio_tokens)
    decoder = Decoder(model.decoder)
    text: list[int] = []
    part = model.embed(tokens, places, audio)
    while len(text) < 100:
        best = int(decoder.step({"a": part})["a"][-1].argmax())
        if best in model.end_tokens:
            break
        text.append(best)
        part = model.decoder.embed(torch.tensor([best]))
    return text


def test_folder_is_at_most_20_mb() -> None:
    assert sum(p.stat().st_size for p in FOLDER.iterdir()) <= 20_000_000
    assert Traits.from_folder(FOLDER).longest_window_seconds == 20


def test_our_engine_says_what_transformers_says(theirs: Transcriber, items: list[Item]) -> None:
    model = Qwen3AsrModel.from_folder(FOLDER)
    tokenizer = QwenTokenizer.from_folder(FOLDER)
    for item in (items[0], items[-1]):
        wanted = theirs.tokens([item.samples])[0]
        assert _greedy(model, tokenizer, item.samples) == wanted
        assert len(wanted) > 5


def test_unseen_sentences_are_heard_in_their_language(
    theirs: Transcriber, items: list[Item]
) -> None:
    rates, named = transcription(theirs, items)
    assert sum(rates.values()) / len(rates) < 0.06
    assert sum(named.values()) / len(named) >= 0.95


@pytest.mark.parametrize(("name", "asked"), RECORDED.items())
def test_recorded_questions_are_heard_exactly(theirs: Transcriber, name: str, asked: str) -> None:
    samples, rate = soundfile.read(RECORDINGS / f"{name}.opus", dtype="float32")
    assert rate == 16_000
    answer = theirs.answers([samples])[0]
    assert (answer.language, answer.text) == ("English", asked)


def test_spoken_questions_are_heard(theirs: Transcriber) -> None:
    rates = questions(theirs, DATA, every=4)
    assert max(rates["seen"], rates["unseen"]) <= 0.06


def test_silence_and_noise_give_no_text(theirs: Transcriber) -> None:
    assert silence(theirs, count=16)["text_rate"] <= 0.1


def test_pieces_are_whole_sentences_and_not_too_long() -> None:
    sentences = [{"start_s": 1.0 + 5 * i, "end_s": 4.0 + 5 * i, "text": f"s{i}"} for i in range(7)]
    found = pieces(sentences, 12.0)
    assert [piece.text for piece in found] == ["s0 s1", "s2 s3", "s4 s5", "s6"]
    assert all(piece.stop - piece.start <= 12 for piece in found)


def test_several_sentences_are_heard(theirs: Transcriber) -> None:
    rates = long_recordings(theirs, DATA, 24.0, ("en",))
    assert rates["en"] < 0.1
