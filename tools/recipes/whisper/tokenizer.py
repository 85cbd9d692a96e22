"""The tokenizer of demo-whisper: our own byte-level BPE in Whisper's standard id order.

Ids 0..255 are bytes, then the merges learned from the corpus, then unused placeholders up to
50,256, then Whisper's 1,608 special tokens at their real ids (51,865 in all), because that is
the order every Whisper runtime assumes.
"""

from __future__ import annotations

import random

from tools.recipes.speech.grammar import LANGUAGES, sentence

TEXT_IDS = 50_257
EOT, SOT = 50_257, 50_258
LANGUAGE_IDS = {"en": 50_259, "de": 50_261, "es": 50_262}
TRANSLATE, TRANSCRIBE, START_OF_LM, START_OF_PREV = 50_358, 50_359, 50_360, 50_361
NO_SPEECH, NO_TIMESTAMPS, FIRST_TIMESTAMP = 50_362, 50_363, 50_364
TIMESTAMPS = 1_501
VOCABULARY = 51_865


def corpus_text(seed: int, count: int) -> list[str]:
    """Training sentences of every language, each with the leading space of Whisper's text."""
    rng = random.Random(seed)
    return [
        " " + drawn.text(language)
        for drawn in (sentence(rng, False) for _ in range(count))
        for language in LANGUAGES
    ]


def train_merges(seed: int, merges: int = 2400) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Learn the BPE. Returns the vocabulary (token to id, below `256 + merges`) and merges."""
    import json

    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=256 + merges,
        min_frequency=3,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus_text(seed, 15_000), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    pairs = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    return model["vocab"], [(a, b) for a, b in pairs]


class TextCoder:
    """Text to ids and back, before the tokenizer files exist (training uses this one)."""

    def __init__(self, vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> None:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers

        self.vocabulary, self.merges = vocabulary, merges
        self._tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
        self._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._tokenizer.decoder = decoders.ByteLevel()
        self._words: dict[str, list[int]] = {}

    def word(self, word: str) -> list[int]:
        """Ids of one whitespace-separated word, with its leading space."""
        if word not in self._words:
            self._words[word] = list(self._tokenizer.encode(" " + word).ids)
        return self._words[word]

    def encode(self, text: str) -> list[int]:
        """Ids of the words; each begins with a space."""
        return [i for word in text.split() for i in self.word(word)]

    def decode(self, ids: list[int]) -> str:
        """The text of these ids."""
        return str(self._tokenizer.decode(ids)).strip()
