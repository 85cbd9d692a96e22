"""Generate the held-out recordings of `tests/data` and the recording of the demonstration.

`python -m tools.recipes.speech.fixtures` needs libespeak-ng and ffmpeg; using the files neither.
Every sentence is held out from training (`grammar.Sentence.held_out`); the `unseen` split is
spoken by voices that training never uses.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.recipes.speech import augment
from tools.recipes.speech.corpus import Clip, Corpus, orders, render
from tools.recipes.speech.grammar import LANGUAGES, Sentence, sentence
from tools.recipes.speech.synthesis import SAMPLE_RATE, Speaker, Synthesizer, Utterance

PER_LANGUAGE = 120
GAP_SECONDS = 0.6
BITRATE = "18k"
LONG_VOICES = {
    "en": (Speaker("en-us+f2", 150, 55, 50), 180.0),
    "es": (Speaker("es+m3", 150, 45, 50), 150.0),
    "de": (Speaker("de+f5", 145, 50, 50), 150.0),
}
DEMO_VOICE = Speaker("en-us+m3", 150, 42, 55)


def write_opus(path: Path, samples: NDArray[np.int16]) -> None:
    """Encode mono 16 kHz int16 as Ogg/Opus with ffmpeg, bit-exact for equal input."""
    command = ["ffmpeg", "-loglevel", "error", "-y", "-f", "s16le", "-ar", str(SAMPLE_RATE)]
    command += ["-ac", "1", "-i", "-", "-c:a", "libopus", "-b:a", BITRATE, "-vbr", "on"]
    command += ["-map_metadata", "-1", "-fflags", "+bitexact", "-flags:a", "+bitexact"]
    subprocess.run([*command, str(path)], input=samples.tobytes(), check=True)


def _words(words: tuple[tuple[str, float, float], ...], at: float) -> list[dict[str, Any]]:
    return [
        {"word": word, "start_s": round(at + begin, 3), "end_s": round(at + end, 3)}
        for word, begin, end in words
    ]


def _entry(clip: Clip, file: str, at: float, seen: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "file": file,
        "start_s": round(at, 3),
        "end_s": round(at + clip.seconds, 3),
        "text": clip.sentence.text(clip.language),
        "language": clip.language,
        "voice": clip.voice,
        "seen_voice": seen,
        "words": _words(clip.words, at),
    }
    if clip.language != "en":
        entry["translation"] = clip.sentence.text("en")
    return entry


def write_split(folder: Path, corpus: Corpus, name: str, seen: bool) -> list[dict[str, Any]]:
    """One Opus file per language with all clips of the split; returns their manifest entries."""
    entries = []
    spoken = {clip.language for clip in corpus.clips}
    for language in (known for known in LANGUAGES if known in spoken):
        file = f"{language}_{name}.opus"
        gap = np.zeros(int(GAP_SECONDS * SAMPLE_RATE), dtype=np.int16)
        parts: list[NDArray[np.int16]] = [gap]
        at = len(gap)
        for clip in corpus.clips:
            if clip.language != language:
                continue
            entries.append(_entry(clip, file, at / SAMPLE_RATE, seen))
            parts += [corpus.samples(clip), gap]
            at += len(parts[-2]) + len(gap)
        write_opus(folder / file, np.concatenate(parts))
    return entries


def write_long(
    path: Path, sentences: list[tuple[Sentence, Utterance]], language: str, voice: str, seed: int
) -> None:
    """Several sentences with pauses over faint noise: `PATH.opus` and `PATH.json`."""
    rng = np.random.default_rng(seed)
    lead = int(0.8 * SAMPLE_RATE)
    parts: list[NDArray[np.int16]] = [np.zeros(lead, dtype=np.int16)]
    at = lead
    listed = []
    for item, spoken in sentences:
        start = at / SAMPLE_RATE
        entry: dict[str, Any] = {
            "text": item.text(language),
            "start_s": round(start, 3),
            "end_s": round(start + len(spoken.samples) / SAMPLE_RATE, 3),
            "words": _words(spoken.words, start),
        }
        if language != "en":
            entry["translation"] = item.text("en")
        listed.append(entry)
        pause = np.zeros(int(rng.uniform(0.4, 2.0) * SAMPLE_RATE), dtype=np.int16)
        parts += [spoken.samples, pause]
        at += len(spoken.samples) + len(pause)
    wave = np.concatenate(parts).astype(np.float32) / 32768
    wave += augment.noise(np.random.default_rng(seed), len(wave)) * np.float32(10 ** (-62 / 20))
    samples = (np.clip(wave, -1, 1) * 32767).astype(np.int16)
    write_opus(path.with_suffix(".opus"), samples)
    manifest = {
        "file": path.with_suffix(".opus").name,
        "language": language,
        "voice": voice,
        "seconds": round(len(samples) / SAMPLE_RATE, 3),
        "text": " ".join(entry["text"] for entry in listed),
        "sentences": listed,
    }
    path.with_suffix(".json").write_text(
        json.dumps(manifest, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )


def _monologue(
    synthesizer: Synthesizer, speaker: Speaker, language: str, seconds: float, seed: int
) -> list[tuple[Sentence, Utterance]]:
    """Different held-out sentences by one speaker, templates in turn, until about `seconds`."""
    rng = random.Random(seed)
    spoken: list[tuple[Sentence, Utterance]] = []
    recent: list[str] = []
    total = 0.0
    while total < seconds:
        item = sentence(rng, True)
        if item.template in recent[-6:]:
            continue
        recent.append(item.template)
        spoken.append((item, synthesizer.speak(item.text(language), speaker)))
        total += len(spoken[-1][1].samples) / SAMPLE_RATE + 1.2
    return spoken


def main() -> None:
    """Speaks and writes the recordings and their manifest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("tests/data"))
    parser.add_argument(
        "--recordings", type=Path, default=Path("tools/demo/lookhear_demo/recordings")
    )
    parser.add_argument("--seed", type=int, default=0, help="the training run's seed")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    options.recordings.mkdir(parents=True, exist_ok=True)
    entries = []
    for name, offset, seen in (("seen", 1, True), ("unseen", 2, False)):
        jobs = list(orders(options.seed + offset, PER_LANGUAGE, held_out=True, seen=seen, each=1))
        corpus = render(jobs, options.processes, name)
        entries += write_split(options.out, corpus, name, seen)
    text = json.dumps(entries, ensure_ascii=False, indent=1)
    (options.out / "manifest.json").write_text(text + "\n", encoding="utf-8")
    synthesizer = Synthesizer()
    for i, (language, (speaker, seconds)) in enumerate(LONG_VOICES.items()):
        spoken = _monologue(synthesizer, speaker, language, seconds, options.seed + 100 + i)
        path = options.out / f"long_{language}"
        write_long(path, spoken, language, speaker.voice, options.seed + 100 + i)
    spoken = _monologue(synthesizer, DEMO_VOICE, "en", 25.0, options.seed + 201)
    write_long(options.recordings / "hello", spoken, "en", DEMO_VOICE.voice, options.seed + 201)


if __name__ == "__main__":
    main()
