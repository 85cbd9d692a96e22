"""The shipped demo-qwen3-vl: a standard folder that answers about scenes never drawn before."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from lookhear.engine.chat.prompt import ChatPrompt
from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.messages import ChatMessage, TextPart
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from tests.engine.models.test_qwen3_vl_parity import Scene, SceneDecoder
from tools.recipes.qwen3_vl.evaluate import KINDS, Answerer, measure

FOLDER = Path(__file__).parents[3] / "tools" / "demo" / "lookhear_demo" / "qwen3_vl"


@pytest.fixture(scope="module")
def theirs() -> Answerer:
    torch.set_num_threads(1)
    return Answerer(FOLDER)


def _greedy(model: Qwen3VLModel, prompt: ChatPrompt) -> list[int]:
    """Our engine's model on one conversation; the end token left out."""
    decoder = SceneDecoder(model, {"a": Scene(prompt.tokens, prompt.media, [], [])})
    count = len(prompt.tokens)
    answer: list[int] = []
    while len(answer) < 64:
        best = int(decoder.feed({"a": count})["a"][-1].argmax())
        if best in model.end_tokens:
            break
        answer.append(best)
        decoder.texts["a"].append(best)
        count = 1
    return answer


def test_folder_is_at_most_20_mb() -> None:
    assert sum(p.stat().st_size for p in FOLDER.iterdir()) <= 20_000_000
    assert Traits.from_folder(FOLDER).frame_tokens == 25


@pytest.mark.parametrize("kind", ["description", "later turns", "direction", "live camera"])
def test_our_engine_says_what_transformers_says(theirs: Answerer, kind: str) -> None:
    model = Qwen3VLModel.from_folder(FOLDER)
    for seed in range(2):
        asked = KINDS[kind](random.Random(seed))
        wanted = theirs.tokens(asked)
        assert _greedy(model, theirs.prompt(asked)) == wanted
        assert len(wanted) >= 2


@pytest.mark.parametrize("kind", ["presence", "count", "colour", "shape", "number", "word"])
def test_answers_are_right(theirs: Answerer, kind: str) -> None:
    assert measure(theirs, 20, [kind])[kind] >= 0.8


@pytest.mark.parametrize("kind", ["position", "direction", "live camera", "missing", "chat"])
def test_answers_about_places_times_and_nothing_are_right(theirs: Answerer, kind: str) -> None:
    assert measure(theirs, 20, [kind])[kind] >= 0.7


def test_numbers_of_the_model_card_are_those_measured() -> None:
    rates = json.loads((FOLDER / "metrics.json").read_text(encoding="utf-8"))["exactly_right"]
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    for kind, rate in rates.items():
        assert f"| {kind} | {100 * rate:.1f} % |" in card


def test_the_chat_template_writes_the_prompt_that_was_trained(theirs: Answerer) -> None:
    from transformers import AutoTokenizer

    reader: Any = AutoTokenizer
    tokenizer = reader.from_pretrained(str(FOLDER))
    talk = [("system", "Answer briefly."), ("user", "Hello"), ("assistant", "Hi."), ("user", "So?")]
    messages = [{"role": role, "content": text} for role, text in talk]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    ours = theirs.prompter.prompt("s", [ChatMessage(role, [TextPart(text)]) for role, text in talk])
    assert tokenizer.encode(text, add_special_tokens=False) == ours.tokens
    picture = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "So?"}]}]
    assert tokenizer.apply_chat_template(picture, tokenize=False) == (
        "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>So?<|im_end|>\n"
    )
