"""Measure a Qwen3-ForcedAligner folder with transformers on the held-out recordings.

`python -m tools.recipes.qwen3_aligner.evaluate` writes `metrics.json` into the folder: how far the
starts and ends of words are off, by language and voice split, of questions, and of recordings of
minutes in pieces of several sentences. The synthesiser knows when it said each word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tools.recipes.qwen3_asr.evaluate import pieces
from tools.recipes.speech.grammar import LANGUAGES
from tools.recipes.speech.synthesis import SAMPLE_RATE
from tools.recipes.whisper.evaluate import Item, Samples, load_items, run

LENGTHS = (6, 12, 18)
Word = tuple[str, float, float]


class Timer:
    """transformers' Qwen3-ForcedAligner (fp32 on CPU), each audio alone."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoProcessor, Qwen3ASRForTokenClassification
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        reader: Any = AutoProcessor
        self.processor = reader.from_pretrained(str(folder))
        network: Any = Qwen3ASRForTokenClassification
        self.model = network.from_pretrained(str(folder), dtype=torch.float32).eval()

    def logits(self, samples: Samples, text: str, language: str) -> tuple[torch.Tensor, Any, Any]:
        """`[1, n, labels]`, the ids `[1, n]`, and the words as they were read."""
        inputs, words = self.processor.prepare_forced_aligner_inputs(
            audio=[samples], transcript=text, language=language
        )
        with torch.no_grad():
            return self.model(**inputs).logits, inputs["input_ids"], words

    def times(self, samples: Samples, text: str, language: str) -> list[Word]:
        """Words as they were read, with seconds from the beginning of `samples`."""
        logits, ids, words = self.logits(samples, text, language)
        marker = self.model.config.timestamp_token_id
        found = self.processor.decode_forced_alignment(logits, ids, words, marker)[0]
        return [(w["text"], w["start_time"], w["end_time"]) for w in found]


class Deviation:
    """Of told times from those of the synthesiser, by group."""

    def __init__(self) -> None:
        self._found: dict[str, list[tuple[float, float]]] = {}

    def add(self, group: str, said: Sequence[Word], told: Sequence[Word]) -> None:
        """The same words, in their order."""
        assert len(said) == len(told), (said, told)
        pairs = zip(said, told, strict=True)
        self._found.setdefault(group, []).extend((t[1] - s[1], t[2] - s[2]) for s, t in pairs)

    def table(self) -> dict[str, dict[str, float]]:
        """Seconds, by group: median and 95th percentile of starts and of ends."""
        return {group: _quantiles(np.array(pairs)) for group, pairs in sorted(self._found.items())}


def _quantiles(errors: NDArray[np.float64]) -> dict[str, float]:
    away = np.abs(errors)
    return {
        f"{edge}_{name}": round(float(np.quantile(away[:, side], part)), 3)
        for side, edge in enumerate(("start", "end"))
        for name, part in (("median", 0.5), ("p95", 0.95))
    }


def utterances(model: Timer, items: Iterable[Item]) -> dict[str, dict[str, float]]:
    """Of single sentences."""
    from tqdm import tqdm

    found = Deviation()
    for item in tqdm(list(items), desc="utterances", unit="clip"):
        told = model.times(item.samples, item.entry["text"], item.entry["language"])
        found.add(item.group, item.words, told)
        found.add("all", item.words, told)
    return found.table()


def long_recordings(
    model: Timer, data: Path, longest: float, languages: Sequence[str] = LANGUAGES
) -> dict[str, dict[str, float]]:
    """Of the recordings of minutes, in pieces of whole sentences."""
    import soundfile

    found = Deviation()
    for language in languages:
        manifest = json.loads((data / f"long_{language}.json").read_text(encoding="utf-8"))
        samples, _ = soundfile.read(data / manifest["file"], dtype="float32")
        for part in pieces(manifest["sentences"], longest):
            said = [
                (word["word"], word["start_s"] - part.start, word["end_s"] - part.start)
                for sentence in manifest["sentences"]
                if part.start <= sentence["start_s"] < part.stop
                for word in sentence["words"]
            ]
            wave = samples[int(part.start * SAMPLE_RATE) : int(part.stop * SAMPLE_RATE)]
            found.add(language, said, model.times(wave, part.text, language))
    return found.table()


def evaluate(folder: Path, data: Path, every: int = 1) -> dict[str, Any]:
    """All measurements; `every` takes only each n-th utterance."""
    model = Timer(folder)
    return {
        "utterances": utterances(model, load_items(data, every=every)),
        "questions": utterances(model, load_items(data, "questions.json", every))["all"],
        "long_recordings": {longest: long_recordings(model, data, longest) for longest in LENGTHS},
    }


if __name__ == "__main__":
    run(evaluate, Path("tools/demo/lookhear_demo/qwen3_aligner"), __doc__)
