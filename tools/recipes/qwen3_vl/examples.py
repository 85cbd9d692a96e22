"""Conversations about drawn pictures and clips, with targets and guides for attention.

One example is a whole conversation: several questions about a picture, then perhaps another
picture. All pictures of a batch have one size, so that they are one tensor. Prompts have the form
of `engine.chat.prompt`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.checkpoints.qwen_vocabulary import TURN_END, TURN_START
from tools.recipes.qwen3_vl.pictures import Picture, PictureMaker
from tools.recipes.qwen3_vl.tokenizer import (
    IMAGE_PAD,
    VIDEO_PAD,
    VISION_END,
    VISION_START,
)
from tools.recipes.scenes.clips import Clip, draw_clip, next_slide
from tools.recipes.scenes.questions import (
    GREETING,
    GREETINGS,
    NO_PICTURE,
    SYSTEMS,
    Asker,
    Piece,
    Question,
    mentions,
    spoken_question,
    style,
)
from tools.recipes.scenes.scenes import MOST_SHAPES, NUMBER, Scene, draw_scene
from tools.recipes.whisper.examples import IGNORE

STILL_TASKS = {
    "colour": 1.0,
    "shape": 1.0,
    "count": 2.0,
    "presence": 1.0,
    "number": 1.3,
    "word": 1.3,
    "position": 1.2,
    "description": 1.3,
}
RARE = 0.2
"""Weight of asking for a number or a word that is not there, beside one that is."""


@dataclass
class Mix:
    """What is drawn. writing: chance of a number or word. tasks: weights of questions."""

    most_shapes: int = MOST_SHAPES
    writing: float = 0.6
    tasks: dict[str, float] = field(default_factory=lambda: dict(STILL_TASKS))
    clips: float = 0.2
    """Chance that a picture without words is of a clip."""


@dataclass(frozen=True)
class Guide:
    """A place in the prompt whose attention is told. asked: of the layer that looks for what a
    question names, not of that which answers. heads: which of the guided two. targets: places.
    even: each of them gets the same share; else they get all together."""

    asked: bool
    heads: tuple[int, ...]
    row: int
    targets: tuple[int, ...]
    even: bool = False


@dataclass
class Example:
    """tokens and targets of the same length; targets[i] is the token behind tokens[i], or IGNORE.
    starts: of the visual tokens of each picture. tasks: (task, row of the first token that is
    predicted, answer) of each question."""

    tokens: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    guides: list[Guide] = field(default_factory=list)
    tasks: list[tuple[str, int, str]] = field(default_factory=list)


class ConversationMaker:
    """Draws examples by lot. Deterministic by the generator's state."""

    def __init__(self, tokenizer: QwenTokenizer, rng: random.Random, mix: Mix) -> None:
        self.tokenizer, self.rng, self.mix = tokenizer, rng, mix
        self._encode = lru_cache(maxsize=50_000)(lambda text: tuple(tokenizer.encode(text)))

    def pictures(self, height: int, width: int) -> Example:
        """An image or two slices of a clip, and no word about them."""
        maker = PictureMaker(self.rng, height, width)
        if self.rng.random() >= self.mix.clips:
            mix = self.mix
            scene = draw_scene(self.rng, mix.most_shapes, mix.writing, maker.aspect)
            return Example(pictures=[maker.image(scene)])
        clip = self._draw_clip(maker.aspect, 0)
        slices = maker.clip(clip, doubled=False)
        return Example(pictures=self.rng.sample(slices, min(2, len(slices))))

    def images(self, height: int, width: int, turns: int) -> Example:
        """A conversation of so many questions about one to three images."""
        rng = self.rng
        example = self._begin()
        maker = PictureMaker(rng, height, width)
        if rng.random() < 0.06:
            self._without_picture(example)
        count = 1 if rng.random() < 0.75 else rng.choice((2, 2, 3))
        scene = None
        for index in range(count):
            if scene is not None and rng.random() < 0.3:
                scene = next_slide(rng, scene, maker.aspect)
            else:
                scene = draw_scene(rng, self.mix.most_shapes, self.mix.writing, maker.aspect)
            picture = maker.image(scene)
            asked = self._questions(scene, max(1, turns // count))
            for turn, question in enumerate(asked):
                self._turn_start(example, "user")
                behind = turn == 0 and rng.random() < 0.1
                self._ask(example, question, [picture] if turn == 0 else [], behind)
                self._answer(example, question)
            if index == 0 and rng.random() < 0.03:
                self._greeting(example)
        return example

    def clip(self, height: int, width: int, frames: int, turns: int) -> Example:
        """A conversation about one clip, in pairs of frames."""
        rng = self.rng
        maker = PictureMaker(rng, height, width)
        clip = self._draw_clip(maker.aspect, frames)
        pictures = maker.clip(clip, doubled=False)
        rate = rng.choice((1.0, 2.0, 2.0, 2.0, 3.0, 4.0, 5.0, 10.0, rng.uniform(0.5, 30)))
        last = frames - 1
        times = [(i + min(i + 1, last)) / 2 / rate for i in range(0, frames, 2)]
        example = self._begin()
        live = rng.random() < 0.1
        for turn, question in enumerate(self._clip_questions(clip, turns)):
            self._turn_start(example, "user")
            if turn == 0:
                self._video(example, pictures, times, live)
            self._ask(example, question)
            self._answer(example, question, clip)
        return example

    def live(self, height: int, width: int, most: int, turns: int) -> Example:
        """A camera: frames with times, now and then a question about what is there now."""
        rng = self.rng
        maker = PictureMaker(rng, height, width)
        example = self._begin()
        time = rng.choice((0.0, rng.uniform(0, 60), rng.uniform(0, 5000)))
        step = rng.choice((0.2, 0.5, 0.5, 1.0, 2.0))
        if rng.random() < 0.25:
            clip = self._draw_clip(maker.aspect, min(most, rng.randint(2, 8)))
            pictures = maker.clip(clip, doubled=True)
            times = [time + i * step for i in range(len(pictures))]
            for turn, question in enumerate(self._clip_questions(clip, turns)):
                self._turn_start(example, "user")
                if turn == 0:
                    self._video(example, pictures, times, True)
                self._ask(example, question)
                self._answer(example, question, clip)
            return example
        scene: Scene | None = None
        held = asked = 0
        while held < most and asked < turns:
            fresh = min(most - held, rng.choice((1, 1, 2, 2, 3, 4)))
            shown, times = [], []
            for _ in range(fresh):
                if scene is None or rng.random() < 0.4:
                    scene = draw_scene(rng, self.mix.most_shapes, self.mix.writing, maker.aspect)
                else:
                    scene = next_slide(rng, scene, maker.aspect)
                shown.append(maker.image(scene))
                times.append(time)
                time += step if rng.random() < 0.8 else rng.uniform(0, 100)
            assert scene is not None
            held += fresh
            questions = self._questions(scene, min(turns - asked, rng.choice((1, 2, 3))))
            for turn, question in enumerate(questions):
                self._turn_start(example, "user")
                if turn == 0:
                    self._video(example, shown, times, True)
                self._ask(example, question)
                self._answer(example, question)
            asked += len(questions)
        return example

    def _draw_clip(self, aspect: float, frames: int) -> Clip:
        kind = self.rng.choice(("direction", "direction", "blinks", "jumps"))
        return draw_clip(self.rng, kind, aspect, min(3, self.mix.most_shapes), frames)

    def _clip_questions(self, clip: Clip, turns: int) -> list[Question]:
        """One about what moves, and others: asked again, it would be answered from the text."""
        asker = Asker(clip.scene, self.rng, clip.motion)
        question = asker.ask(clip.motion.kind)
        drawn = self._questions(clip.scene, turns - (question is not None))
        if question is not None:
            drawn.insert(
                0 if self.rng.random() < 0.7 else self.rng.randint(0, len(drawn)), question
            )
        return drawn

    def _questions(self, scene: Scene, count: int) -> list[Question]:
        weights = {
            task: weight * (RARE if task in ("number", "word") and not scene.written(task) else 1)
            for task, weight in self.mix.tasks.items()
        }
        asker = Asker(scene, self.rng)
        drawn: list[Question] = []
        while len(drawn) < count:
            task = self.rng.choices(list(weights), list(weights.values()))[0]
            question = asker.ask(task)
            if question is not None:
                drawn.append(question)
        return drawn

    def _begin(self) -> Example:
        example = Example()
        if self.rng.random() < 0.2:
            self._turn_start(example, "system")
            self._text(example, self.rng.choice(SYSTEMS))
            self._turn_end(example)
        return example

    def _without_picture(self, example: Example) -> None:
        if self.rng.random() < 0.4:
            self._greeting(example)
            return
        text = style(spoken_question(self.rng), self.rng)
        self._plain(example, text, NO_PICTURE, "no picture")

    def _greeting(self, example: Example) -> None:
        text = self.rng.choice(GREETINGS)
        self._plain(
            example, text.lower() if self.rng.random() < 0.4 else text, GREETING, "greeting"
        )

    def _plain(self, example: Example, text: str, answer: str, task: str) -> None:
        self._turn_start(example, "user")
        self._text(example, text)
        self._turn_end(example)
        self._answer(example, Question(task, text, (Piece(answer),)), guided=False)

    def _turn_start(self, example: Example, role: str) -> None:
        self._special(example, TURN_START)
        self._text(example, f"{role}\n")

    def _turn_end(self, example: Example) -> None:
        self._special(example, TURN_END)
        self._text(example, "\n")

    def _special(self, example: Example, spelling: str) -> None:
        self._put(example, [self.tokenizer.token(spelling)])

    def _text(self, example: Example, text: str) -> None:
        self._put(example, self._encode(text))

    def _put(self, example: Example, ids: Sequence[int]) -> None:
        example.tokens += ids
        example.targets += [IGNORE] * len(ids)

    def _show(self, example: Example, picture: Picture, pad: str) -> None:
        self._special(example, VISION_START)
        example.pictures.append(picture)
        example.starts.append(len(example.tokens))
        self._put(example, [self.tokenizer.token(pad)] * len(picture.token_labels))
        self._special(example, VISION_END)

    def _video(
        self, example: Example, pictures: list[Picture], times: list[float], live: bool
    ) -> None:
        if not live:
            self._special(example, VISION_START)
        for time, picture in zip(times, pictures, strict=True):
            self._text(example, f"<{time:.1f} seconds>")
            self._show(example, picture, VIDEO_PAD)
        if not live:
            self._special(example, VISION_END)

    def _ask(
        self,
        example: Example,
        question: Question,
        images: Sequence[Picture] = (),
        behind: bool = False,
    ) -> None:
        """Writes a question, with images before it or behind; guides its nouns to what they name,
        if that has been seen."""
        if not behind:
            for image in images:
                self._show(example, image, IMAGE_PAD)
        text = style(question.text, self.rng)
        end = 0
        current = example.pictures[-1].things if example.pictures else ()
        for start, stop, things in mentions(text, current):
            start -= text[:start].endswith(" ")
            self._text(example, text[end:start])
            rows = range(
                len(example.tokens), len(example.tokens) + len(self._encode(text[start:stop]))
            )
            self._text(example, text[start:stop])
            end = stop
            if not behind:
                targets = self._places(example, things)
                example.guides += [Guide(True, (0, 1), row, targets) for row in rows]
        self._text(example, text[end:])
        if behind:
            for image in images:
                self._show(example, image, IMAGE_PAD)
        self._turn_end(example)

    def _places(self, example: Example, things: Sequence[int]) -> tuple[int, ...]:
        """Of tokens of things in the last picture; of none: the mark before the picture."""
        start, picture = example.starts[-1], example.pictures[-1]
        found = [start + int(i) for thing in things for i in picture.cover[thing]]
        return tuple(found) or (start - 1,)

    def _middles(self, example: Example, things: Sequence[int]) -> tuple[int, ...]:
        """The mark before the picture, and one token of each thing. If attention is even there,
        the mark's share tells how many things there are, whatever their sizes."""
        start, picture = example.starts[-1], example.pictures[-1]
        return (start - 1, *sorted({start + picture.middles[thing] for thing in things}))

    def _digits(self, example: Example, things: Sequence[int]) -> list[tuple[int, ...]]:
        """Of tokens of each digit, if it is a number that an answer's last tokens spell."""
        start, picture = example.starts[-1], example.pictures[-1]
        if [picture.things[i].kind for i in things] != [NUMBER]:
            return []
        return [tuple(start + int(i) for i in places) for places in picture.digits]

    def _answer(
        self,
        example: Example,
        question: Question,
        clip: Clip | None = None,
        guided: bool = True,
    ) -> None:
        self._turn_start(example, "assistant")
        first = len(example.tokens) - 1
        example.tasks.append((question.task, first, question.answer_text))
        motion = clip is not None and question.task == clip.motion.kind
        for piece in question.answer:
            ids = self._encode(piece.text)
            rows = range(len(example.tokens) - 1, len(example.tokens) - 1 + len(ids))
            self._put(example, ids)
            example.targets[rows.start : rows.stop] = ids
            if not guided:
                continue
            if motion and clip is not None:
                for row in rows:
                    example.guides += self._motion_guides(example, clip, piece.things[0], row)
            elif piece.things or question.missing or question.task in ("count", "presence"):
                if question.task == "count":
                    middles = self._middles(example, piece.things)
                    example.guides += [Guide(False, (0, 1), row, middles, True) for row in rows]
                    continue
                targets = [self._places(example, piece.things)] * len(rows)
                digits = self._digits(example, piece.things)
                if digits:
                    targets[-len(digits) :] = digits
                pairs = zip(rows, targets, strict=True)
                example.guides += [Guide(False, (0, 1), row, found) for row, found in pairs]
        example.targets[len(example.tokens) - 1] = self.tokenizer.token(TURN_END)
        self._turn_end(example)

    def _motion_guides(self, example: Example, clip: Clip, thing: int, row: int) -> list[Guide]:
        """One head sees where a thing was at first, or all that it did; the other, where it is."""
        slices = len(example.pictures)
        per = [
            tuple(example.starts[i] + int(t) for t in example.pictures[i].cover[thing])
            for i in range(slices)
        ]
        if clip.motion.kind == "direction":
            return [Guide(False, (0,), row, per[0]), Guide(False, (1,), row, per[-1])]
        doubled = slices == clip.num_frames
        busy = clip.hidden | {i for i, move in enumerate(clip.moved) if move != (0.0, 0.0)}
        events: list[int] = []
        for i in range(slices):
            frames = {i} if doubled else {2 * i, 2 * i + 1}
            if thing == clip.motion.thing and frames & busy:
                events += per[i]
        everywhere = tuple(place for places in per for place in places)
        nothing = (example.starts[0] - 1,)
        return [
            Guide(False, (0,), row, tuple(events) or nothing),
            Guide(False, (1,), row, everywhere),
        ]
