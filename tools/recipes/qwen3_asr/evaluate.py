"""Measure a Qwen3-ASR folder with transformers on the held-out recordings.

`python -m tools.recipes.qwen3_asr.evaluate` writes `metrics.json` into the folder: word error rate
by language and voice split, language detection, silence, audio cut off in the middle of a sentence,
and recordings of minutes heard in pieces of several sentences.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lookhear.engine.qwen3_asr.prompt import Transcript, language_code, parse_transcript
from tools.recipes.speech.grammar import LANGUAGES
from tools.recipes.speech.spoken_questions import is_held_out
from tools.recipes.speech.synthesis import SAMPLE_RATE
from tools.recipes.whisper.evaluate import (
    Item,
    Rate,
    Samples,
    cut_short,
    load_items,
    run,
    silent_waves,
)

BATCH = 16
MARGIN_SECONDS = 0.2


class Transcriber:
    """transformers' Qwen3-ASR on audio of any length (fp32 on CPU), greedy."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoProcessor, Qwen3ASRForConditionalGeneration
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        reader: Any = AutoProcessor
        self.processor = reader.from_pretrained(str(folder))
        network: Any = Qwen3ASRForConditionalGeneration
        self.model = network.from_pretrained(str(folder), dtype=torch.float32).eval()

    def tokens(self, waves: Sequence[Samples], language: str | None = None) -> list[list[int]]:
        """Generated ids without the prompt and the end; language: code, None: not told."""
        inputs = [
            self.processor.apply_transcription_request(wave, language=language) for wave in waves
        ]
        with torch.no_grad():
            out = self.model.generate(**self._together(inputs), max_new_tokens=200)
        width = max(one["input_ids"].shape[1] for one in inputs)
        ends = self.model.generation_config.eos_token_id
        return [[i for i in row if i not in ends] for row in out[:, width:].tolist()]

    def answers(self, waves: Sequence[Samples], language: str | None = None) -> list[Transcript]:
        """Text and language for each of `waves` ([n] samples at 16 kHz)."""
        found = []
        for row in self.tokens(waves, language):
            raw = self.processor.tokenizer.decode(row, skip_special_tokens=True)
            answer = parse_transcript(raw, final=True)
            assert answer is not None, raw
            found.append(answer)
        return found

    def _together(self, inputs: list[Any]) -> dict[str, torch.Tensor]:
        """One batch of requests prepared alone: the features of a batch prepared as one differ a
        little from those of each alone, behind the end of the shorter."""
        pad = torch.nn.functional.pad
        width = max(one["input_ids"].shape[1] for one in inputs)
        frames = max(one["input_features"].shape[2] for one in inputs)
        names = ("input_ids", "attention_mask", "input_features", "input_features_mask")
        parts: dict[str, list[torch.Tensor]] = {name: [] for name in names}
        for one in inputs:
            before = (width - one["input_ids"].shape[1], 0)
            behind = (0, frames - one["input_features"].shape[2])
            parts["input_ids"].append(
                pad(one["input_ids"], before, value=self.processor.tokenizer.pad_token_id)
            )
            parts["attention_mask"].append(pad(one["attention_mask"], before))
            parts["input_features"].append(pad(one["input_features"], behind))
            parts["input_features_mask"].append(pad(one["input_features_mask"], behind))
        return {name: torch.cat(tensors) for name, tensors in parts.items()}


def _batches(items: list[Item], label: str) -> Iterator[list[Item]]:
    """Batches of one language and of similar lengths, with a progress bar."""
    from tqdm import tqdm

    ordered = sorted(items, key=lambda item: (item.entry["language"], len(item.samples)))
    with tqdm(total=len(items), desc=label, unit="clip") as bar:
        for language in LANGUAGES:
            same = [i for i in ordered if i.entry["language"] == language]
            for at in range(0, len(same), BATCH):
                yield same[at : at + BATCH]
                bar.update(len(same[at : at + BATCH]))


def transcription(
    model: Transcriber, items: list[Item]
) -> tuple[dict[str, float], dict[str, float]]:
    """Word error rate, and share of utterances whose language is named rightly (none is told)."""
    rate = Rate()
    named: dict[str, list[bool]] = {}
    for batch in _batches(items, "transcribe"):
        for item, answer in zip(batch, model.answers([i.samples for i in batch]), strict=True):
            rate.add(item.group, item.entry["text"], answer.text)
            code = None if answer.language is None else language_code(answer.language)
            named.setdefault(item.group, []).append(code == item.entry["language"])
    return rate.table(), {group: _mean(right) for group, right in sorted(named.items())}


def questions(model: Transcriber, data: Path, every: int = 1) -> dict[str, float]:
    """Word error rate of spoken questions about pictures (English is not told): by voice split,
    and of those that training never asked."""
    rate = Rate()
    for batch in _batches(load_items(data, "questions.json", every), "questions"):
        for item, answer in zip(batch, model.answers([i.samples for i in batch]), strict=True):
            asked = item.entry["text"]
            rate.add("seen" if item.entry["seen_voice"] else "unseen", asked, answer.text)
            if is_held_out(asked):
                rate.add("held_out_sentence", asked, answer.text)
    return rate.table()


def forced(model: Transcriber, items: list[Item]) -> dict[str, float]:
    """Word error rate, the language given."""
    rate = Rate()
    for batch in _batches(items, "language forced"):
        answers = model.answers([i.samples for i in batch], batch[0].entry["language"])
        for item, answer in zip(batch, answers, strict=True):
            rate.add(item.group, item.entry["text"], answer.text)
    return rate.table()


def cut_off(model: Transcriber, items: list[Item], seed: int = 6) -> dict[str, dict[str, float]]:
    """Audio that stops at a random point: word errors against the words heard, and invented
    words (more than were heard) a clip."""
    rng = np.random.default_rng(seed)
    rate = Rate()
    extra: dict[str, list[int]] = {}
    for batch in _batches(items, "cut off"):
        waves, heard = zip(*(cut_short(rng, item) for item in batch), strict=True)
        for item, reference, answer in zip(batch, heard, model.answers(waves), strict=True):
            rate.add(item.group, reference, answer.text)
            more = len(answer.text.split()) - len(reference.split())
            extra.setdefault(item.group, []).append(max(0, more))
    return {
        "wer": rate.table(),
        "invented": {group: _mean(counts) for group, counts in sorted(extra.items())},
    }


def silence(model: Transcriber, seed: int = 5, count: int = 96) -> dict[str, float]:
    """Share of silence, noise, hum and clicks that gave text (language told or not), or a
    language."""
    waves = silent_waves(seed, count)
    text = told = named = 0
    for at in range(0, count, BATCH):
        part = waves[at : at + BATCH]
        answers = model.answers(part)
        text += sum(bool(answer.text) for answer in answers)
        named += sum(answer.language is not None for answer in answers)
        language = LANGUAGES[at // BATCH % len(LANGUAGES)]
        told += sum(bool(answer.text) for answer in model.answers(part, language))
    return {
        "text_rate": round(text / count, 4),
        "text_rate_language_forced": round(told / count, 4),
        "language_rate": round(named / count, 4),
    }


@dataclass(frozen=True)
class Piece:
    """Some sentences of a long recording that follow each other; times in seconds."""

    start: float
    stop: float
    text: str


def pieces(sentences: list[dict[str, Any]], longest: float) -> list[Piece]:
    """As many whole sentences as fit into `longest` seconds, cut in the pauses between them."""
    found: list[Piece] = []
    first = 0
    for last in range(len(sentences)):
        fits = (
            last + 1 < len(sentences)
            and sentences[last + 1]["end_s"] - sentences[first]["start_s"] + 2 * MARGIN_SECONDS
            <= longest
        )
        if not fits:
            text = " ".join(sentence["text"] for sentence in sentences[first : last + 1])
            start = max(0.0, sentences[first]["start_s"] - MARGIN_SECONDS)
            found.append(Piece(start, sentences[last]["end_s"] + MARGIN_SECONDS, text))
            first = last + 1
    return found


def long_recordings(
    model: Transcriber, data: Path, longest: float, languages: Sequence[str] = LANGUAGES
) -> dict[str, float]:
    """Word error rate of the recordings of minutes, heard in pieces of several sentences."""
    import soundfile

    rate = Rate()
    for language in languages:
        manifest = json.loads((data / f"long_{language}.json").read_text(encoding="utf-8"))
        samples, _ = soundfile.read(data / manifest["file"], dtype="float32")
        parts = pieces(manifest["sentences"], longest)
        waves = [samples[int(p.start * SAMPLE_RATE) : int(p.stop * SAMPLE_RATE)] for p in parts]
        for part, answer in zip(parts, model.answers(waves), strict=True):
            rate.add(language, part.text, answer.text)
    return rate.table()


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 4)


def evaluate(folder: Path, data: Path, every: int = 1) -> dict[str, Any]:
    """All measurements; `every` takes only each n-th utterance."""
    model = Transcriber(folder)
    items = load_items(data, every=every)
    rates, named = transcription(model, items)
    return {
        "utterances": len(items),
        "wer": rates,
        "language": named,
        "questions": questions(model, data, every),
        "wer_language_forced": forced(model, items),
        "silence": silence(model),
        "cut_off": cut_off(model, items),
        "long_recordings": {
            longest: long_recordings(model, data, longest) for longest in (6, 12, 18, 24)
        },
    }


if __name__ == "__main__":
    run(evaluate, Path("tools/demo/lookhear_demo/qwen3_asr"), __doc__)
