"""The questions of `scenes.questions.SPOKEN_FORMS` as spoken corpora, for demo-qwen3-asr.

There are 158 of them. Of the 96 with a colour and a shape a hash holds three out of training; the
others are too few, and held out by speaker alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path

from tools.recipes.scenes.questions import spoken_question
from tools.recipes.scenes.scenes import COLOURS, SHAPES
from tools.recipes.speech import corpus as spoken
from tools.recipes.speech.fixtures import DEMO_VOICE, write_long, write_split
from tools.recipes.speech.grammar import Sentence
from tools.recipes.speech.synthesis import Synthesizer

QUESTION = "question"
SPEAKERS = 840
QUESTIONS_PER_SPEAKER = 3
HELD_OUT_EVERY = 6
EVALUATED = 60
RECORDED = {
    "question-colour": "What colour is the circle?",
    "question-count": "How many shapes are there?",
}


def is_held_out(question: str) -> bool:
    """Whether the question belongs to evaluation: a few of the pairs of colour and shape."""
    words = question.rstrip("?").split()
    paired = not set(words).isdisjoint(COLOURS) and not set(words).isdisjoint(SHAPES)
    return paired and hashlib.sha1(question.encode()).digest()[0] % 20 == 0


def question(rng: random.Random, held_out: bool) -> Sentence:
    """A question of the training part, or of the held-out part; English is its only form."""
    while True:
        text = spoken_question(rng)
        if is_held_out(text) == held_out:
            return Sentence((text, text, text), QUESTION)


def training_orders(seed: int, speakers: int = SPEAKERS) -> list[spoken._Order]:
    """Each speaker asks three questions and says one sentence of the grammar."""
    rng = random.Random(seed)
    each = QUESTIONS_PER_SPEAKER + 1
    return [
        replace(
            order,
            sentences=(
                *(question(rng, False) for _ in range(QUESTIONS_PER_SPEAKER)),
                order.sentences[0],
            ),
        )
        for order in spoken.orders(seed, speakers * each, held_out=False, seen=True, each=each)
        if order.language == "en"
    ]


def evaluation_orders(seed: int, seen: bool, count: int = EVALUATED) -> list[spoken._Order]:
    """A question a speaker; every sixth is one that no training utterance asks."""
    rng = random.Random(seed)
    drawn = spoken.orders(seed, count, held_out=True, seen=seen, each=1)
    english = [order for order in drawn if order.language == "en"]
    return [
        replace(order, sentences=(question(rng, i % HELD_OUT_EVERY == 0),))
        for i, order in enumerate(english)
    ]


def build(folder: Path, seed: int, processes: int) -> None:
    """Render the training corpus `questions` and the splits `questions_seen`, `questions_unseen`
    into `folder`, where they are not there yet."""
    for name, jobs in (
        ("questions", training_orders(seed)),
        ("questions_seen", evaluation_orders(seed + 1, True)),
        ("questions_unseen", evaluation_orders(seed + 2, False)),
    ):
        if not (folder / f"{name}.pickle").exists():
            spoken.save(spoken.render(jobs, processes, name), folder, name)


def write_fixtures(questions: Path, data: Path, recordings: Path) -> None:
    """The evaluation splits as Opus with `questions.json`, for `qwen3_asr.evaluate`; and two
    questions in the voice of the demonstration."""
    entries = []
    for name, seen in (("questions_seen", True), ("questions_unseen", False)):
        entries += write_split(data, spoken.load(questions, name), name, seen)
    text = json.dumps(entries, ensure_ascii=False, indent=1)
    (data / "questions.json").write_text(text + "\n", encoding="utf-8")
    synthesizer = Synthesizer()
    for seed, (name, asked) in enumerate(RECORDED.items()):
        item = (Sentence((asked,) * 3, QUESTION), synthesizer.speak(asked, DEMO_VOICE))
        write_long(recordings / name, [item], "en", DEMO_VOICE.voice, seed)


def main() -> None:
    """Writes questions.json, and the two that are recorded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of qwen3_asr.finetune")
    parser.add_argument("--data", type=Path, default=Path("tests/data"))
    parser.add_argument(
        "--recordings", type=Path, default=Path("tools/demo/lookhear_demo/recordings")
    )
    options = parser.parse_args()
    write_fixtures(options.run / "questions", options.data, options.recordings)


if __name__ == "__main__":
    main()
