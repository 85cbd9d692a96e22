"""The tokenizer of demo-qwen3-aligner: that of demo-qwen3-asr, but learned from bare words.

An aligner reads each word by itself, without a space in front of it and without punctuation. The
tokens of demo-qwen3-asr have the space with them, so nearly every word would fall to pieces.
"""

from __future__ import annotations

import random
from pathlib import Path

from lookhear.engine.qwen3_asr.alignment import aligned_words
from tools.recipes.qwen3_asr.tokenizer import write_learned
from tools.recipes.speech.grammar import LANGUAGES, sentence
from tools.recipes.speech.spoken_questions import question

QUESTION_EVERY = 5


def bare_words(seed: int, count: int) -> list[str]:
    """Words of `count` training sentences in each language, and of some questions, as an aligner
    reads them: one after another, each as often as it was drawn."""
    rng = random.Random(seed)
    words: list[str] = []
    for number in range(count):
        drawn = sentence(rng, False)
        for language in LANGUAGES:
            words += aligned_words(drawn.text(language))
        if number % QUESTION_EVERY == 0:
            words += aligned_words(question(rng, False).text("en"))
    return words


def write_tokenizer(folder: Path, seed: int, text_ids: int = 2400, sentences: int = 15_000) -> None:
    """Learns the vocabulary and writes the tokenizer. sentences: drawn in each language. text_ids:
    bytes included."""
    write_learned(folder, bare_words(seed, sentences), text_ids)
