"""Questions about what is heard and seen, the whole way, against transformers' `generate`: the same
greedy tokens, whatever the steps, the company and the caches."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lookhear.engine.families.qwen3_omni import WindowedEars
from lookhear.engine.messages import (
    SAMPLE_RATE,
    AnswerCompleted,
    AnswerFailed,
    AnswerStarted,
    AudioPart,
    ChatMessage,
    CloseSession,
    DropRecording,
    HoldRecording,
    Message,
    TextPart,
    VideoPart,
)
from lookhear.engine.models.audio_encoder import AudioDims
from lookhear.engine.models.vision_encoder import patchify
from lookhear.engine.models.vision_weights import VisionDims
from lookhear.kernels import log_mel, mel_filters
from tests.engine.chat.asking import ask, hold, image, outcome, rest, user
from tests.engine.chat.watching import Watched, answered_alone, answered_together
from tools.random_checkpoints.qwen3_omni import RATE, build_served_qwen3_omni, make_whole

NEW = 12
FRAMES = [f"f{i}" for i in range(5)]
SECONDS = [0.0, 0.5, 1.0, 1.5, 2.0]
LENGTHS = {"short": 0.4, "long": 3.71}  # seconds
short, long = AudioPart("short"), AudioPart("long")
QUESTIONS: dict[str, list[ChatMessage]] = {
    "text": [user("Tell me a story")],
    "sound": [user(short, "What is it?")],
    "sounds": [user("Is", long, "like", short, "?")],
    "picture and sound": [user(image("p"), long, "Who?")],
    "video": [user("See", VideoPart(FRAMES, SECONDS), "Which way?")],
    "live video": [user(VideoPart(FRAMES[:3], [0.0, 1.0, 4.0], live=True), short, "And now?")],
    "all, later on": [
        ChatMessage("system", [TextPart("Be brief.")]),
        user(long, "What?"),
        ChatMessage("assistant", [TextPart("A thing.")]),
        user(VideoPart(FRAMES, SECONDS), image("p"), short, "And now?"),
    ],
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("omni")
    return folder, build_served_qwen3_omni(folder, seed=5)


def sound(name: str) -> NDArray[np.float32]:
    rng = np.random.default_rng(len(name))
    samples = rng.normal(0.0, 0.1, round(LENGTHS[name] * SAMPLE_RATE))
    return samples.astype(np.float32)


HELD: list[Message] = [
    hold("p", 1, height=24, width=40),
    *(hold(name, 10 + i, height=24, width=32) for i, name in enumerate(FRAMES)),
    *(HoldRecording("s", "m", name, sound(name)) for name in LENGTHS),
]


def theirs(pair: tuple[Path, Any], messages: list[ChatMessage], sequence: Any) -> list[int]:
    """What transformers generates from the same prompt; sounds by their samples."""
    model = pair[1]
    config = model.config
    dims = VisionDims.from_config(config.vision_config.to_dict(), Path("config.json"))
    tokens: list[int] = list(sequence.request.tokens)
    inputs: dict[str, Any] = {}
    for name, pad, pixels in (
        ("image", config.image_token_id, "pixel_values"),
        ("video", config.video_token_id, "pixel_values_videos"),
    ):
        held = [torch.from_numpy(m.features) for s, m in sequence.request.media if tokens[s] == pad]
        if held:
            inputs[pixels] = torch.cat([patchify(p, dims) for p in held])
            shape = [side // dims.patch for side in held[0].shape[2:]]
            inputs[f"{name}_grid_thw"] = torch.tensor([[len(held), *shape]])
    parts = [part for message in messages for part in message.parts]
    for video in (part for part in parts if isinstance(part, VideoPart)):
        inputs["video_second_per_grid"] = torch.tensor([1.0 if not video.live else 2.0])
    if heard := [part.recording for part in parts if isinstance(part, AudioPart)]:
        filters = mel_filters(config.audio_config.num_mel_bins)
        mels = [log_mel(torch.from_numpy(sound(name))[None], filters)[0] for name in heard]
        longest = max(mel.shape[1] for mel in mels)
        padded = [torch.nn.functional.pad(m, (0, longest - m.shape[1])) for m in mels]
        inputs["input_features"] = torch.stack(padded)
        inputs["feature_attention_mask"] = torch.stack(
            [(torch.arange(longest) < mel.shape[1]).long() for mel in mels]
        )
    ids = torch.tensor([tokens])
    model.model.rope_deltas = None
    with torch.inference_mode():
        whole = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=NEW,
            do_sample=False,
            **inputs,
        )
    answer: list[int] = whole[0, len(tokens) :].tolist()
    ends = model.generation_config.eos_token_id
    return answer[:-1] if answer[-1] in ends else answer


@pytest.mark.parametrize("name", [name for name in QUESTIONS if name != "live video"])
def test_greedy_tokens_are_those_of_generate(pair: tuple[Path, Any], name: str) -> None:
    ours = Watched(pair[0], HELD)
    ours.core.submit(ask(*QUESTIONS[name], max_tokens=NEW))
    assert isinstance(done := outcome(rest(ours.core)), AnswerCompleted), done
    assert ours.tokens("a") == theirs(pair, QUESTIONS[name], ours.sequences["s/a"])


@pytest.mark.parametrize("budget", [17, 40])
def test_steps_company_and_caches_change_nothing(pair: tuple[Path, Any], budget: int) -> None:
    make = partial(Watched, pair[0], HELD)
    together = answered_together(make, QUESTIONS, NEW, budget)
    assert together == answered_alone(make, QUESTIONS, NEW)


def test_the_prompt_is_the_processors(pair: tuple[Path, Any]) -> None:
    """A video's slices stand side by side, and positions say when each was."""
    from transformers import Qwen2Tokenizer

    ours = Watched(pair[0], HELD)
    ours.core.submit(ask(*QUESTIONS["all, later on"], max_tokens=NEW))
    events = rest(ours.core)
    request = ours.sequences["s/a"].request
    audio, video, image_ = ("<|audio_pad|>", "<|video_pad|>", "<|image_pad|>")
    expected = (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        f"<|im_start|>user\n<|audio_start|>{audio * 48}<|audio_end|>What?<|im_end|>\n"
        "<|im_start|>assistant\nA thing.<|im_end|>\n"
        f"<|im_start|>user\n<|vision_start|>{video * 210}<|vision_end|>"
        f"<|vision_start|>{image_ * 15}<|vision_end|><|audio_start|>{audio * 5}<|audio_end|>"
        "And now?<|im_end|>\n<|im_start|>assistant\n"
    )
    tokenizer: Any = Qwen2Tokenizer.from_pretrained(pair[0])
    assert list(request.tokens) == tokenizer.encode(expected, add_special_tokens=False)
    assert [medium.time for _, medium in request.media if medium.time] == [RATE, 2 * RATE]
    (started,) = [event for event in events if isinstance(event, AnswerStarted)]
    usage = started.usage
    assert (usage.audio, usage.video, usage.image) == (53, 210, 15)
    assert usage.prompt == len(request.tokens)


def test_a_live_video_grows_at_its_end(pair: tuple[Path, Any]) -> None:
    ours = Watched(pair[0], HELD)
    for count in (3, 5):
        video = VideoPart(FRAMES[:count], SECONDS[:count], live=True)
        ours.core.submit(ask(user(video, "?"), answer=f"{count}"))
    rest(ours.core)
    early, late = (ours.sequences[f"s/{count}"].request for count in (3, 5))
    assert [medium.time for _, medium in early.media] == [0, 6, 13]  # of 13 a second
    assert late.media[:3] == early.media
    end = early.media[-1][0] + early.media[-1][1].num_tokens
    assert late.tokens[:end] == early.tokens[:end]
    assert len(late.media) == 5


def test_the_whole_model_answers_as_its_thinker_does(
    pair: tuple[Path, Any], tmp_path: Path
) -> None:
    build_served_qwen3_omni(tmp_path, seed=5)
    make_whole(tmp_path)
    answers = []
    for folder in (pair[0], tmp_path):
        ours = Watched(folder, HELD)
        question = QUESTIONS["all, later on"]
        ours.core.submit(ask(*question, max_tokens=NEW, ignore_end=True))
        rest(ours.core)
        answers.append(ours.tokens("a"))
    assert answers[0] == answers[1] and len(answers[0]) == NEW


def test_recordings_come_and_go(pair: tuple[Path, Any]) -> None:
    core = Watched(pair[0], HELD).core
    held = core.stats()
    assert held["recordings"] == 2
    assert held["recording_bytes"] == 4 * sum(round(SAMPLE_RATE * s) for s in LENGTHS.values())
    core.submit(ask(user(short, "?")))
    rest(core)
    assert core.stats()["recording_bytes"] < held["recording_bytes"]  # log-mel is less
    core.submit(DropRecording("s", "m", "short"))
    core.submit(ask(user("a", short, "?")))
    failed = outcome(rest(core))
    assert isinstance(failed, AnswerFailed)
    assert (failed.message_index, failed.part_index) == (0, 1)
    assert "a recording that is held, got 'short'" in failed.message
    core.submit(CloseSession("s"))
    rest(core)
    assert core.stats()["recordings"] == core.stats()["recording_bytes"] == 0


def test_a_recording_that_does_not_fit_is_named(pair: tuple[Path, Any]) -> None:
    core = Watched(pair[0], HELD).core
    core.submit(HoldRecording("s", "m", "endless", np.zeros(60 * SAMPLE_RATE, np.float32)))
    core.submit(ask(user(short, AudioPart("endless"), "?")))
    failed = outcome(rest(core))
    assert isinstance(failed, AnswerFailed) and failed.code == "context_length_exceeded"
    assert (failed.message_index, failed.part_index) == (0, 1)
    assert "got 780 tokens where" in failed.message


def test_log_mel_is_that_of_the_whole_recording() -> None:
    """A quiet beginning, whose floor the loud end decides."""
    dims = AudioDims(20, 24, 2, 2, 40, 6, 32, chunk_frames=100, window_frames=200)
    rng = np.random.default_rng(0)
    samples = rng.normal(0.0, 1.0, 5 * SAMPLE_RATE).astype(np.float32)
    samples[: 4 * SAMPLE_RATE] *= 1e-6
    windows = WindowedEars(dims).windows(samples)
    whole = log_mel(torch.from_numpy(samples)[None], mel_filters(20))[0].numpy()
    assert len(windows) == 3
    joined = np.concatenate([window.features for window in windows], axis=1)
    np.testing.assert_allclose(joined, whole, atol=1e-5)


@pytest.mark.parametrize("count", [1, 159, 399, 400, 16_000, 16_001, 64_123])
def test_windows_have_as_many_tokens_as_were_foretold(count: int) -> None:
    dims = AudioDims(20, 24, 2, 2, 40, 6, 32, chunk_frames=100, window_frames=200)
    ears = WindowedEars(dims)
    windows = ears.windows(np.ones(count, np.float32))
    assert sum(window.num_tokens for window in windows) == ears.num_tokens(count) > 0
    assert all(window.is_final for window in windows)
