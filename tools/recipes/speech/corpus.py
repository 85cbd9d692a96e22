"""The spoken corpus: sentences of the grammar, rendered by many speakers, stored in one file.

A speaker says `SENTENCES_PER_SPEAKER` sentences, so that windows of several sentences and
previous-text prompts come from one voice. Held-out speakers and sentences never meet training.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tools.recipes.speech.grammar import LANGUAGES, Sentence, sentence
from tools.recipes.speech.synthesis import SAMPLE_RATE, Speaker, Synthesizer

SENTENCES_PER_SPEAKER = 4
ACCENTS = {
    "en": (
        "en-us",
        "en-us",
        "en",
        "en-gb-scotland",
        "en-gb-x-gbclan",
        "en-gb-x-rp",
        "en-gb-x-gbcwmd",
        "en-029",
    ),
    "es": ("es", "es-419"),
    "de": ("de",),
}
UNSEEN_ACCENTS = {"en": ("en-us-nyc", "en-us", "en"), "es": ("es", "es-419"), "de": ("de",)}
"""Accents of the unseen-voices split; en-us-nyc is in no training voice."""
VARIANTS = (
    "Alex Alicia Andrea Andy Denis Diogo Gene Gene2 Henrique Jacky Lee Marco Mario Michael "
    "RicishayMax RicishayMax2 RicishayMax3 adam anika announcer antonio aunty benjamin boris "
    "caleb david ed edward edward2 f1 f2 f3 f5 grandma grandpa gustave iven iven2 iven3 iven4 "
    "john klatt klatt2 klatt3 klatt5 klatt6 linda m1 m2 m3 m4 m6 m7 m8 max michel miguel norbert "
    "pablo pedro quincy rob robert robosoft robosoft3 robosoft5 sandro shelby steph steph3 travis "
    "victor zac AnxiousAndy"
).split()
UNSEEN_VARIANTS = (
    "f4 m5 klatt4 Annie Mike Hugo belinda marcelo paul steph2 Nguyen Mr_serious"
).split()


@dataclass(frozen=True)
class Clip:
    """One utterance in the corpus. `start`/`stop` are samples in the corpus audio; `words` has
    (word, begin, end) and `phonemes` (label, begin) in seconds from the start of the clip."""

    sentence: Sentence
    language: str
    voice: str
    speaker: int
    start: int
    stop: int
    words: tuple[tuple[str, float, float], ...]
    phonemes: tuple[tuple[str, float], ...]

    @property
    def seconds(self) -> float:
        """Of audio."""
        return (self.stop - self.start) / SAMPLE_RATE


@dataclass(frozen=True)
class Corpus:
    """Clips and their int16 audio."""

    clips: list[Clip]
    audio: NDArray[np.int16]

    def samples(self, clip: Clip) -> NDArray[np.int16]:
        """[n] samples at 16 kHz of one clip."""
        return self.audio[clip.start : clip.stop]


@dataclass(frozen=True)
class _Order:
    """What one pool task renders: some sentences by one speaker."""

    language: str
    speaker: Speaker
    number: int
    sentences: tuple[Sentence, ...]


def draw_speaker(rng: random.Random, language: str, seen: bool) -> Speaker:
    """A random speaker of the seen or the unseen voices. Unseen ones speak unresampled."""
    accent = rng.choice((ACCENTS if seen else UNSEEN_ACCENTS)[language])
    variant = rng.choice(VARIANTS if seen else UNSEEN_VARIANTS).replace("_", " ")
    plain = seen and rng.random() < 0.06
    stretch = rng.uniform(0.87, 1.15) if seen and rng.random() < 0.5 else 1.0
    return Speaker(
        voice=accent if plain else f"{accent}+{variant}",
        rate=rng.randint(120, 210),
        pitch=rng.randint(20, 80),
        pitch_range=rng.randint(25, 80),
        stretch=round(stretch, 3),
    )


def orders(
    seed: int, per_language: int, *, held_out: bool, seen: bool, each: int = SENTENCES_PER_SPEAKER
) -> Iterator[_Order]:
    """Speakers with their sentences, interleaving the languages."""
    rng = random.Random(seed)
    for number in range(per_language // each):
        for language in LANGUAGES:
            speaker = draw_speaker(rng, language, seen)
            sentences = tuple(sentence(rng, held_out) for _ in range(each))
            yield _Order(language, speaker, number, sentences)


_SYNTHESIZERS: list[Synthesizer] = []


def _render(order: _Order) -> tuple[_Order, list[tuple[NDArray[np.int16], tuple, tuple]]]:  # type: ignore[type-arg]
    if not _SYNTHESIZERS:  # one per pool process: the library keeps its state per process
        _SYNTHESIZERS.append(Synthesizer())
    spoken = []
    for item in order.sentences:
        u = _SYNTHESIZERS[0].speak(item.text(order.language), order.speaker)
        spoken.append((u.samples, u.words, u.phonemes))
    return order, spoken


def render(jobs: list[_Order], processes: int, label: str) -> Corpus:
    """Render all orders in a process pool, in order, with a progress bar."""
    from tqdm import tqdm

    clips: list[Clip] = []
    parts: list[NDArray[np.int16]] = []
    at = 0
    with get_context("spawn").Pool(processes) as pool:
        results = pool.imap(_render, jobs, chunksize=8)
        for order, spoken in tqdm(results, total=len(jobs), desc=label, unit="speaker"):
            for item, (samples, words, phonemes) in zip(order.sentences, spoken, strict=True):
                clips.append(
                    Clip(
                        item,
                        order.language,
                        order.speaker.voice,
                        order.number,
                        at,
                        at + len(samples),
                        words,
                        phonemes,
                    )
                )
                parts.append(samples)
                at += len(samples)
    return Corpus(clips, np.concatenate(parts))


def save(corpus: Corpus, folder: Path, name: str) -> None:
    """Write `NAME.npy` (audio) and `NAME.pickle` (clips)."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{name}.npy", corpus.audio)
    with (folder / f"{name}.pickle").open("wb") as file:
        pickle.dump(corpus.clips, file)


def load(folder: Path, name: str) -> Corpus:
    """Read what `save` wrote; the audio is memory-mapped and shared between processes."""
    with (folder / f"{name}.pickle").open("rb") as file:
        clips: list[Clip] = pickle.load(file)
    return Corpus(clips, np.load(folder / f"{name}.npy", mmap_mode="r"))


def build(folder: Path, seed: int, per_language: int, processes: int) -> None:
    """Render the training corpus and the two evaluation splits into `folder`."""
    for name, number, count, held_out, seen, each in (
        ("train", seed, per_language, False, True, SENTENCES_PER_SPEAKER),
        ("seen", seed + 1, 120, True, True, 1),
        ("unseen", seed + 2, 120, True, False, 1),
    ):
        if (folder / f"{name}.pickle").exists():
            continue
        jobs = list(orders(number, count, held_out=held_out, seen=seen, each=each))
        save(render(jobs, processes, name), folder, name)
