"""A transducer of many languages: it is told one, or finds out and writes a tag that is no text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.request import Priority
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import FileTranscribed, TurnCompleted, TurnFailed
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.transducer.encoder import Piece
from lookhear.engine.transducer.languages import Languages
from lookhear.engine.transducer.model import TransducerModel
from lookhear.engine.transducer.request import TransducerRequest
from lookhear.engine.transducer.sound import Feed
from tests.engine.playing import file, make_core, noise, outcome, play, turn
from tests.engine.transducer.driving import SOUND, a_runner, close, run, text
from tools.random_checkpoints.transducer import LOCALES, TAGS, build_random_multilingual


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("multilingual")


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    return build_random_multilingual(folder, seed=1)


@pytest.fixture(scope="module")
def ours(folder: Path, theirs: Any) -> TransducerModel:
    return TransducerModel.from_folder(folder)


def asked(key: str, seed: int, prompt: int | None, seconds: float = 6.0) -> TransducerRequest:
    feed = Feed(SOUND, 4, prompt)
    feed.append(noise(seed, seconds))
    return feed.take(key, Priority.BATCH, feed.remaining, is_last=True)


def test_places_in_each_language(ours: TransducerModel, theirs: Any) -> None:
    """Side by side, each in its own."""
    prompts = [0, 2, 7]
    frames = torch.randn(3, 77, 20, generator=torch.Generator().manual_seed(0)) * 0.5 - 4.3
    pieces = [Piece(ours.encoder.begin(2), own, is_last=True) for own in frames]
    places, _ = ours.encode(pieces, 2, prompts)
    with torch.inference_mode():
        told = theirs.get_audio_features(
            frames, prompt_ids=torch.tensor(prompts), num_lookahead_tokens=1
        )
        usual = theirs.get_audio_features(frames[:1], num_lookahead_tokens=1)
    close(torch.stack(places), told.pooler_output)
    close(ours.encode(pieces[:1], 2)[0][0], usual.pooler_output[0])


def test_greedy_tokens_in_each_language(ours: TransducerModel, theirs: Any) -> None:
    frames = torch.randn(1, 300, 20, generator=torch.Generator().manual_seed(1)) * 0.5 - 4.3
    found = []
    for prompt in (0, 2):
        told = theirs.generate(
            input_features=frames,
            prompt_ids=torch.tensor([prompt]),
            num_lookahead_tokens=3,
            max_new_tokens=5000,
        )
        tokens = [int(t) for t in told.sequences[0, 1:] if t != ours.dims.blank]
        piece = Piece(ours.encoder.begin(4), frames[0], is_last=True)
        places, _ = ours.encode([piece], 4, [prompt])
        (written,) = ours.predictor.write([ours.predictor.begin()], places)
        assert written.tokens == tokens and tokens
        found.append(tokens)
    assert found[0] != found[1]


@pytest.mark.parametrize(
    ("settings", "prompt"),
    [
        ({}, None),
        ({"language": "de"}, 2),
        ({"language": "en"}, 0),
        ({"languages": ("th",)}, 5),
    ],
)
def test_turns_and_files_are_heard_in_it(
    folder: Path, ours: TransducerModel, settings: dict[str, Any], prompt: int | None
) -> None:
    (results,) = run(a_runner(ours), [asked("w", 4, prompt)])
    written = text(results)
    tags = [token for token in written if token in TAGS.values()]
    events = play(make_core(folder, max_segment_seconds=None), turn("a", 4, 6.0, **settings))
    (done,) = [event for event in events if isinstance(event, TurnCompleted)]
    assert done.num_tokens == len(written) - len(tags) > 0
    assert "<" not in outcome(events, "a")[-1]
    events = play(make_core(folder, max_segment_seconds=None), file("f", 4, 6.0, **settings))
    (read,) = [event for event in events if isinstance(event, FileTranscribed)]
    assert read.text == done.text
    codes = {token: name[1:3] for name, token in TAGS.items()}
    if "language" in settings:
        assert done.language == read.language == settings["language"]
    elif "languages" not in settings:
        assert tags and done.language in codes.values() and read.language == codes[tags[-1]]


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"language": "fr"}, "language"), ({"languages": ("en", "de")}, "languages")],
)
def test_what_it_cannot_be_held_to_is_refused(
    folder: Path, theirs: Any, changes: dict[str, Any], field: str
) -> None:
    events = play(make_core(folder, max_segment_seconds=None), turn("a", 0, 1.0, **changes))
    (failed,) = [event for event in events if isinstance(event, TurnFailed)]
    assert failed.code == "invalid_language" and failed.message.startswith(f"{field}: expected")


def test_its_card(folder: Path, theirs: Any) -> None:
    built = build_core(EngineConfig(model=str(folder), threads=1), lambda stage, share: None)
    assert built.card.architecture == "Nemotron3_5AsrForRNNT"
    assert built.card.languages == ["de", "en", "th", "zh"]


def test_what_a_folder_says(tmp_path: Path) -> None:
    path = tmp_path / "processor_config.json"
    path.write_text(json.dumps({"prompt_dictionary": LOCALES}))
    spelt = ["a", "<unk>", "<en-US>", None, "<yue-HK>"]
    languages = Languages.read(tmp_path, 8, spelt)
    assert languages.prompts == {"de": 2, "en": 0, "th": 5, "zh": 6}
    assert languages.tags == {2: "en", 4: "yue"}
    assert Languages.read(tmp_path, 0, spelt) == Languages()
    said = Hypothesis((5, 2, 6), (-1.0, -2.0, -3.0), ((0, 1), (1, 2), (2, 3)))
    heard = languages.heard(said)
    assert heard.tokens == (5, 6) and heard.language == "en" and heard.spans == ((0, 1), (2, 3))
    assert languages.heard(heard) is heard
    path.write_text(json.dumps({"prompt_dictionary": {"en": 8}}))
    with pytest.raises(CheckpointError, match="prompt_dictionary"):
        Languages.read(tmp_path, 8, spelt)
