"""Questions about what is heard, the whole way, against transformers' `generate`: the same greedy
tokens, whatever the steps, the company and the caches."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from lookhear.engine.families.registry import family_of
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AnswerCompleted,
    AnswerFailed,
    AudioPart,
    ChatMessage,
    HoldRecording,
    LoadAdapter,
    TextPart,
)
from lookhear.kernels import log_mel, mel_filters
from tests.engine.chat.asking import ask, image, outcome, rest, user
from tests.engine.chat.watching import Watched, answered_alone, answered_together
from tools.random_checkpoints.adapters import ALL, build_random_adapter, merged
from tools.random_checkpoints.voxtral_chat import HEARING, SPECIAL, build_random_voxtral_chat

NEW = 12
WINDOW = 2 * SAMPLE_RATE  # of the random ones; 25 tokens
LENGTHS = {"short": 0.4, "long": 4.71}  # seconds: one window, and three
short, long = AudioPart("short"), AudioPart("long")
QUESTIONS: dict[str, list[ChatMessage]] = {
    "text": [user("Tell me a story")],
    "told how": [ChatMessage("system", [TextPart("Be brief.")]), user("What is it?")],
    "sound": [user(short, "What is it?")],
    "sounds": [user("Is", long, "like", short, "?")],
    "sound alone": [user(short)],
    "later on": [
        ChatMessage("system", [TextPart("Be brief.")]),
        user(long, "What?"),
        ChatMessage("assistant", [TextPart("A thing.")]),
        user(short, "And now?"),
    ],
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("voxtral")
    return folder, build_random_voxtral_chat(folder, seed=5)


def sound(name: str) -> NDArray[np.float32]:
    rng = np.random.default_rng(len(name))
    samples = rng.normal(0.0, 0.1, round(LENGTHS[name] * SAMPLE_RATE))
    return samples.astype(np.float32)


HELD = [HoldRecording("s", "m", name, sound(name)) for name in LENGTHS]


def theirs(model: Any, messages: list[ChatMessage], tokens: list[int]) -> list[int]:
    """What transformers generates from the same prompt; sounds by their samples."""
    inputs: dict[str, Any] = {}
    filters = mel_filters(HEARING["num_mel_bins"])
    mels: list[torch.Tensor] = []
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, AudioPart):
            samples = torch.from_numpy(sound(part.recording))
            padded = torch.nn.functional.pad(samples, (0, -len(samples) % WINDOW))
            mel = log_mel(padded[None], filters)[0]
            mels += torch.split(mel, WINDOW // 160, dim=1)
    if mels:
        inputs["input_features"] = torch.stack(mels)
    ids = torch.tensor([tokens])
    with torch.inference_mode():
        whole = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=NEW,
            do_sample=False,
            pad_token_id=0,
            **inputs,
        )
    answer: list[int] = whole[0, len(tokens) :].tolist()
    return answer[:-1] if answer[-1] == SPECIAL["</s>"] else answer


def test_greedy_tokens_are_those_of_generate(pair: tuple[Path, Any]) -> None:
    ours = Watched(pair[0], HELD)
    for name, answer in ours.answers(QUESTIONS, NEW).items():
        prompt = list(ours.sequences[f"s/{name}"].request.tokens)
        assert answer == theirs(pair[1], QUESTIONS[name], prompt)


def test_steps_company_and_caches_change_nothing(pair: tuple[Path, Any]) -> None:
    make = partial(Watched, pair[0], HELD)
    together = answered_together(make, QUESTIONS, NEW, 17)
    assert together == answered_alone(make, QUESTIONS, NEW)


def test_adapters_change_what_is_written_and_what_is_heard(
    pair: tuple[Path, Any], tmp_path: Path
) -> None:
    """As the merged model; named as transformers 5 does and as the checkpoint does, with all its
    linears and with the encoder's alone, beside a question without any."""
    ours, wanted = Watched(pair[0], HELD, max_adapters=3), {}
    question = QUESTIONS["sounds"]
    hearing = ("q_proj", "v_proj", "fc1", "linear_1")
    kinds: dict[str, dict[str, Any]] = {
        "all": {"targets": (*ALL, *hearing)},
        "ears": {"targets": hearing, "only": "model.audio_tower", "size": 1.0},
    }
    for seed, (name, kind) in enumerate(kinds.items()):
        folder = build_random_adapter(tmp_path / name, pair[1], seed=seed, **kind)
        changed = merged(pair[1], folder)
        ours.core.submit(LoadAdapter(name, "m", name, str(folder)))
        ours.core.submit(ask(*question, max_tokens=NEW, answer=name, model=f"m:{name}"))
        wanted[name] = changed
    weights = load_file(tmp_path / "ears" / "adapter_model.safetensors")
    (tmp_path / "old").mkdir()
    older = {name.replace("model.model.", "model."): weight for name, weight in weights.items()}
    save_file(older, tmp_path / "old" / "adapter_model.safetensors")
    shutil.copy(tmp_path / "ears" / "adapter_config.json", tmp_path / "old")
    ours.core.submit(LoadAdapter("old", "m", "old", str(tmp_path / "old")))
    ours.core.submit(ask(*question, max_tokens=NEW, answer="old", model="m:old"))
    ours.core.submit(ask(*question, max_tokens=NEW, answer="plain"))
    rest(ours.core)
    answers = {name: ours.tokens(name) for name in (*kinds, "old", "plain")}
    prompt = list(ours.sequences["s/all"].request.tokens)
    for name, model in {**wanted, "plain": pair[1]}.items():
        assert answers[name] == theirs(model, question, prompt)
    assert answers["old"] == answers["ears"]
    assert len({tuple(answers[name]) for name in ("all", "ears", "plain")}) == 3


def test_what_it_cannot_do_is_one_clear_error(pair: tuple[Path, Any]) -> None:
    core = Watched(pair[0], HELD).core
    core.submit(ask(user(image("p"), "What do you see?")))
    failed = outcome(rest(core))
    assert isinstance(failed, AnswerFailed) and failed.code == "invalid_model"
    assert failed.message == "expected no pictures, m does not see"
    assert (failed.message_index, failed.part_index) == (0, 0)
    endless = np.zeros(100 * SAMPLE_RATE, np.float32)
    core.submit(HoldRecording("s", "m", "endless", endless))
    core.submit(ask(user(short, AudioPart("endless"), "?"), answer="b"))
    failed = outcome(rest(core), "b")
    assert isinstance(failed, AnswerFailed) and failed.code == "context_length_exceeded"
    assert (failed.message_index, failed.part_index) == (0, 1)
    assert "got 1250 tokens where" in failed.message
    core.submit(ask(user(short, "Still there?"), answer="c"))
    assert isinstance(outcome(rest(core), "c"), AnswerCompleted)


def test_it_says_what_it_can(pair: tuple[Path, Any]) -> None:
    family, architecture = family_of(pair[0])
    assert (family.name, architecture) == ("Voxtral", "VoxtralForConditionalGeneration")
    assert family.abilities == ("transcribe", "chat", "audio", "adapters", "prompt_embeds")
