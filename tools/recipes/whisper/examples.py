"""Training windows: waveforms with the decoder input and targets that Whisper would have.

A window holds one or several sentences of one speaker, often cut off: audio that stops in the
middle of a sentence has as its target only the words heard so far (a word counts once 75 % of
it was heard), because a live transcriber sees little else.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tools.recipes.speech import augment
from tools.recipes.speech.corpus import Clip, Corpus
from tools.recipes.speech.grammar import LANGUAGES
from tools.recipes.speech.synthesis import SAMPLE_RATE
from tools.recipes.whisper import tokenizer as tk
from tools.recipes.whisper.tokenizer import TextCoder

HEARD = 0.75
FRAME_RATE = 50
IGNORE = -100


@dataclass
class Example:
    """`wave` float32 at 16 kHz; `tokens` decoder input (full ids) and `targets` shifted by one,
    `IGNORE` where no loss applies; `phonemes` one label a frame of 20 ms."""

    wave: NDArray[np.float32]
    tokens: list[int]
    targets: list[int]
    phonemes: NDArray[np.int64]
    guides: list[tuple[int, float, float]]
    """(row, begin, end): where in the audio (seconds) lies what this row of targets predicts."""


@dataclass
class Heard:
    """What was heard of one sentence: its clip, and the words with their times in the window."""

    clip: Clip
    words: list[tuple[str, float, float]]
    complete: bool


@dataclass
class Mix:
    """How often the kinds of examples occur (probabilities)."""

    silence: float = 0.06
    cut: float = 0.40
    late_start: float = 0.12
    timestamps: float = 0.40
    prompt: float = 0.2
    long_prompt: float = 0.02
    bare: float = 0.05
    translate: float = 0.22
    noisy: float = 0.7


@dataclass
class ExampleMaker:
    """Draws examples from a corpus. `phoneme_ids` maps espeak's labels to classes (0 silence)."""

    corpus: Corpus
    coder: TextCoder
    phoneme_ids: dict[str, int]
    rng: np.random.Generator
    mix: Mix = field(default_factory=Mix)

    def __post_init__(self) -> None:
        clips = self.corpus.clips
        self._by_length = sorted(range(len(clips)), key=lambda i: clips[i].seconds)
        self._lengths = [clips[i].seconds for i in self._by_length]
        self._speaker: dict[tuple[str, int], list[int]] = {}
        self._language: dict[str, list[int]] = {name: [] for name in LANGUAGES}
        for i, clip in enumerate(clips):
            self._speaker.setdefault((clip.language, clip.speaker), []).append(i)
            self._language[clip.language].append(i)

    def draw(self, seconds: int) -> Example:
        """One example in a window of `seconds`."""
        if self.rng.random() < self.mix.silence:
            return self._silence(seconds)
        return self._speech(seconds)

    def _choose(self, seconds: float) -> list[Clip]:
        """Clips for a window: one that fits (mostly), or several of one speaker."""
        rng, clips = self.rng, self.corpus.clips
        several = rng.random() < (0.15 if seconds < 5 else 0.6 if seconds < 10 else 0.8)
        if not several:
            high = bisect_left(self._lengths, seconds - 0.05)
            low = bisect_left(self._lengths, max(0.0, min(seconds, 4.0) - 2.2))
            if rng.random() < 0.12 or high - low < 50:
                low, high = 0, len(clips)
            return [clips[self._by_length[int(rng.integers(low, high))]]]
        return self._several(seconds)

    def _several(self, seconds: float, few: float = 0.4) -> list[Clip]:
        """Clips that follow each other: of one speaker, then of others of the language. few: how
        often they are only two to four, even if more would fit."""
        rng, clips = self.rng, self.corpus.clips
        first = int(rng.integers(len(clips)))
        key = (clips[first].language, clips[first].speaker)
        chosen: list[Clip] = []
        total = 0.0
        while total < seconds:
            group = self._speaker[key]
            for i in rng.permutation(group):
                chosen.append(clips[int(i)])
                total += clips[int(i)].seconds + 0.4
            key = (key[0], int(rng.integers(len(self._speaker) // len(LANGUAGES))))
        count = len(chosen)
        if rng.random() < few:
            count = int(rng.integers(2, 5))
        return chosen[:count]

    def _speech(self, seconds: int) -> Example:
        rng, mix = self.rng, self.mix
        n = seconds * SAMPLE_RATE
        wave = np.zeros(n, dtype=np.float32)
        frames = np.zeros(seconds * FRAME_RATE, dtype=np.int64)
        at = 0.0 if rng.random() < 0.25 else float(rng.uniform(0, 0.6))
        factor = float(rng.uniform(0.9, 1.12)) if rng.random() < 0.5 else 1.0
        clips = self._choose(seconds)
        single = len(clips) == 1
        if single:
            slack = seconds - clips[0].seconds / factor
            at = min(at, max(0.0, slack * 0.8)) if rng.random() < 0.8 else at
            if slack > 1 and rng.random() < 0.3:
                at = float(rng.uniform(0, slack))
        placed: list[tuple[Clip, list[tuple[str, float, float]]]] = []
        end = at
        for clip in clips:
            if at >= seconds - 0.1:
                break
            x = self.corpus.samples(clip).astype(np.float32) * np.float32(1 / 32768)
            if factor != 1.0:
                x = augment.resample(x, factor)
            start = int(at * SAMPLE_RATE)
            room = min(len(x), n - start)
            wave[start : start + room] += x[:room]
            placed.append((clip, [(w, at + b / factor, at + e / factor) for w, b, e in clip.words]))
            self._label(frames, clip, at, factor)
            end = at + len(x) / SAMPLE_RATE
            at = end + float(rng.uniform(0.2, 1.5))
        begin = 0.0
        stop = min(float(seconds), end)
        cut = rng.random() < mix.cut
        if cut:
            stop = float(rng.uniform(placed[0][1][0][1] + 0.05, stop))
        late = rng.random() < mix.late_start
        if late:
            begin = float(rng.uniform(0, max(0.0, stop - 0.3)))
        heard = self._heard(placed, begin, stop)
        wave, frames = self._record(wave, frames, begin, stop, cut)
        return self._assemble(wave, frames, heard, clips[0], cut or late or end > seconds)

    def _label(self, frames: NDArray[np.int64], clip: Clip, at: float, factor: float) -> None:
        total = len(frames)
        bounds = [int(round((at + t / factor) * FRAME_RATE)) for _, t in clip.phonemes]
        bounds.append(int(round((at + clip.seconds / factor) * FRAME_RATE)))
        for k, (label, _) in enumerate(clip.phonemes):
            frames[min(bounds[k], total) : min(bounds[k + 1], total)] = self.phoneme_ids[label]

    def _heard(
        self,
        placed: list[tuple[Clip, list[tuple[str, float, float]]]],
        begin: float,
        stop: float,
    ) -> list[Heard]:
        """The sentences and words of which enough lies between `begin` and `stop`; times are
        relative to `begin`."""
        out = []
        for clip, words in placed:
            kept: list[tuple[str, float, float]] = []
            complete = False
            for word, b, e in words:
                b2, e2 = max(b, begin), min(e, stop)
                if e2 - b2 >= HEARD * max(e - b, 0.02):
                    kept.append((word, b2 - begin, e2 - begin))
                    complete = word == words[-1][0] and e == words[-1][2] and stop >= e - 0.02
            if kept:
                if not complete:
                    kept[-1] = (kept[-1][0].rstrip(".,?"), *kept[-1][1:])
                out.append(Heard(clip, kept, complete))
        return out

    def _record(
        self,
        wave: NDArray[np.float32],
        frames: NDArray[np.int64],
        begin: float,
        stop: float,
        cut: bool,
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Apply the cut, the room, the level and the noise; zero padding follows the recording."""
        rng = self.rng
        n = len(wave)
        a, b = int(begin * SAMPLE_RATE), int(stop * SAMPLE_RATE)
        if rng.random() < 0.2:
            wave = augment.reverberate(rng, wave)
        if cut:  # abrupt: the recording ends here; otherwise noise or silence goes on
            wave[b:] = 0
            frames = frames.copy()
            frames[int(stop * FRAME_RATE) :] = 0
        tail = 0 if cut and rng.random() < 0.7 else int(rng.exponential(0.5) * SAMPLE_RATE)
        recorded = min(n, b + tail)
        if rng.random() < 0.25:
            recorded = n
        wave[recorded:] = 0
        rms = float(np.sqrt(np.mean(wave[a:b] ** 2))) + 1e-4
        if rng.random() < self.mix.noisy:
            snr = float(rng.uniform(10, 50)) if rng.random() < 0.9 else float(rng.uniform(4, 10))
            wave[:recorded] += augment.noise(rng, recorded) * (rms * 10 ** (-snr / 20))
        wave *= 10 ** float(rng.uniform(-1.2, 0.1))
        np.clip(wave, -1, 1, out=wave)
        if a:
            wave = np.concatenate([wave[a:], np.zeros(a, dtype=np.float32)])
            skip = int(round(begin * FRAME_RATE))
            frames = np.concatenate([frames[skip:], np.zeros(skip, dtype=np.int64)])
        return wave, frames

    def _empty(self, seconds: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """A window without speech: nothing, noise, hum, or clicks; and its phoneme labels."""
        rng = self.rng
        n = seconds * SAMPLE_RATE
        wave = np.zeros(n, dtype=np.float32)
        kind = rng.random()
        recorded = n if rng.random() < 0.6 else int(rng.integers(SAMPLE_RATE // 4, n + 1))
        if kind > 0.15:
            wave[:recorded] = augment.noise(rng, recorded) * 10 ** float(rng.uniform(-5, -0.7))
        if kind > 0.7:
            level = 10 ** float(rng.uniform(-2.5, -0.2))
            wave[:recorded] += augment.clicks(rng, recorded) * level
        np.clip(wave, -1, 1, out=wave)
        return wave, np.zeros(seconds * FRAME_RATE, dtype=np.int64)

    def _silence(self, seconds: int) -> Example:
        """No speech: the answer is no text."""
        rng = self.rng
        wave, frames = self._empty(seconds)
        language = str(rng.choice(LANGUAGES))
        task = tk.TRANSLATE if rng.random() < 0.2 else tk.TRANSCRIBE
        timed = rng.random() < self.mix.timestamps
        mode = tk.FIRST_TIMESTAMP if timed else tk.NO_TIMESTAMPS
        prompt = self._prompt(language, None) if rng.random() < self.mix.prompt else []
        tokens = [*prompt, tk.SOT, tk.LANGUAGE_IDS[language], task, mode, tk.EOT]
        targets = [IGNORE] * len(prompt) + [
            tk.NO_SPEECH,
            IGNORE,
            tk.FIRST_TIMESTAMP if timed else IGNORE,
            tk.EOT,
        ]
        if not prompt and rng.random() < self.mix.bare:
            tokens, targets = [tk.SOT, mode, tk.EOT], [tk.NO_SPEECH, tk.EOT]
        return Example(wave, tokens[:-1], targets, frames, [])

    def _prompt(self, language: str, near: Clip | None) -> list[int]:
        """`<|startofprev|>` with earlier sentences of the language, sometimes truncated."""
        rng = self.rng
        count = int(rng.integers(1, 4))
        if rng.random() < self.mix.long_prompt / self.mix.prompt:
            count = int(rng.integers(8, 18))
        pool = self._language[language]
        if near is not None and rng.random() < 0.5:
            pool = self._speaker[(language, near.speaker)]
        ids: list[int] = []
        for _ in range(count):
            clip = self.corpus.clips[pool[int(rng.integers(len(pool)))]]
            if clip is not near:
                ids += self.coder.encode(clip.sentence.text(language))
        if len(ids) > 2 and rng.random() < 0.3:
            ids = ids[int(rng.integers(1, len(ids))) :]
        if len(ids) > 2 and rng.random() < 0.1:
            ids = ids[: int(rng.integers(1, len(ids)))]
        return [tk.START_OF_PREV, *ids[-223:]]

    def _assemble(
        self,
        wave: NDArray[np.float32],
        frames: NDArray[np.int64],
        heard: list[Heard],
        clip: Clip,
        partial: bool,
    ) -> Example:
        rng, mix = self.rng, self.mix
        language = clip.language
        translate = (
            language != "en"
            and bool(heard)
            and all(s.complete and s.words[0][0] == s.clip.words[0][0] for s in heard)
            and rng.random() < (mix.translate if partial else 1.4 * mix.translate)
        )
        timed = rng.random() < mix.timestamps
        body: list[int] = []
        guides: list[tuple[int, float, float]] = []
        for spoken in heard:
            first, last = spoken.words[0][1], spoken.words[-1][2]
            if timed:
                guides.append((len(body), first - 0.06, first + 0.1))
                body.append(_timestamp(first))
            if translate:
                body += self.coder.encode(spoken.clip.sentence.text("en"))
            else:
                for word, b, e in spoken.words:
                    ids = self.coder.word(word)
                    guides += [(len(body) + k, b, e) for k in range(len(ids))]
                    body += ids
            if timed:
                guides.append((len(body), last - 0.1, last + 0.06))
                body.append(_timestamp(last))
        if timed and not heard:
            body = [tk.FIRST_TIMESTAMP]
        prompt = self._prompt(language, clip) if rng.random() < mix.prompt else []
        said = tk.LANGUAGE_IDS[language] if heard else IGNORE
        if language == "en" and not timed and rng.random() < 1.5 * mix.bare / mix.timestamps:
            head, labels = [tk.SOT, tk.NO_TIMESTAMPS], [said]
        else:
            task = tk.TRANSLATE if translate else tk.TRANSCRIBE
            head, labels = [tk.SOT, tk.LANGUAGE_IDS[language], task], [said, IGNORE]
            if not timed:
                head.append(tk.NO_TIMESTAMPS)
                labels.append(IGNORE)
        tokens = [*prompt, *head, *body]
        targets = [IGNORE] * len(prompt) + labels + body + [tk.EOT]
        assert len(tokens) == len(targets), (tokens, targets)
        ahead = len(prompt) + len(head) - 1
        guides = [(ahead + row, b, e) for row, b, e in guides]
        return Example(wave, tokens, targets, frames, guides)


def _timestamp(seconds: float) -> int:
    return tk.FIRST_TIMESTAMP + min(tk.TIMESTAMPS - 1, max(0, round(seconds / 0.02)))
