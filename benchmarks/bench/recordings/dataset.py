"""The held-out recordings of `tests/data`, as PCM on the wire's rate and reference words."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from lookhear.bench.measures.trace import RATE, SpokenWord

# Of the repository, where this file lies in one.
DATA = Path(__file__).resolve().parents[3] / "tests" / "data"
# After as much a decoder of Opus that begins anywhere gives the samples of one that read it all.
_SETTLING_SECONDS = 3


@dataclass(frozen=True, slots=True)
class Utterance:
    """A stretch of a file and what is said in it. words: seconds from the utterance's start.

    spelling: how texts are compared, a name of `measures.spelling`.
    """

    name: str
    file: str
    start: float
    end: float
    text: str
    language: str
    seen_voice: bool
    words: tuple[SpokenWord, ...]
    spelling: str = ""

    @property
    def split(self) -> str:
        """ "seen" or "unseen": whether models were trained on this voice."""
        return "seen" if self.seen_voice else "unseen"


def _words(entries: list[dict[str, Any]], offset: float) -> tuple[SpokenWord, ...]:
    return tuple(SpokenWord(e["word"], e["start_s"] - offset, e["end_s"] - offset) for e in entries)


def held_out(folder: Path = DATA, limit: int | None = None) -> list[Utterance]:
    """The manifest's utterances, in its order; the first `limit` of each language and split."""
    entries = json.loads((folder / "manifest.json").read_text("utf-8"))
    utterances = [
        Utterance(
            f"{Path(entry['file']).stem}/{number}",
            entry["file"],
            entry["start_s"],
            entry["end_s"],
            entry["text"],
            entry["language"],
            entry["seen_voice"],
            _words(entry["words"], entry["start_s"]),
            entry.get("spelling", ""),
        )
        for number, entry in enumerate(entries)
    ]
    groups: dict[tuple[str, str], list[Utterance]] = {}
    for utterance in utterances:
        groups.setdefault((utterance.language, utterance.split), []).append(utterance)
    return [utterance for group in groups.values() for utterance in group[:limit]]


def long_recordings(folder: Path = DATA) -> list[Utterance]:
    """The long recordings, each as one utterance from 0 to its end."""
    recordings = []
    for path in sorted(folder.glob("long_*.json")):
        data = json.loads(path.read_text("utf-8"))
        words = [word for sentence in data["sentences"] for word in sentence["words"]]
        recordings.append(
            Utterance(
                path.stem,
                data["file"],
                0.0,
                data["seconds"],
                data["text"],
                data["language"],
                True,
                _words(words, 0.0),
                data.get("spelling", ""),
            )
        )
    return recordings


class Audio:
    """Decoded utterances, each read once. Samples are 16-bit, mono, 24 kHz."""

    def __init__(self, folder: Path = DATA) -> None:
        self._folder = folder
        self._read: dict[tuple[str, float, float], NDArray[np.int16]] = {}

    def of(self, utterance: Utterance) -> NDArray[np.int16]:
        """[n] samples of the utterance."""
        key = utterance.file, utterance.start, utterance.end
        if key not in self._read:
            self._read[key] = self._decoded(*key)
        return self._read[key]

    def _decoded(self, file: str, start: float, end: float) -> NDArray[np.int16]:
        """[n] samples, those of the whole file but for roundings: a resampler knows what comes
        before and behind. From a whole second to one, where samples of all rates begin."""
        first, last = max(0, math.floor(start) - 1), math.ceil(end) + 1
        samples, rate = stretch(self._folder / file, first, last)
        if samples.ndim > 1:
            samples = samples.mean(axis=1)
        samples = soxr.resample(samples, rate, RATE) if rate != RATE else samples
        scaled = np.clip(np.rint(samples * 32768.0), -32768, 32767)
        pcm: NDArray[np.int16] = scaled.astype("<i2")
        return pcm[int(start * RATE) - first * RATE : int(end * RATE) - first * RATE]


def stretch(path: Path, start: float, end: float) -> tuple[NDArray[np.float32], int]:
    """Samples [n] or [n, channels] between two seconds of a file, or up to its end, and its rate:
    those of the decoded whole, without decoding six minutes for a sentence."""
    with soundfile.SoundFile(path) as file:
        rate: int = file.samplerate
        first, last = int(start * rate), int(end * rate)
        file.seek(begin := max(0, first - _SETTLING_SECONDS * rate))
        samples: NDArray[np.float32] = file.read(last - begin, "float32")
    return samples[first - begin :], rate


def looped(
    recordings: list[Utterance], audio: Audio, seconds: float
) -> tuple[NDArray[np.int16], str, tuple[SpokenWord, ...]]:
    """Recordings one after another, again and again, cut before the word that would cross
    `seconds`: samples, text and words on the new clock."""
    pieces: list[NDArray[np.int16]] = []
    words: list[SpokenWord] = []
    at = 0.0
    while at < seconds:
        for recording in recordings:
            samples = audio.of(recording)
            pieces.append(samples)
            words += [
                replace(word, start=word.start + at, end=word.end + at) for word in recording.words
            ]
            at += len(samples) / RATE
    kept = [word for word in words if word.end <= seconds]
    # Cut in the silence before the next word, so that no half word is heard.
    following = words[len(kept)].start if len(kept) < len(words) else at
    cut = min(seconds, (kept[-1].end + following) / 2) if kept else seconds
    text = " ".join(word.word for word in kept)
    return np.concatenate(pieces)[: int(cut * RATE)], text, tuple(kept)
