"""Measure a Whisper folder with transformers on the held-out recordings.

`python -m tools.recipes.whisper.evaluate` writes `metrics.json` into the folder: word error rate by
language and voice split, language detection, translation, times, silence, and audio cut off in
the middle of a sentence.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tools.recipes.speech import augment
from tools.recipes.speech.scoring import edit_distance, words_of
from tools.recipes.speech.synthesis import SAMPLE_RATE
from tools.recipes.whisper import tokenizer as tk
from tools.recipes.whisper.examples import HEARD

Samples = NDArray[np.float32]
LEAD_SECONDS = 0.25
BATCH = 16


@dataclass(frozen=True)
class Item:
    """One held-out utterance; word times are relative to `samples`."""

    samples: Samples
    entry: dict[str, Any]
    words: list[tuple[str, float, float]]

    @property
    def group(self) -> str:
        """LANGUAGE_seen or LANGUAGE_unseen, by the voice."""
        return f"{self.entry['language']}_{'seen' if self.entry['seen_voice'] else 'unseen'}"


def load_items(folder: Path, manifest: str = "manifest.json", every: int = 1) -> list[Item]:
    """Every so manyeth utterance of the manifest, decoded from Opus, with a little silence
    around."""
    from lookhear.bench.recordings.dataset import stretch

    items = []
    for entry in json.loads((folder / manifest).read_text(encoding="utf-8"))[::every]:
        begin = entry["start_s"] - LEAD_SECONDS
        end = entry["end_s"] + LEAD_SECONDS
        cut, rate = stretch(folder / entry["file"], begin, end)
        assert rate == SAMPLE_RATE, (entry["file"], rate)
        words = [(w["word"], w["start_s"] - begin, w["end_s"] - begin) for w in entry["words"]]
        items.append(Item(cut, entry, words))
    return items


class Transcriber:
    """transformers' Whisper on windows of any length (fp32 on CPU)."""

    def __init__(self, folder: Path) -> None:
        from transformers import WhisperForConditionalGeneration, WhisperProcessor
        from transformers.utils import logging

        logging.set_verbosity_error()
        self.processor: Any = WhisperProcessor.from_pretrained(str(folder))
        model: Any = WhisperForConditionalGeneration.from_pretrained(
            str(folder), dtype=torch.float32
        )
        self.model = model.eval()
        self._windows: dict[int, Any] = {30: self.model}

    def window(self, seconds: int) -> Any:
        """The model with the encoder's positions cut to `seconds`."""
        if seconds not in self._windows:
            model = copy.deepcopy(self.model)
            positions = model.model.encoder.embed_positions
            frames = 50 * seconds
            positions.weight = torch.nn.Parameter(positions.weight[:frames].clone())
            positions.num_embeddings = frames
            model.config.max_source_positions = frames
            self._windows[seconds] = model
        return self._windows[seconds]

    def features(self, waves: list[Samples], seconds: int) -> torch.Tensor:
        """[batch, mels, frames] of windows of so many seconds."""
        extracted = self.processor.feature_extractor(
            waves,
            sampling_rate=SAMPLE_RATE,
            return_tensors="pt",
            padding="max_length",
            max_length=seconds * SAMPLE_RATE,
        )
        features: torch.Tensor = extracted.input_features
        return features

    def tokens(self, waves: list[Samples], seconds: int = 30, **options: Any) -> list[list[int]]:
        """Generated ids after the prompt, without the end token."""
        with torch.no_grad():
            out = self.window(seconds).generate(
                self.features(waves, seconds), max_new_tokens=100, **options
            )
        return [[i for i in row if i != tk.EOT] for row in out.tolist()]

    def text(self, ids: list[int]) -> str:
        """The words of these ids, without special tokens."""
        return str(self.processor.tokenizer.decode([i for i in ids if i < tk.EOT])).strip()

    def first_token(self, waves: list[Samples]) -> list[int]:
        """The most likely id right after `<|startoftranscript|>`: language, or no speech."""
        start = torch.full((len(waves), 1), tk.SOT)
        with torch.no_grad():
            logits = self.model(self.features(waves, 30), decoder_input_ids=start).logits
        return [int(i) for i in logits[:, -1].argmax(-1)]


def _batches(items: list[Item], label: str) -> Iterator[list[Item]]:
    """Batches of one language, with a progress bar."""
    from tqdm import tqdm

    with tqdm(total=len(items), desc=label, unit="clip") as bar:
        for language in tk.LANGUAGE_IDS:
            same = [i for i in items if i.entry["language"] == language]
            for at in range(0, len(same), BATCH):
                yield same[at : at + BATCH]
                bar.update(len(same[at : at + BATCH]))


class Rate:
    """Errors over reference words, by group."""

    def __init__(self) -> None:
        self._errors: dict[str, int] = {}
        self._words: dict[str, int] = {}

    def add(self, group: str, reference: str, heard: str) -> None:
        """Counts the errors of one text."""
        expected = words_of(reference)
        distance = edit_distance(expected, words_of(heard))
        self._errors[group] = self._errors.get(group, 0) + distance
        self._words[group] = self._words.get(group, 0) + len(expected)

    def table(self) -> dict[str, float]:
        """Word error rate by group."""
        return {g: round(e / max(1, self._words[g]), 4) for g, e in sorted(self._errors.items())}


def transcription(model: Transcriber, items: list[Item], seconds: int = 30) -> dict[str, float]:
    """Word error rate by language and split, the language given."""
    rate = Rate()
    for batch in _batches(items, f"transcribe {seconds} s"):
        language = batch[0].entry["language"]
        rows = model.tokens([i.samples for i in batch], seconds, language=language)
        for item, row in zip(batch, rows, strict=True):
            rate.add(item.group, item.entry["text"], model.text(row))
    return rate.table()


def detection(model: Transcriber, items: list[Item]) -> dict[str, float]:
    """Share of utterances whose first token is their language."""
    right: dict[str, list[bool]] = {}
    for batch in _batches(items, "language"):
        for item, token in zip(batch, model.first_token([i.samples for i in batch]), strict=True):
            ok = token == tk.LANGUAGE_IDS[item.entry["language"]]
            right.setdefault(item.group, []).append(ok)
    return {group: round(sum(ok) / len(ok), 4) for group, ok in sorted(right.items())}


def translation(model: Transcriber, items: list[Item]) -> dict[str, dict[str, float]]:
    """Word error rate and share of exact matches of the English translation."""
    rate = Rate()
    exact: dict[str, list[bool]] = {}
    foreign = [i for i in items if i.entry["language"] != "en"]
    for batch in _batches(foreign, "translate"):
        if not batch:
            continue
        rows = model.tokens(
            [i.samples for i in batch], language=batch[0].entry["language"], task="translate"
        )
        for item, row in zip(batch, rows, strict=True):
            wanted, got = item.entry["translation"], model.text(row)
            rate.add(item.group, wanted, got)
            exact.setdefault(item.group, []).append(words_of(wanted) == words_of(got))
    matched = {group: round(sum(v) / len(v), 4) for group, v in sorted(exact.items())}
    return {"wer": rate.table(), "exact": matched}


def times(model: Transcriber, items: list[Item]) -> dict[str, float]:
    """Errors (seconds) of the timestamps of one-sentence windows."""
    starts, ends = [], []
    for batch in _batches(items, "timestamps"):
        waves = [i.samples for i in batch]
        rows = model.tokens(waves, language=batch[0].entry["language"], return_timestamps=True)
        for item, row in zip(batch, rows, strict=True):
            marks = [i - tk.FIRST_TIMESTAMP for i in row if i >= tk.FIRST_TIMESTAMP]
            if len(marks) == 2:
                starts.append(abs(marks[0] * 0.02 - item.words[0][1]))
                ends.append(abs(marks[1] * 0.02 - item.words[-1][2]))
    return {
        "measured": round(len(starts) / len(items), 4),
        **_quantiles("start", starts),
        **_quantiles("end", ends),
    }


def _quantiles(name: str, errors: list[float]) -> dict[str, float]:
    values = np.array(errors)
    return {
        f"{name}_median": round(float(np.median(values)), 3),
        f"{name}_p95": round(float(np.quantile(values, 0.95)), 3),
        f"{name}_within_0.1": round(float(np.mean(values <= 0.1)), 4),
    }


def word_times(
    model: Transcriber, items: list[Item], heads: list[list[int]], seconds: int = 30
) -> dict[str, float]:
    """Errors (seconds) of word times from the attention of `heads` (layer, head), by dynamic time
    warping over the row that predicts each token, as openai-whisper does it; the text is given."""
    tokenizer = model.processor.tokenizer
    network = model.window(seconds)
    network.set_attn_implementation("eager")  # the only one that returns its weights
    starts: list[float] = []
    ends: list[float] = []
    for item in items:
        language = tk.LANGUAGE_IDS[item.entry["language"]]
        pieces = [tokenizer.encode(" " + w, add_special_tokens=False) for w, _, _ in item.words]
        prompt = [tk.SOT, language, tk.TRANSCRIBE, tk.NO_TIMESTAMPS]
        ids = [*prompt, *[i for piece in pieces for i in piece], tk.EOT]
        with torch.no_grad():
            out = network(
                model.features([item.samples], seconds),
                decoder_input_ids=torch.tensor([ids]),
                output_attentions=True,
            )
        frames = int(50 * len(item.samples) / SAMPLE_RATE)
        weights = torch.stack([out.cross_attentions[layer][0, head] for layer, head in heads])
        path = align(weights[:, len(prompt) - 1 : -1, :frames])
        at = 0
        for piece, (_, begin, end) in zip(pieces, item.words, strict=True):
            starts.append(abs(path[at] - begin))
            at += len(piece)
            ends.append(abs(path[at] - end))
    network.set_attn_implementation("sdpa")
    return {"words": len(starts), **_quantiles("start", starts), **_quantiles("end", ends)}


def align(weights: torch.Tensor) -> list[float]:
    """The time (seconds) at which each row of `weights` `[heads, rows, frames]` begins."""
    from transformers.models.whisper import generation_whisper as reference

    mean = weights.mean(-2, keepdim=True)
    spread = weights.std(-2, keepdim=True, unbiased=False)
    normal: Any = reference._median_filter((weights - mean) / (spread + 1e-6), 7)
    rows, frames = reference._dynamic_time_warping(-normal.mean(0).double().numpy())
    first = np.r_[True, np.diff(rows) > 0]
    return [float(frame) / 50 for frame in frames[first]]


def silent_waves(seed: int, count: int) -> list[Samples]:
    """Audio of 1 to 12 s without speech: silence, noise, hum, clicks."""
    rng = np.random.default_rng(seed)
    waves: list[Samples] = []
    for i in range(count):
        n = int(rng.uniform(1, 12) * SAMPLE_RATE)
        wave = augment.noise(rng, n) * np.float32(10 ** rng.uniform(-4.5, -1))
        if i % 8 == 0:
            wave = np.zeros(n, dtype=np.float32)
        if i % 4 == 1:
            wave = wave + augment.clicks(rng, n) * np.float32(0.3)
        waves.append(wave.astype(np.float32))
    return waves


def silence(model: Transcriber, seed: int = 5, count: int = 96) -> dict[str, float]:
    """Share of windows of silence, noise, hum and clicks that gave text, or a language."""
    waves = silent_waves(seed, count)
    text, untold = 0, 0
    for at in range(0, count, BATCH):
        part = waves[at : at + BATCH]
        rows = model.tokens(part, language=("en", "es", "de")[at // BATCH % 3])
        text += sum(bool(model.text(row)) for row in rows)
        untold += sum(token != tk.NO_SPEECH for token in model.first_token(part))
    return {"text_rate": round(text / count, 4), "speech_rate": round(untold / count, 4)}


def cut_short(rng: np.random.Generator, item: Item) -> tuple[Samples, str]:
    """An utterance up to a random point, and its words that were heard by then."""
    stop = rng.uniform(item.words[0][1] + 0.2, item.words[-1][2])
    heard = (w for w, b, e in item.words if min(e, stop) - b >= HEARD * (e - b))
    return item.samples[: int(stop * SAMPLE_RATE)], " ".join(heard)


def cut_off(model: Transcriber, items: list[Item], seed: int = 6) -> dict[str, dict[str, float]]:
    """Audio that stops at a random point: word errors against the words heard, and invented
    words (more than were heard) a clip."""
    rng = np.random.default_rng(seed)
    rate = Rate()
    extra: dict[str, list[int]] = {}
    for batch in _batches(items, "cut off"):
        waves, heard = zip(*(cut_short(rng, item) for item in batch), strict=True)
        rows = model.tokens(list(waves), 8, language=batch[0].entry["language"])
        for item, reference, row in zip(batch, heard, rows, strict=True):
            got = model.text(row)
            rate.add(item.group, reference, got)
            more = len(words_of(got)) - len(words_of(reference))
            extra.setdefault(item.group, []).append(max(0, more))
    return {
        "wer": rate.table(),
        "invented": {group: round(float(np.mean(v)), 4) for group, v in sorted(extra.items())},
    }


def long_form(model: Transcriber, data: Path) -> dict[str, float]:
    """Word error rate of the recordings of minutes, by transformers' sequential algorithm: windows
    of 30 s with several sentences, each beginning at the last timestamp of the one before."""
    import soundfile

    rate = Rate()
    for language in tk.LANGUAGE_IDS:
        manifest = json.loads((data / f"long_{language}.json").read_text(encoding="utf-8"))
        samples, _ = soundfile.read(data / manifest["file"], dtype="float32")
        extracted = model.processor.feature_extractor(
            samples,
            sampling_rate=SAMPLE_RATE,
            return_tensors="pt",
            truncation=False,
            padding="longest",
            return_attention_mask=True,
        )
        with torch.no_grad():
            out = model.model.generate(**extracted, language=language, return_timestamps=True)
        rate.add(language, manifest["text"], model.text(out[0].tolist()))
    return rate.table()


def evaluate(folder: Path, data: Path, every: int = 1) -> dict[str, Any]:
    """All measurements; `every` takes only each n-th utterance."""
    model = Transcriber(folder)
    items = load_items(data, every=every)
    report: dict[str, Any] = {"utterances": len(items), "wer": transcription(model, items)}
    report["language"] = detection(model, items)
    report["translation"] = translation(model, items)
    report["timestamps"] = times(model, items)
    heads = model.model.generation_config.alignment_heads
    report["word_times"] = word_times(model, items[::3], heads)
    report["silence"] = silence(model)
    report["cut_off"] = cut_off(model, items)
    report["long_form"] = long_form(model, data)
    report["wer_by_window"] = {
        seconds: transcription(
            model, [i for i in items if len(i.samples) <= seconds * SAMPLE_RATE], seconds
        )
        for seconds in (4, 6, 12)
    }
    return report


def run(
    evaluate: Callable[[Path, Path, int], dict[str, Any]], folder: Path, about: str | None
) -> None:
    """The command that evaluates a model's folder; folder: if none is named."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--model", type=Path, default=folder)
    parser.add_argument("--data", type=Path, default=Path("tests/data"))
    parser.add_argument("--every", type=int, default=1, help="take each n-th utterance")
    parser.add_argument("--out", type=Path, help="default: metrics.json in the model folder")
    options = parser.parse_args()
    report = evaluate(options.model, options.data, options.every)
    text = json.dumps(report, indent=2)
    print(text)
    path = options.out or options.model / "metrics.json"
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(evaluate, Path("tools/demo/lookhear_demo/whisper"), __doc__)
