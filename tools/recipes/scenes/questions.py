"""What is asked about a scene, and the one right answer to it. Questions never leave it open.

A question comes in several forms, and may be typed carelessly (no capital, no question mark); a
few of the forms are fit to be spoken, `SPOKEN_FORMS`. Every answer is a short sentence of one form.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tools.recipes.scenes.scenes import COLOURS, NUMBER, PLACES, SHAPES, WORD, Scene, Thing

COUNTS = ("None.", "One.", "Two.", "Three.", "Four.", "Five.")
TIMES = ("", "Once.", "Twice.", "Three times.")
WAYS = {"left": "To the left.", "right": "To the right.", "up": "Up.", "down": "Down."}
STILL = "It does not move."
GREETING = "Hello! Show me a picture and ask me about it."
NO_PICTURE = "I see no picture."
NOTHING = "I see nothing."
GREETINGS = ("Hello", "Hello!", "Hi", "Hi!", "Hello there!", "Good morning.", "Hey")
SYSTEMS = (
    "You are a helpful assistant.",
    "Answer the question about the picture.",
    "Answer briefly.",
)

FORMS: dict[str, tuple[str, ...]] = {
    "colour": (
        "What colour is the {shape}?",
        "What is the colour of the {shape}?",
        "Which colour is the {shape}?",
        "What's the colour of the {shape}?",
        "What colour does the {shape} have?",
    ),
    "shape": (
        "Which shape is {colour}?",
        "What shape is {colour}?",
        "What is {colour}?",
        "Which shape is the {colour} one?",
        "What's the {colour} shape?",
    ),
    "count": (
        "How many {things} are there?",
        "How many {things} do you see?",
        "How many {things} can you see?",
        "How many {things} are in the picture?",
        "Count the {things}.",
    ),
    "presence": (
        "Is there {a_thing}?",
        "Do you see {a_thing}?",
        "Can you see {a_thing}?",
        "Is there {a_thing} in the picture?",
    ),
    "number": (
        "What number do you see?",
        "Which number do you see?",
        "What number is there?",
        "What is the number?",
        "What number is in the picture?",
        "Read the number.",
    ),
    "word": (
        "What word do you see?",
        "Which word do you see?",
        "What does it say?",
        "What is written there?",
        "What is the word?",
        "Read the word.",
    ),
    "position": (
        "Where is the {thing}?",
        "Where do you see the {thing}?",
        "Where in the picture is the {thing}?",
        "Where's the {thing}?",
    ),
    "direction": (
        "Which way does the {thing} move?",
        "Which way is the {thing} moving?",
        "Where does the {thing} move?",
        "In which direction does the {thing} move?",
    ),
    "blinks": (
        "How many times does the {thing} blink?",
        "How often does the {thing} blink?",
        "How many times did the {thing} blink?",
    ),
    "jumps": (
        "How many times does the {thing} jump?",
        "How often does the {thing} jump?",
        "How many times did the {thing} jump?",
    ),
    "description": (
        "What do you see?",
        "Describe the picture.",
        "What is in the picture?",
        "What can you see?",
        "What's there?",
        "Describe what you see.",
    ),
}

SPOKEN_FORMS = (
    "What colour is the {shape}?",
    "Which shape is {colour}?",
    "How many shapes are there?",
    "How many {shapes} are there?",
    "How many {colour} shapes are there?",
    "Is there {a_thing}?",
    "Where is the {shape}?",
    "Where is the {colour} {shape}?",
    "What number do you see?",
    "What word do you see?",
    "What do you see?",
    "Which way does the {shape} move?",
    "How many times does the {shape} blink?",
    "How many times does the {shape} jump?",
)
"""The first of every kind of question, in words that are told apart by ear."""


def spoken_question(rng: random.Random) -> str:
    """A question as it is written down when somebody speaks it, e.g. "Is there a red circle?"."""
    form = rng.choice(SPOKEN_FORMS)
    colour, shape = rng.choice(COLOURS), rng.choice(SHAPES)
    thing = rng.choice((shape, f"{colour} {shape}"))
    words = {"shape": shape, "shapes": plural(shape), "colour": colour}
    return form.format(**words, a_thing=with_article(thing))


@dataclass(frozen=True)
class Motion:
    """What one thing of a clip does. kind: direction (`way`: of WAYS, or "" if it stands), blinks
    or jumps (`times`). thing: its index in the clip's scene, which is how the clip ends."""

    kind: str
    thing: int
    way: str = ""
    times: int = 0


@dataclass(frozen=True)
class Piece:
    """Some words of an answer or a question, and the things of the scene they are about."""

    text: str
    things: tuple[int, ...] = ()


@dataclass(frozen=True)
class Question:
    """task: a key of FORMS. answer: pieces that joined are the sentence. missing: whether it tells
    that what is asked about is not there."""

    task: str
    text: str
    answer: tuple[Piece, ...]
    missing: bool = False

    @property
    def answer_text(self) -> str:
        """All its pieces, joined."""
        return "".join(piece.text for piece in self.answer)


def with_article(noun: str) -> str:
    """With a or an before it."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def plural(noun: str) -> str:
    """Of the scenes' nouns."""
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def style(text: str, rng: random.Random) -> str:
    """The question as somebody types it: some capitals, marks and a letter may be missing."""
    if rng.random() < 0.3:
        text = text.replace("colour", "color")
    if rng.random() < 0.35:
        text = text[0].lower() + text[1:]
    if rng.random() < 0.25:
        text = text.rstrip("?.")
    return text


class Asker:
    """Asks by lot about one scene, and about the motion in it if it is a clip's last frame."""

    def __init__(self, scene: Scene, rng: random.Random, motion: Motion | None = None) -> None:
        self.scene, self.rng, self.motion = scene, rng, motion

    def ask(self, task: str) -> Question | None:
        """A question of that task; None if the scene allows none that has one answer."""
        drawn: Question | None
        match task:
            case "colour":
                drawn = self._colour()
            case "shape":
                drawn = self._shape()
            case "count":
                drawn = self._count()
            case "presence":
                drawn = self._presence()
            case "number" | "word":
                drawn = self._written(task)
            case "position":
                drawn = self._position()
            case "description":
                drawn = self._description()
            case _:
                assert task in ("direction", "blinks", "jumps"), task
                drawn = self._motion(task)
        return drawn

    def _form(self, task: str, **words: str) -> str:
        # The first form is the most frequent.
        forms = FORMS[task]
        form = forms[0] if self.rng.random() < 0.4 else self.rng.choice(forms)
        return form.format(**words)

    def _match(self, noun: str) -> tuple[int, ...]:
        return matching(self.scene.things, noun)

    def _colour(self) -> Question | None:
        kind = self._noun(SHAPES, [t.kind for t in self.scene.shapes])
        found = self._match(kind)
        if len(found) > 1:
            return None
        text = self._form("colour", shape=kind)
        if not found:
            return Question("colour", text, (Piece(f"There is no {kind}."),), missing=True)
        colour = self.scene.things[found[0]].colour
        return Question("colour", text, (Piece(f"{colour.capitalize()}.", found),))

    def _shape(self) -> Question | None:
        colour = self._noun(COLOURS, [t.colour for t in self.scene.shapes])
        found = self._match(f"{colour} shape")
        if len(found) > 1:
            return None
        text = self._form("shape", colour=colour)
        if not found:
            return Question("shape", text, (Piece(f"There is no {colour} shape."),), missing=True)
        kind = self.scene.things[found[0]].kind
        return Question("shape", text, (Piece(f"{with_article(kind).capitalize()}.", found),))

    def _count(self) -> Question:
        noun = self.rng.choice(("shape", "shape", self._some_thing(0.7), self._some_thing(0.7)))
        found = self._match(noun)
        text = self._form("count", things=plural(noun))
        return Question("count", text, (Piece(COUNTS[len(found)], found),), missing=not found)

    def _presence(self) -> Question:
        noun = self._some_thing(0.5)
        found = self._match(noun)
        text = self._form("presence", a_thing=with_article(noun))
        return Question("presence", text, (Piece("Yes." if found else "No.", found),))

    def _written(self, kind: str) -> Question:
        text = self._form(kind)
        thing = self.scene.written(kind)
        if thing is None:
            if self.scene.written(NUMBER):
                text = FORMS[WORD][0]  # something is written there, though it is no word
            return Question(kind, text, (Piece(f"There is no {kind}."),), missing=True)
        found = (self.scene.things.index(thing),)
        if kind == NUMBER:
            return Question(kind, text, (Piece(thing.text, found), Piece(".")))
        return Question(
            kind, text, (Piece("The word is"), Piece(f" {thing.text}", found), Piece("."))
        )

    def _position(self) -> Question | None:
        noun = self._some_thing(0.85)
        found = self._match(noun)
        if len(found) > 1:
            return None
        text = self._form("position", thing=noun)
        if not found:
            return Question("position", text, (Piece(f"There is no {noun}."),), missing=True)
        place = PLACES[self.scene.things[found[0]].cell]
        return Question("position", text, (Piece(f"{place[0].upper()}{place[1:]}.", found),))

    def _motion(self, task: str) -> Question | None:
        """Of the thing that moves, or of one that stands; a clip of another motion is not asked."""
        motion = self.motion
        if motion is None or motion.kind != task:
            return None
        index = motion.thing
        others = [i for i, t in enumerate(self.scene.things) if t.is_shape and i != index]
        if others and self.rng.random() < 0.15:
            index = self.rng.choice(others)
        thing = self.scene.things[index]
        nouns = [
            n for n in (thing.kind, f"{thing.colour} {thing.kind}") if self._match(n) == (index,)
        ]
        if not nouns:
            return None
        text = self._form(task, thing=self.rng.choice(nouns))
        way, times = (motion.way, motion.times) if index == motion.thing else ("", 0)
        if task == "direction":
            answer = WAYS[way] if way else STILL
        else:
            answer = TIMES[times] if times else f"It does not {task[:-1]}."
        return Question(task, text, (Piece(answer, (index,)),))

    def _description(self) -> Question:
        return Question("description", self._form("description"), caption(self.scene))

    def _some_thing(self, there: float) -> str:
        """A noun with or without its colour; there: the chance that it is taken from the scene."""
        shapes = self.scene.shapes
        kind, colour = self.rng.choice(SHAPES), self.rng.choice(COLOURS)
        if shapes and self.rng.random() < there:
            thing = self.rng.choice(shapes)
            kind, colour = thing.kind, thing.colour
        elif shapes and self.rng.random() < 0.5:
            # Nearly there: the colour of one thing and the shape of another.
            kind, colour = self.rng.choice(shapes).kind, self.rng.choice(shapes).colour
        return self.rng.choice((kind, f"{colour} shape", f"{colour} {kind}", f"{colour} {kind}"))

    def _noun(self, all_of: Sequence[str], there: Sequence[str]) -> str:
        alone = [noun for noun in there if there.count(noun) == 1]
        absent = [noun for noun in all_of if noun not in there]
        if not alone or (absent and self.rng.random() < 0.12):
            return self.rng.choice(absent or list(all_of))
        return self.rng.choice(alone)


def matching(things: Sequence[Thing], noun: str) -> tuple[int, ...]:
    """Indices of what a noun in the singular names: "red circle", "circle", "shape", "word"."""
    *colour, kind = noun.split()
    if kind in (NUMBER, WORD):
        return tuple(index for index, thing in enumerate(things) if thing.kind == kind)
    return tuple(
        index
        for index, thing in enumerate(things)
        if thing.is_shape and kind in ("shape", thing.kind) and colour in ([], [thing.colour])
    )


def caption(scene: Scene) -> tuple[Piece, ...]:
    """All things in reading order: "A red circle, a blue star and the word tea." """
    if not scene.things:
        return (Piece(NOTHING),)
    pieces: list[Piece] = []
    for index, thing in enumerate(scene.things):
        if thing.is_shape:
            words = with_article(f"{thing.colour} {thing.kind}")
        else:
            words = f"the {thing.kind} {thing.text}"
        if index == 0:
            words = words[0].upper() + words[1:]
        else:
            words = f" {words}"
            pieces.append(Piece(" and" if index == len(scene.things) - 1 else ","))
        pieces.append(Piece(words, (index,)))
    return (*pieces, Piece("."))


def mentions(text: str, things: Sequence[Thing]) -> list[tuple[int, int, tuple[int, ...]]]:
    """(start, end, things) of every name of a thing in a question: what it makes one look for."""
    found = []
    colours, kinds = "|".join(COLOURS), "|".join((*SHAPES, "shape", NUMBER, WORD))
    for match in re.finditer(rf"\b(?:({colours}) )?({kinds})(?:e?s)?\b", text):
        noun = f"{match[1]} {match[2]}" if match[1] else match[2]
        found.append((match.start(), match.end(), matching(things, noun)))
    return found
