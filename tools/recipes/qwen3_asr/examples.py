"""Training examples of demo-qwen3-asr: audio of any length, prompt, answer, and who says what when.

What is said and heard is drawn by `examples.ExampleMaker`, as for demo-whisper; here its recording
ends where its audio ends, and the words become an answer in Qwen3-ASR's layout.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookhear.engine.qwen3_asr.prompt import ASR_TEXT, build_prompt, language_name
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.qwen3_asr.network import CHUNK_TOKENS, SUBFRAMES, token_counts
from tools.recipes.speech import augment
from tools.recipes.speech.corpus import Clip, Corpus
from tools.recipes.speech.grammar import LANGUAGES
from tools.recipes.speech.synthesis import SAMPLE_RATE
from tools.recipes.whisper.examples import FRAME_RATE, IGNORE, Example, ExampleMaker, Heard, Mix
from tools.recipes.whisper.tokenizer import TextCoder

HOP = 160
WINDOW_FRAMES = 800
MISREAD_EXAMPLES, MISREAD_WORDS = 0.2, 0.06
SHORTEST = 8000
"""Samples: the feature extractor fills shorter audio up with zeros."""


@dataclass
class Listening(Example):
    """samples: how many of `wave` are the audio. audio_start: place of its first token among
    `tokens`. recalls: like `guides`, of the row whose input is (not predicts) a word's token."""

    samples: int = 0
    audio_start: int = 0
    recalls: tuple[tuple[int, float, float], ...] = ()


class AsrExampleMaker(ExampleMaker):
    """Draws examples in the layout of Qwen3-ASR. In half of them the language is forced."""

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: QwenTokenizer,
        phoneme_ids: dict[str, int],
        rng: np.random.Generator,
        mix: Mix,
    ) -> None:
        # Words are encoded below: the coder of demo-whisper has no part in it.
        super().__init__(corpus, TextCoder({}, []), phoneme_ids, rng, mix)
        self.tokenizer = tokenizer
        self._pieces: dict[str, list[int]] = {}
        self._end = tokenizer.token("<|im_end|>")
        self._asr_text = tokenizer.token(ASR_TEXT)

    def _choose(self, seconds: float) -> list[Clip]:
        """Clips that fill the window well, as its length is that of the batch."""
        rng, clips = self.rng, self.corpus.clips
        if rng.random() < (0.15 if seconds < 4 else 0.5 if seconds < 6 else 0.9):
            return self._several(seconds, 0.4 if seconds < 16 else 0.15)
        high = bisect_left(self._lengths, seconds - 0.05)
        low = bisect_left(self._lengths, max(0.0, seconds - 1.4))
        if rng.random() < 0.1 or high - low < 50:
            low, high = 0, len(clips)
        return [clips[self._by_length[int(rng.integers(low, high))]]]

    def _assemble(
        self,
        wave: NDArray[np.float32],
        frames: NDArray[np.int64],
        heard: list[Heard],
        clip: Clip,
        partial: bool,
    ) -> Listening:
        spoken: list[tuple[list[int], float, float]] = []
        for sentence in heard:
            for word, b, e in sentence.words:
                opens = not spoken and word == sentence.clip.words[0][0]
                spoken.append((self._encode(word if opens else " " + word), b, e))
        context = ""
        if self.rng.random() < self.mix.prompt:
            context = self._context(clip, [w for s in heard for w, _, _ in s.words])
        language = language_name(clip.language) if heard else None
        return self._listening(wave, frames, spoken, language, clip.language, context)

    def _silence(self, seconds: int) -> Listening:
        wave, frames = self._empty(seconds)
        rng = self.rng
        language = str(rng.choice(LANGUAGES))
        context = ""
        if rng.random() < self.mix.prompt:
            pool = self._language[language]
            context = self._context(self.corpus.clips[pool[int(rng.integers(len(pool)))]], [])
        return self._listening(wave, frames, [], None, language, context)

    def _context(self, clip: Clip, said: list[str]) -> str:
        """Some words of what is said, and some that are not."""
        rng = self.rng
        words = [w.strip(".,?¿") for w in said if rng.random() < 0.25]
        pool = self._language[clip.language]
        for _ in range(int(rng.integers(1, 3))):
            other = self.corpus.clips[pool[int(rng.integers(len(pool)))]]
            words += [w.strip(".,?¿") for w, _, _ in other.words if rng.random() < 0.4]
        rng.shuffle(words)
        return " ".join(words[:12])

    def _listening(
        self,
        wave: NDArray[np.float32],
        frames: NDArray[np.int64],
        spoken: list[tuple[list[int], float, float]],
        language: str | None,
        forced: str,
        context: str,
    ) -> Listening:
        """language: what the answer names. forced: code of what a prompt may force."""
        rng = self.rng
        samples = self._length(wave)
        count = int(token_counts(torch.tensor(samples // HOP)))
        force = rng.random() < 0.5
        prompt = build_prompt(
            self.tokenizer,
            count,
            context=context,
            language=language_name(forced) if force else None,
        )
        head = [] if force else [*self._encode(f"language {language}"), self._asr_text]
        answer = list(head)
        guides: list[tuple[int, float, float]] = []
        recalls: list[tuple[int, float, float]] = []
        for ids, b, e in spoken:
            for _ in ids:
                guides.append((len(prompt.tokens) + len(guides) + len(head) - 1, b, e))
                recalls.append((guides[-1][0] + 1, b, e))
            answer += ids
        answer.append(self._end)
        tokens = [*prompt.tokens, *answer[:-1]]
        if rng.random() < MISREAD_EXAMPLES:
            self._misread(tokens, len(prompt.tokens) + len(head))
        targets = [IGNORE] * (len(prompt.tokens) - 1) + answer
        return Listening(
            wave, tokens, targets, frames, guides, samples, prompt.audio_start, tuple(recalls)
        )

    def _misread(self, tokens: list[int], first: int) -> None:
        """Puts wrong words among those read, not among those to say: a live session goes on from a
        text that the model heard with less audio, and not always rightly."""
        for place in range(first, len(tokens)):
            if self.rng.random() < MISREAD_WORDS:
                tokens[place] = int(self.rng.integers(256, self._end - 2))

    def _length(self, wave: NDArray[np.float32]) -> int:
        """Where the recording ends: behind its last sound, or a little later."""
        rng = self.rng
        sound = np.flatnonzero(wave)
        end = int(sound[-1]) + 1 if len(sound) else int(rng.integers(SHORTEST, len(wave) + 1))
        draw = rng.random()
        if draw < 0.3:
            end += int(rng.integers(0, SAMPLE_RATE // 10))
        elif draw < 0.4:
            end += int(rng.exponential(0.5) * SAMPLE_RATE)
        return min(max(end, SHORTEST), len(wave))

    def _encode(self, text: str) -> list[int]:
        if text not in self._pieces:
            self._pieces[text] = self.tokenizer.encode(text)
        return self._pieces[text]


class LogMel:
    """Qwen3-ASR's log-mel over a batch of equal waves: `[batch, samples]` to `[batch, 128, n]`.

    peak: what else than an audio's own maximum may set the floor of its dynamic range.
    """

    def __init__(self) -> None:
        from transformers import Qwen3ASRFeatureExtractor

        extractor: Any = Qwen3ASRFeatureExtractor
        self._filters = torch.tensor(extractor().mel_filters.T, dtype=torch.float32)
        self._window = torch.hann_window(400)

    def raw(self, wave: Tensor, response: Tensor | None = None) -> Tensor:
        """Decimal logarithm of the mel power. response: power response of a filter for each."""
        spectrum = torch.stft(wave, 400, HOP, window=self._window, return_complex=True)
        power = spectrum[..., :-1].abs() ** 2
        if response is not None:
            power = power * response
        return (self._filters @ power).clamp(min=1e-10).log10()

    def __call__(self, wave: Tensor, frames: Tensor) -> Tensor:
        """frames: `[batch]`, how many are the audio; those behind are zero."""
        return clamp(self.raw(wave), frames)


def clamp(
    mel: Tensor, frames: Tensor, shift: Tensor | None = None, running: Tensor | None = None
) -> Tensor:
    """Dynamic range and scale of the features, and zeros behind the audio.

    A live session freezes windows of 8 s before it has heard the rest, so their floor comes from
    the maximum so far, and a session's maximum may lie in audio that is long gone. shift:
    `[batch]`, added to the maximum. running: `[batch]` bool, maximum of the windows so far.
    """
    inside = torch.arange(mel.shape[2])[None] < frames[:, None]
    loudest = mel.amax(1).masked_fill(~inside, -10.0)
    peak = loudest.amax(1, keepdim=True).expand_as(loudest)
    if running is not None and mel.shape[2] > WINDOW_FRAMES:
        last = torch.arange(mel.shape[2]) // WINDOW_FRAMES * WINDOW_FRAMES + WINDOW_FRAMES - 1
        so_far = loudest.cummax(1).values[:, last.clamp(max=mel.shape[2] - 1)]
        peak = torch.where(running[:, None], so_far, peak)
    if shift is not None:
        peak = peak + shift[:, None]
    mel = (torch.maximum(mel, peak[:, None] - 8) + 4) / 4
    return mel * inside[:, None]


@dataclass
class Batch:
    """counts, starts: audio tokens of each example, and the place of the first. guided, recalled:
    `[n, 4]`, example, row, first place and one past the last place of a word's audio tokens."""

    mel: Tensor
    counts: Tensor
    starts: Tensor
    tokens: Tensor
    targets: Tensor
    phonemes: Tensor
    guided: Tensor
    recalled: Tensor


def collate(
    examples: list[Listening], padding: int, logmel: LogMel, rng: np.random.Generator
) -> Batch:
    """Pad tokens, compute features with random filters, floors and light SpecAugment."""
    count = len(examples)
    seconds = -(-max(e.samples for e in examples) // SAMPLE_RATE)
    wave = torch.from_numpy(np.stack([e.wave[: seconds * SAMPLE_RATE] for e in examples]))
    frames = torch.tensor([e.samples // HOP for e in examples])
    raw = logmel.raw(wave, augment.random_filters(rng, count))
    shift = rng.uniform(-1.5, 1.0, count) * (rng.random(count) < 0.3)
    running = torch.from_numpy(rng.random(count) < 0.5)
    mel = clamp(raw, frames, torch.from_numpy(shift.astype(np.float32)), running)
    mel = augment.mask_bands(rng, mel)
    mel *= torch.arange(mel.shape[2])[None, None] < frames[:, None, None]
    width = max(len(e.tokens) for e in examples)
    tokens = torch.full((count, width), padding)
    targets = torch.full((count, width), IGNORE)
    for i, e in enumerate(examples):
        tokens[i, : len(e.tokens)] = torch.tensor(e.tokens)
        targets[i, : len(e.targets)] = torch.tensor(e.targets)
    counts = token_counts(frames)
    starts = torch.tensor([e.audio_start for e in examples])
    labels = torch.from_numpy(np.stack([e.phonemes[: seconds * FRAME_RATE] for e in examples]))
    labels = subframes(labels, counts)
    guided = places([e.guides for e in examples], starts, counts)
    recalled = places([list(e.recalls) for e in examples], starts, counts)
    return Batch(mel, counts, starts, tokens, targets, labels, guided, recalled)


def subframes(labels: Tensor, counts: Tensor) -> Tensor:
    """`[batch, seconds * 50]` labels as `[batch, seconds * 13, SUBFRAMES]`; `IGNORE` behind the
    audio, and for what the last token of a second tells beyond it."""
    batch = labels.shape[0]
    seconds = labels.view(batch, -1, FRAME_RATE)
    missing = CHUNK_TOKENS * SUBFRAMES - FRAME_RATE
    filled = torch.nn.functional.pad(seconds, (0, missing), value=IGNORE)
    rows = filled.reshape(batch, -1, SUBFRAMES)
    absent = torch.arange(rows.shape[1])[None] >= counts[:, None]
    return rows.masked_fill(absent[:, :, None], IGNORE)


def places(guides: list[list[tuple[int, float, float]]], starts: Tensor, counts: Tensor) -> Tensor:
    """Words' times as places of their audio tokens, half a token wider on both sides."""
    rows = []
    for i, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        for row, begin, end in guides[i]:
            first = min(max(0, _token_at(begin - 0.04)), count - 1)
            last = min(max(first, _token_at(end + 0.04)), count - 1)
            rows.append((i, row, start + first, start + last + 1))
    return torch.tensor(rows).reshape(-1, 4)


def _token_at(seconds: float) -> int:
    whole = int(max(0.0, seconds))
    return CHUNK_TOKENS * whole + int((max(0.0, seconds) - whole) / 0.08)
