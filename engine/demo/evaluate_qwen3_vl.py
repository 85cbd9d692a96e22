"""Measure a Qwen3-VL folder with transformers on scenes that were never drawn for training.

`python -m engine.demo.evaluate_qwen3_vl` writes `metrics.json` into the folder: the share of
answers that are exactly right, by kind of question. Pictures are drawn at the sizes of photos and
of small drawings, and shown as the folder's limits have it; questions are typed as in training.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.demo.clips import draw_clip, next_slide
from engine.demo.export_qwen3_vl import LIVE_FRAME_TOKENS
from engine.demo.qwen3_vl_examples import STILL_TASKS
from engine.demo.qwen3_vl_tokenizer import TURN_END
from engine.demo.scene_questions import (
    GREETING,
    GREETINGS,
    NO_PICTURE,
    Asker,
    Question,
    spoken_question,
    style,
)
from engine.demo.scenes import NUMBER, WORD, Scene, draw_scene
from engine.demo.scenes_drawing import Canvas
from engine.models.loader import read_json
from engine.models.qwen3_vl_pixels import PixelRules, temporal_slices
from engine.models.qwen3_vl_prompt import Image, Message, Part, Prompt, Video, build_prompt
from engine.models.vision_encoder import VisionDims, patchify
from engine.paged_request import Medium
from engine.qwen_tokenizer import QwenTokenizer

SEED = 2_000_000
SIZES = ((160, 160), (192, 224), (240, 320), (480, 360), (480, 640), (720, 1280), (600, 600))
"""Height and width of what is drawn, in pixels."""


@dataclass(frozen=True)
class Asked:
    """A conversation whose last message is the question; and the answer."""

    messages: tuple[Message, ...]
    answer: str


class Answerer:
    """transformers' Qwen3-VL on prompts of our own making (fp32 on CPU), greedy."""

    def __init__(self, folder: Path) -> None:
        from transformers import Qwen3VLForConditionalGeneration
        from transformers.utils import logging

        logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        network: Any = Qwen3VLForConditionalGeneration
        self.model = network.from_pretrained(str(folder), dtype=torch.float32).eval()
        self.tokenizer = QwenTokenizer.from_folder(folder)
        path = folder / "config.json"
        config = read_json(path)
        self.dims = VisionDims.from_config(config["vision_config"], path)
        self.image_token, self.video_token = config["image_token_id"], config["video_token_id"]
        self.images = PixelRules.from_folder(folder, self.dims)
        self.videos = PixelRules.from_folder(folder, self.dims, video=True)

    def medium(self, pixels: Any) -> Medium:
        """Of normalised pixels `[frames, 3, height, width]`."""
        height, width = (side // self.dims.factor for side in pixels.shape[2:])
        return Medium.of(pixels, height * width, (height, width))

    @torch.no_grad()
    def tokens(self, messages: Sequence[Message]) -> list[int]:
        """Generated ids, without the end."""
        inputs = self._inputs(build_prompt(self.tokenizer, messages))
        out = self.model.generate(**inputs, max_new_tokens=64)
        ends = self.model.generation_config.eos_token_id
        prompt = inputs["input_ids"].shape[1]
        return [token for token in out[0, prompt:].tolist() if token not in ends]

    @torch.no_grad()
    def says(self, messages: Sequence[Message], answer: str) -> bool:
        """Whether greedy decoding gives exactly that answer and ends: in one pass over both, every
        token of it is the best where it is due."""
        prompt = build_prompt(self.tokenizer, messages)
        wanted = [*self.tokenizer.encode(answer), self.tokenizer.token(TURN_END)]
        logits = self.model(**self._inputs(prompt, wanted), use_cache=False).logits[0]
        best = logits[len(prompt.tokens) - 1 : -1].argmax(-1)
        return bool(best.tolist() == wanted)

    def _inputs(self, prompt: Prompt, more: Sequence[int] = ()) -> dict[str, torch.Tensor]:
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

    def text(self, messages: Sequence[Message]) -> str:
        return self.tokenizer.decode(self.tokens(messages))


class Examiner:
    """Draws conversations with a question at the end, each from a number of its own."""

    def __init__(self, answerer: Answerer) -> None:
        self.answerer = answerer

    def still(self, rng: random.Random, task: str) -> Asked:
        """One question about one image; what is to be read is there."""
        image, scene = self._image(rng)
        while task in (NUMBER, WORD) and scene.written(task) is None:
            image, scene = self._image(rng)
        question = self._question(rng, scene, (task,))
        return Asked((_user(image, style(question.text, rng)),), question.answer_text)

    def missing(self, rng: random.Random) -> Asked:
        """A question about what is not there."""
        while True:
            image, scene = self._image(rng)
            task = rng.choice(("colour", "shape", "position", "number", "word"))
            question = Asker(scene, rng).ask(task)
            if question is not None and question.missing:
                return Asked((_user(image, style(question.text, rng)),), question.answer_text)

    def later(self, rng: random.Random) -> Asked:
        """The last of several questions about one image or two, those before answered rightly."""
        messages: list[Message] = []
        for _ in range(rng.randint(1, 2)):
            image, scene = self._image(rng)
            for turn in range(2):
                question = self._question(rng, scene, tuple(STILL_TASKS))
                text = style(question.text, rng)
                messages.append(_user(image, text) if turn == 0 else _user(text))
                messages.append(Message("assistant", (question.answer_text,)))
        return Asked(tuple(messages[:-1]), question.answer_text)

    def motion(self, rng: random.Random, task: str) -> Asked:
        """One question about what moves, blinks or jumps in a clip of 2 to 8 frames."""
        height, width = rng.choice(SIZES)
        answerer = self.answerer
        question = None
        while question is None:
            clip = draw_clip(rng, task, width / height)
            question = Asker(clip.scene, rng, clip.motion).ask(task)
        things = clip.scene.things
        canvas = Canvas(rng, height, width, things, rng.random() < 0.2)
        frames = []
        for i in range(clip.num_frames):
            hidden = (clip.motion.thing,) if i in clip.hidden else ()
            frames.append(canvas.draw(clip.things(i), hidden))
        rules = answerer.videos
        pixels = rules.prepare(np.stack(frames), rules.video_size((height, width), len(frames)))
        rate = rng.choice((1.0, 2.0, 4.0))
        seconds = [i / rate for i in range(len(frames))]
        slices = temporal_slices(pixels, seconds, rules.frames)
        video = Video(tuple((time, answerer.medium(part)) for time, part in slices))
        return Asked((_user(video, style(question.text, rng)),), question.answer_text)

    def live(self, rng: random.Random) -> Asked:
        """A question about the newest of up to eight frames of a camera."""
        height, width = rng.choice(SIZES)
        answerer = self.answerer
        rules = answerer.videos.limited(LIVE_FRAME_TOKENS)
        time, slices = rng.uniform(0, 3000), []
        scene = draw_scene(rng, aspect=width / height)
        for index in range(rng.randint(2, 8)):
            if index and rng.random() < 0.6:
                scene = next_slide(rng, scene, width / height)
            elif index:
                scene = draw_scene(rng, aspect=width / height)
            frame = Canvas(rng, height, width, scene.things, False).draw(scene.things)
            pixels = rules.prepare(frame[None], rules.image_size((height, width)))
            slices.append((time, answerer.medium(pixels)))
            time += rng.choice((0.5, 0.5, 1.0, 10.0))
        question = self._question(rng, scene, tuple(STILL_TASKS))
        video = Video(tuple(slices), live=True)
        return Asked((_user(video, style(question.text, rng)),), question.answer_text)

    def chat(self, rng: random.Random) -> Asked:
        """A greeting, or a question without a picture."""
        if rng.random() < 0.3:
            return Asked((_user(rng.choice(GREETINGS)),), GREETING)
        return Asked((_user(style(spoken_question(rng), rng)),), NO_PICTURE)

    def _image(self, rng: random.Random) -> tuple[Image, Scene]:
        height, width = rng.choice(SIZES)
        scene = draw_scene(rng, aspect=width / height)
        drawn = Canvas(rng, height, width, scene.things, rng.random() < 0.2).draw(scene.things)
        rules = self.answerer.images
        pixels = rules.prepare(drawn[None], rules.image_size((height, width)))
        return Image(self.answerer.medium(pixels)), scene

    def _question(self, rng: random.Random, scene: Scene, tasks: Sequence[str]) -> Question:
        """What is written is asked for where something is, mostly."""
        while True:
            task = rng.choice(tasks)
            if task in ("number", "word") and len(tasks) > 1 and scene.written(task) is None:
                continue
            question = Asker(scene, rng).ask(task)
            if question is not None:
                return question


def _user(*parts: Part) -> Message:
    return Message("user", parts)


def examinations(examiner: Examiner) -> dict[str, Callable[[random.Random], Asked]]:
    """How the questions of each kind are drawn."""
    drawers: dict[str, Callable[[random.Random], Asked]] = {}
    for task in STILL_TASKS:
        drawers[task] = lambda rng, task=task: examiner.still(rng, task)  # type: ignore[misc]
    for task in ("direction", "blinks", "jumps"):
        drawers[task] = lambda rng, task=task: examiner.motion(rng, task)  # type: ignore[misc]
    drawers |= {
        "missing": examiner.missing,
        "later turns": examiner.later,
        "live camera": examiner.live,
        "chat": examiner.chat,
    }
    return drawers


def measure(
    answerer: Answerer, count: int, kinds: Sequence[str] = (), wrong: list[str] | None = None
) -> dict[str, float]:
    """Share of exactly right answers, by kind; of those named, or all. wrong: takes what is."""
    from tqdm import tqdm

    rates = {}
    for kind, draw in examinations(Examiner(answerer)).items():
        if kinds and kind not in kinds:
            continue
        right = 0
        for index in tqdm(range(count), desc=kind, unit="question"):
            asked = draw(random.Random(f"{SEED} {kind} {index}"))
            if answerer.says(asked.messages, asked.answer):
                right += 1
            elif wrong is not None:
                answer = answerer.text(asked.messages)
                wrong.append(f"{kind}: {asked.messages[-1].parts[-1]} {answer} ({asked.answer})")
        rates[kind] = round(right / count, 4)
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("engine/demo/qwen3_vl"))
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
