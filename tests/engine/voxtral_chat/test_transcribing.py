"""A Voxtral writes down what it hears: turns and files, alone, side by side and beside answers;
against transformers' `generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from lookhear.engine.config import EngineConfig
from lookhear.engine.families.build import build_core
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AnswerCompleted,
    AudioPart,
    FileFailed,
    FileTranscribed,
    HoldRecording,
    TextCommitted,
    TurnCompleted,
)
from lookhear.engine.tokenizers.tekken import read_tekken
from lookhear.kernels import log_mel, mel_filters
from tests.engine.chat.asking import ask, user
from tests.engine.chat.asking import outcome as answered
from tests.engine.playing import drain, file, make_core, noise, outcome, play, turn
from tools.random_checkpoints.voxtral_chat import HEARING, SPECIAL, VOCAB, build_random_voxtral_chat


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("voxtral")
    return folder, build_random_voxtral_chat(folder, seed=2)


def test_side_by_side_as_alone(pair: tuple[Path, Any]) -> None:
    scripts = {"a": turn("a", 0, 3.0), "b": turn("b", 1, 5.0, piece=0.7), "f": file("f", 3, 9.0)}
    alone = {
        name: outcome(play(make_core(pair[0]), script), name) for name, script in scripts.items()
    }
    assert all(texts[-1] for texts in alone.values())
    core = make_core(pair[0])
    core.submit(HoldRecording("s", "m", "r", noise(9, 3.0)))
    core.submit(ask(user(AudioPart("r"), "What?")))
    events = play(core, *scripts.values())
    assert outcome(events, "f") == alone["f"]
    for name in "ab":
        assert outcome(events, name)[-1] == alone[name][-1]
    assert isinstance(answered(events), AnswerCompleted)


def test_text_is_committed_while_somebody_speaks(pair: tuple[Path, Any]) -> None:
    core = make_core(pair[0], max_segment_seconds=4.0)
    script = turn("a", 5, 12.0)
    events = play(core, script[:-1])
    early = [event.text for event in events if isinstance(event, TextCommitted)]
    assert early and not any(isinstance(event, TurnCompleted) for event in events)
    core.submit(script[-1])
    events += drain(core)
    assert outcome(events, "a")[-1].startswith("".join(early))
    assert core.stats()["drafted_tokens"] > 0


@pytest.mark.parametrize("language", ["en", None])
def test_a_file_is_what_generate_writes(pair: tuple[Path, Any], language: str | None) -> None:
    core, requests = make_core(pair[0]), []
    place = core._runner.place

    def watched(request: Any) -> Any:
        requests.append(place(request))
        return requests[-1]

    core._runner.place = watched  # type: ignore[method-assign]
    settings = {} if language is None else {"language": language}
    events = play(core, file("f", 3, 1.5, **settings))
    (done,) = [event for event in events if isinstance(event, FileTranscribed)]
    (sequence,) = requests
    prompt = list(sequence.request.tokens)
    names = ["<s>", "[INST]", "[BEGIN_AUDIO]", *["[AUDIO]"] * 25, "[/INST]"]
    named = [] if language is None else read_tekken(pair[0], VOCAB).encode(f"lang:{language}")
    assert prompt == [*map(SPECIAL.get, names), *named, SPECIAL["[TRANSCRIBE]"]]
    padded = torch.zeros(1, 2 * SAMPLE_RATE)
    samples = noise(3, 1.5)
    padded[0, : len(samples)] = torch.from_numpy(samples)
    mel = log_mel(padded, mel_filters(HEARING["num_mel_bins"]))
    tokens = sequence.generated.tokens
    inputs = torch.tensor([prompt])
    with torch.inference_mode():
        whole = pair[1].generate(
            inputs, attention_mask=torch.ones_like(inputs), input_features=mel,
            max_new_tokens=len(tokens), do_sample=False, pad_token_id=0,
        )  # fmt: skip
    assert len(tokens) >= 3 and whole[0, len(prompt) :].tolist() == tokens
    assert done.language == language and done.text


def test_what_it_cannot_be_asked(pair: tuple[Path, Any]) -> None:
    core = make_core(pair[0])
    for changes, message in (
        ({"language": "ja"}, "language: expected de, en, es, fr, hi, it, nl, pt; got 'ja'"),
        ({"task": "translate"}, "cannot translate"),
        ({"words": True}, "has no word times"),
        ({"prompt": "Kubernetes"}, "prompt: expected none"),
    ):
        (failed,) = play(core, file("f", 3, 1.0, **changes))
        assert isinstance(failed, FileFailed) and message in failed.message


def test_one_without_the_token_or_the_room_only_chats(
    pair: tuple[Path, Any], tmp_path: Path
) -> None:
    def abilities(folder: Path, **changes: Any) -> list[str]:
        config = EngineConfig(model=str(folder), served_name="m", dtype="float32", **changes)
        return build_core(config, lambda stage, share: None).card.abilities

    assert abilities(pair[0]) == ["transcribe", "chat", "audio", "adapters"]
    assert abilities(pair[0], max_context_tokens=256) == ["chat", "audio", "adapters"]
    build_random_voxtral_chat(tmp_path)
    path = tmp_path / "tekken.json"
    path.write_text(path.read_text().replace("[TRANSCRIBE]", "[OTHER]"))
    assert abilities(tmp_path) == ["chat", "audio", "adapters"]
