"""A whole engine on a random Moonshine: turns and files, alone and side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lookhear.engine.config import EngineConfig
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import FileTranscribed, TextCommitted, TurnCompleted, TurnFailed
from lookhear.engine.moonshine.recognizer import MoonshineRecognizer
from lookhear.engine.speech.recognizer import Recognizer
from lookhear.engine.tokenizers.pieces import PieceTokenizer
from tests.engine.playing import drain, file, make_core, outcome, play, turn
from tools.random_checkpoints.moonshine import build_random_moonshine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("moonshine")
    build_random_moonshine(folder, seed=2, max_position_embeddings=300)
    return folder


SCRIPTS = {
    "a": turn("a", 0, 5.0),
    "b": turn("b", 1, 7.5, piece=0.3),
    "c": turn("c", 2, 1.2),
    "f": file("f", 3, 16.0),
}


def test_side_by_side_as_alone(folder: Path) -> None:
    """Also where steps are launched before the last one was read."""
    alone = {
        name: outcome(play(make_core(folder), script), name) for name, script in SCRIPTS.items()
    }
    assert all(texts[-1] for texts in alone.values())
    for changes in ({}, {"overlap": 1}, {"max_rows": 2}):
        events = play(make_core(folder, **changes), *SCRIPTS.values())
        assert outcome(events, "f") == alone["f"]
        for name in "abc":
            assert outcome(events, name)[-1] == alone[name][-1]


def test_text_is_committed_while_somebody_speaks(folder: Path) -> None:
    core = make_core(folder, max_segment_seconds=4.0)
    script = turn("a", 5, 20.0)
    events = play(core, script[:-1])
    early = [event.text for event in events if isinstance(event, TextCommitted)]
    assert early and not any(isinstance(event, TurnCompleted) for event in events)
    core.submit(script[-1])
    events += drain(core)
    assert outcome(events, "a")[-1].startswith("".join(early))
    assert core.stats()["drafted_tokens"] > 0


def test_drafts_save_passes_and_change_nothing(folder: Path) -> None:
    """The last hypothesis is the draft."""
    texts, passes = [], []
    for draft in (True, False):
        core = make_core(folder, draft_verification=draft)
        texts.append(outcome(play(core, SCRIPTS["b"]), "b")[-1])
        passes.append(core.stats()["decoder_passes"])
    assert texts[0] == texts[1] and passes[0] < passes[1]


def test_a_file_is_heard_in_pieces(folder: Path) -> None:
    (done,) = [
        event
        for event in play(make_core(folder), file("f", 6, 50.0))
        if isinstance(event, FileTranscribed)
    ]
    assert done.duration == pytest.approx(50.0) and done.num_audio_tokens > 50 * 41
    starts = [segment.start for segment in done.segments]
    assert starts == sorted(starts) and done.segments[-1].end <= 50.0
    assert "".join(segment.text for segment in done.segments).strip() == done.text


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"words": True}, "words"),
        ({"task": "translate"}, "task"),
        ({"prompt": "earlier"}, "prompt"),
        ({"keywords": ("Moon",)}, "keywords"),
    ],
)
def test_what_it_cannot_do_is_refused_by_name(
    folder: Path, changes: dict[str, Any], field: str
) -> None:
    events = play(make_core(folder), turn("a", 0, 1.0, **changes))
    (failed,) = [event for event in events if isinstance(event, TurnFailed)]
    assert failed.message.startswith(f"{field}: expected")


def test_its_card(folder: Path) -> None:
    config = EngineConfig(model=str(folder), threads=1)
    built = build_core(config, lambda stage, share: None)
    assert built.card.architecture == "MoonshineForConditionalGeneration"
    assert built.card.abilities == ["transcribe"] and built.card.languages == []
    assert not built.card.has_word_times


def test_the_space_in_front_of_a_text_is_its_own(folder: Path) -> None:
    recognizer: Recognizer = MoonshineRecognizer(PieceTokenizer.from_folder(folder, 300))
    assert recognizer.decode_bytes([259, 260]).startswith(b" ") and not recognizer.joins_with_space
