"""Measure a Qwen3-VL folder with transformers on scenes that were never drawn for training.

`python -m tools.recipes.qwen3_vl.evaluate` writes `metrics.json` into the folder: the share of
answers that are exactly right, by kind of question. Pictures are drawn at the sizes of photos and
of small drawings, and shown as the folder's limits have it; questions are typed as in training.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lookhear.engine.chat.pictures import PictureEncoder
from lookhear.engine.chat.pixels import PixelRules
from lookhear.engine.chat.prompt import ChatPrompt, ChatPrompter
from lookhear.engine.chat.template import ChatTemplate
from lookhear.engine.checkpoints.loader import read_json
from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.messages import ChatMessage, ImagePart, Part, TextPart, VideoPart
from lookhear.engine.models.vision_encoder import patchify
from lookhear.engine.models.vision_weights import VisionDims
from lookhear.engine.paged.request import Medium
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.checkpoints.qwen_vocabulary import TURN_END
from tools.recipes.qwen3_vl.examples import STILL_TASKS
from tools.recipes.scenes.clips import draw_clip, next_slide
from tools.recipes.scenes.drawing import Canvas
from tools.recipes.scenes.questions import (
    GREETING,
    GREETINGS,
    NO_PICTURE,
    Asker,
    Question,
    spoken_question,
    style,
)
from tools.recipes.scenes.scenes import NUMBER, WORD, Scene, draw_scene

SEED = 2_000_000
SIZES = ((160, 160), (192, 224), (240, 320), (480, 360), (480, 640), (720, 1280), (600, 600))
"""Height and width of what is drawn, in pixels."""
SESSION = "examination"


@dataclass(frozen=True)
class Asked:
    """A conversation whose last message is the question; its pictures [height, width, 3] by name;
    and the answer."""

    messages: list[ChatMessage]
    pictures: dict[str, NDArray[np.uint8]]
    answer: str


class Answerer:
    """transformers' Qwen3-VL (fp32 on CPU), greedy, on the prompts that our engine makes."""

    def __init__(self, folder: Path) -> None:
        from transformers import Qwen3VLForConditionalGeneration
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        network: Any = Qwen3VLForConditionalGeneration
        self.model = network.from_pretrained(str(folder), dtype=torch.float32).eval()
        self.tokenizer = QwenTokenizer.from_folder(folder)
        path = folder / "config.json"
        config = read_json(path)
        self.dims = VisionDims.from_config(config["vision_config"], path)
        self.image_token, self.video_token = config["image_token_id"], config["video_token_id"]
        pictures = PictureEncoder(
            self._medium,
            PixelRules.from_folder(folder, self.dims),
            PixelRules.from_folder(folder, self.dims, video=True),
            Traits.from_folder(folder).frame_tokens,
        )
        context = config["text_config"]["max_position_embeddings"]
        template = ChatTemplate.from_folder(folder)
        self.prompter = ChatPrompter(self.tokenizer, template, pictures, context)
        self.pictures = pictures

    def _medium(self, pixels: Any) -> Medium:
        """Of normalised pixels `[frames, 3, height, width]`."""
        height, width = (side // self.dims.factor for side in pixels.shape[2:])
        return Medium.of(pixels, height * width, (height, width))

    def prompt(self, asked: Asked) -> ChatPrompt:
        """The question as tokens, with the pixels that they stand for."""
        for name, pixels in asked.pictures.items():
            self.pictures.hold(SESSION, name, pixels)
        try:
            return self.prompter.prompt(SESSION, asked.messages)
        finally:
            self.pictures.forget(SESSION)

    @torch.no_grad()
    def tokens(self, asked: Asked) -> list[int]:
        """Generated ids, without the end."""
        inputs = self._inputs(self.prompt(asked))
        out = self.model.generate(**inputs, max_new_tokens=64)
        ends = self.model.generation_config.eos_token_id
        prompt = inputs["input_ids"].shape[1]
        return [token for token in out[0, prompt:].tolist() if token not in ends]

    @torch.no_grad()
    def is_right(self, asked: Asked) -> bool:
        """Whether greedy decoding gives exactly that answer and ends: in one pass over both, every
        token of it is the best where it is due."""
        prompt = self.prompt(asked)
        wanted = [*self.tokenizer.encode(asked.answer), self.tokenizer.token(TURN_END)]
        logits = self.model(**self._inputs(prompt, wanted), use_cache=False).logits[0]
        best = logits[len(prompt.tokens) - 1 : -1].argmax(-1)
        return bool(best.tolist() == wanted)

    def _inputs(self, prompt: ChatPrompt, more: Sequence[int] = ()) -> dict[str, torch.Tensor]:
        """What transformers' model takes; more: tokens behind the prompt."""
        ids = torch.tensor([[*prompt.tokens, *more]])
        kinds = torch.zeros_like(ids)
        kinds[ids == self.image_token], kinds[ids == self.video_token] = 1, 2
        inputs = {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "mm_token_type_ids": kinds,
        }
        for token, values, grid in (
            (self.image_token, "pixel_values", "image_grid_thw"),
            (self.video_token, "pixel_values_videos", "video_grid_thw"),
        ):
            media = [medium for start, medium in prompt.media if prompt.tokens[start] == token]
            if media:
                pixels = [torch.from_numpy(medium.features) for medium in media]
                inputs[values] = torch.cat([patchify(each, self.dims) for each in pixels])
                sides = [[side // self.dims.patch for side in each.shape[2:]] for each in pixels]
                inputs[grid] = torch.tensor([[1, *side] for side in sides])
        return inputs

    def text(self, asked: Asked) -> str:
        """The answer in words."""
        return self.tokenizer.decode(self.tokens(asked))


class Conversation:
    """One conversation while it is drawn."""

    def __init__(self) -> None:
        self._messages: list[ChatMessage] = []
        self._pictures: dict[str, NDArray[np.uint8]] = {}

    def hold(self, pixels: NDArray[np.uint8]) -> str:
        """The picture's name."""
        name = f"picture {len(self._pictures)}"
        self._pictures[name] = pixels
        return name

    def image(self, rng: random.Random) -> tuple[ImagePart, Scene]:
        """A picture by lot, held for the conversation, and its scene."""
        height, width = rng.choice(SIZES)
        scene = draw_scene(rng, aspect=width / height)
        drawn = Canvas(rng, height, width, scene.things, rng.random() < 0.2).draw(scene.things)
        return ImagePart(self.hold(drawn), "high"), scene

    def ask(self, *parts: Part) -> None:
        """Adds a turn of the user's."""
        self._messages.append(ChatMessage("user", list(parts)))

    def answer(self, text: str) -> None:
        """The right answer to a question that another one follows."""
        self._messages.append(ChatMessage("assistant", [TextPart(text)]))

    def asked(self, answer: str) -> Asked:
        """The conversation so far, and what is right."""
        return Asked(self._messages, self._pictures, answer)


def ask_still(rng: random.Random, task: str) -> Asked:
    """One question about one image; what is to be read is there."""
    conversation = Conversation()
    image, scene = conversation.image(rng)
    while task in (NUMBER, WORD) and scene.written(task) is None:
        conversation = Conversation()
        image, scene = conversation.image(rng)
    question = _question(rng, scene, (task,))
    conversation.ask(image, _typed(question.text, rng))
    return conversation.asked(question.answer_text)


def ask_missing(rng: random.Random) -> Asked:
    """A question about what is not there."""
    while True:
        conversation = Conversation()
        image, scene = conversation.image(rng)
        task = rng.choice(("colour", "shape", "position", "number", "word"))
        question = Asker(scene, rng).ask(task)
        if question is not None and question.missing:
            conversation.ask(image, _typed(question.text, rng))
            return conversation.asked(question.answer_text)


def ask_later(rng: random.Random) -> Asked:
    """The last of several questions about one image or two, those before answered rightly."""
    conversation = Conversation()
    answer = None
    for _ in range(rng.randint(1, 2)):
        image, scene = conversation.image(rng)
        for turn in range(2):
            if answer is not None:
                conversation.answer(answer)
            question = _question(rng, scene, tuple(STILL_TASKS))
            text = _typed(question.text, rng)
            conversation.ask(*([image, text] if turn == 0 else [text]))
            answer = question.answer_text
    assert answer is not None
    return conversation.asked(answer)


def ask_motion(rng: random.Random, task: str) -> Asked:
    """One question about what moves, blinks or jumps in a clip of 2 to 8 frames."""
    conversation = Conversation()
    height, width = rng.choice(SIZES)
    question = None
    while question is None:
        clip = draw_clip(rng, task, width / height)
        question = Asker(clip.scene, rng, clip.motion).ask(task)
    things = clip.scene.things
    canvas = Canvas(rng, height, width, things, rng.random() < 0.2)
    frames = []
    for i in range(clip.num_frames):
        hidden = (clip.motion.thing,) if i in clip.hidden else ()
        frames.append(conversation.hold(canvas.draw(clip.things(i), hidden)))
    rate = rng.choice((1.0, 2.0, 4.0))
    video = VideoPart(frames, [i / rate for i in range(len(frames))])
    conversation.ask(video, _typed(question.text, rng))
    return conversation.asked(question.answer_text)


def ask_live(rng: random.Random) -> Asked:
    """A question about the newest of up to eight frames of a camera."""
    conversation = Conversation()
    height, width = rng.choice(SIZES)
    time, frames, seconds = rng.uniform(0, 3000), [], []
    scene = draw_scene(rng, aspect=width / height)
    for index in range(rng.randint(2, 8)):
        if index and rng.random() < 0.6:
            scene = next_slide(rng, scene, width / height)
        elif index:
            scene = draw_scene(rng, aspect=width / height)
        drawn = Canvas(rng, height, width, scene.things, False).draw(scene.things)
        frames.append(conversation.hold(drawn))
        seconds.append(time)
        time += rng.choice((0.5, 0.5, 1.0, 10.0))
    question = _question(rng, scene, tuple(STILL_TASKS))
    conversation.ask(VideoPart(frames, seconds, live=True), _typed(question.text, rng))
    return conversation.asked(question.answer_text)


def ask_chat(rng: random.Random) -> Asked:
    """A greeting, or a question without a picture."""
    conversation = Conversation()
    if rng.random() < 0.3:
        conversation.ask(TextPart(rng.choice(GREETINGS)))
        return conversation.asked(GREETING)
    conversation.ask(_typed(spoken_question(rng), rng))
    return conversation.asked(NO_PICTURE)


def _question(rng: random.Random, scene: Scene, tasks: Sequence[str]) -> Question:
    """What is written is asked for where something is, mostly."""
    while True:
        task = rng.choice(tasks)
        if task in ("number", "word") and len(tasks) > 1 and scene.written(task) is None:
            continue
        question = Asker(scene, rng).ask(task)
        if question is not None:
            return question


def _typed(text: str, rng: random.Random) -> TextPart:
    return TextPart(style(text, rng))


KINDS: dict[str, Callable[[random.Random], Asked]] = {
    **{task: partial(ask_still, task=task) for task in STILL_TASKS},
    **{task: partial(ask_motion, task=task) for task in ("direction", "blinks", "jumps")},
    "missing": ask_missing,
    "later turns": ask_later,
    "live camera": ask_live,
    "chat": ask_chat,
}
"""How the questions of each kind are drawn, each from a number of its own."""


def measure(
    answerer: Answerer, count: int, kinds: Sequence[str] = (), wrong: list[str] | None = None
) -> dict[str, float]:
    """Share of exactly right answers, by kind; of those named, or all. wrong: takes what is."""
    from tqdm import tqdm

    rates = {}
    for kind, draw in KINDS.items():
        if kinds and kind not in kinds:
            continue
        right = 0
        for index in tqdm(range(count), desc=kind, unit="question"):
            asked = draw(random.Random(f"{SEED} {kind} {index}"))
            if answerer.is_right(asked):
                right += 1
            elif wrong is not None:
                (*_, question) = asked.messages[-1].parts
                wrong.append(f"{kind}: {question} {answerer.text(asked)} ({asked.answer})")
        rates[kind] = round(right / count, 4)
    return rates


def main() -> None:
    """Measures the folder, and writes its metrics.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("tools/demo/lookhear_demo/qwen3_vl"))
    parser.add_argument("--count", type=int, default=300, help="questions of each kind")
    parser.add_argument("--kinds", nargs="*", default=())
    parser.add_argument("--show", action="store_true", help="print wrong answers, write nothing")
    options = parser.parse_args()
    wrong: list[str] | None = [] if options.show else None
    rates = measure(Answerer(options.folder), options.count, options.kinds, wrong)
    print(json.dumps(rates, indent=2))
    if wrong is not None:
        print("\n".join(wrong))
        return
    report = {"questions_of_each_kind": options.count, "seed": SEED, "exactly_right": rates}
    (options.folder / "metrics.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
