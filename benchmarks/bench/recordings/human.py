"""Recordings of people, from packages of Debian, as a folder that `--data` can name.

Prompts of telephone systems (Asterisk's core sounds, 16 kHz, English and Spanish) and five
sentences of an audiobook. Neither sound nor text is part of this project: they are fetched.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray
from rich.console import Console

from lookhear.bench.measures.spelling import WHISPER
from lookhear.bench.measures.trace import RATE, SpokenWord
from lookhear.bench.recordings.composed import minutes_long
from lookhear.bench.recordings.dataset import Audio, held_out
from lookhear.bench.recordings.debian import Package, fetch, members, required
from lookhear.bench.recordings.development import NAMES
from lookhear.bench.recordings.session import Session
from lookhear.bench.recordings.word_times import spoken_words
from lookhear.errors import SourceError
from lookhear.terminal.progress import Report, progress

HUMAN = Path("human")  # what `--data` names
VERSION = "1"  # of the folder's contents
SOUND_RATE = 16_000
LONG_SECONDS = 60.0
PROMPTS = "Asterisk core sounds: CC BY-SA 3.0"
BOOK = "LibriVox reading in pocketsphinx-testdata: public domain"
_SOUNDS = "pool/main/a/asterisk-core-sounds/asterisk-core-sounds"
BOOK_PACKAGE = Package(
    "pool/main/p/pocketsphinx/pocketsphinx-testdata_0.8%2b5prealpha%2b1-15_all.deb",
    "eaeb7a01d54f20b799d1a81ef110ec544b2cb47ea006614078220737a33019f0",
    1_822_580,
    BOOK,
)
# Of each language: its texts, its sounds.
PROMPT_PACKAGES = {
    "en": (
        Package(
            f"{_SOUNDS}-en_1.6.1-1_all.deb",
            "973e797d28e37fa6ca3c0a9d6fa717e77cf1268ae916bf09fd3503113cdffa50",
            22_844,
            PROMPTS,
        ),
        Package(
            f"{_SOUNDS}-en-g722_1.6.1-1_all.deb",
            "38c5261820b406dcb0ecb37675720da2b0864850690690352ca52707eb623806",
            10_565_860,
            PROMPTS,
        ),
    ),
    "es": (
        Package(
            f"{_SOUNDS}-es_1.6.1-1_all.deb",
            "9afdab7f559f036649fb406e625899306ca1004df8ebe39c30bfbd5912d66f74",
            22_012,
            PROMPTS,
        ),
        Package(
            f"{_SOUNDS}-es-g722_1.6.1-1_all.deb",
            "e4e3b4281057d3b81b779298fd6be705f57411513955c518eed1bcaabbd615b8",
            13_048_380,
            PROMPTS,
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Prompt:
    """One recording. samples: [n], at SOUND_RATE."""

    name: str
    language: str
    text: str
    samples: NDArray[np.float32]


def cache() -> Path:
    """Where the recordings are kept: the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lookhear" / "human"


def human_folder() -> Path:
    """The folder of the recordings, made the first time: some 25 MB are downloaded.

    SourceError if they cannot be had or kept; then nothing is left half done. NotInstalled.
    """
    kept = cache()
    folder = kept / f"recordings-{VERSION}"
    if (folder / "manifest.json").is_file():
        return folder
    console = Console(stderr=True, highlight=False)
    for licence in (PROMPTS, BOOK):
        console.print(f"recordings of people: {licence}", style="dim", soft_wrap=True)
    try:
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".draft-", dir=kept) as name:
            draft = Path(name) / "recordings"
            draft.mkdir()
            with progress(console, "recordings of people") as report:
                prompts = list(_prompts(kept / "packages", report))
                report("writing the recordings", None)
                write(prompts, draft)
            if not (folder / "manifest.json").is_file():  # who was sooner may read there already
                shutil.rmtree(folder, ignore_errors=True)
                draft.rename(folder)
    except OSError as error:
        raise SourceError(f"{kept}: cannot hold the recordings: {error}") from error
    return folder


# --- reading the packages ------------------------------------------------------------------------


def _prompts(packages: Path, report: Report) -> Iterator[Prompt]:
    for language, (texts, sounds) in PROMPT_PACKAGES.items():
        written = _texts(fetch(texts, packages, report))
        report(f"reading {sounds.file}", None)
        found = dict(_sounds(fetch(sounds, packages, report), frozenset(NAMES[language])))
        for name in NAMES[language]:
            yield Prompt(name, language, written[name], found[name])
    yield from _book(fetch(BOOK_PACKAGE, packages, report))


def _texts(package: Path) -> dict[str, str]:
    """What each prompt of a package says, as its list has it: `name: text` lines."""
    ((_, packed),) = (
        entry
        for entry in members(package, ("usr/share/doc/",))
        if re.search(r"/core-sounds-\w+\.txt\.gz$", entry[0])
    )
    lines = gzip.decompress(packed).decode("utf-8", "replace").splitlines()
    pairs = [line.split(":", 1) for line in lines if ":" in line and not line.startswith(";")]
    return {name: text.strip() for name, text in pairs}


def _sounds(package: Path, names: frozenset[str]) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for path, coded in members(package, ("usr/share/asterisk/sounds/",)):
        name = re.sub(r".*?/sounds/[^/]+/", "", path).removesuffix(".g722")
        if name in names:
            yield name, _decoded(coded)


def _decoded(coded: bytes) -> NDArray[np.float32]:
    """[n] samples of G.722 (64 kbit/s), which is always at SOUND_RATE."""
    av: Any = required("av")
    with av.open(io.BytesIO(coded), format="g722") as file:
        pieces = [frame.to_ndarray().reshape(-1) for frame in file.decode(audio=0)]
    return np.concatenate(pieces).astype(np.float32) / 32768.0


def _book(package: Path) -> Iterator[Prompt]:
    """Five sentences of Austen's "Sense and Sensibility"."""
    files = dict(members(package, ("usr/share/pocketsphinx/test/data/librivox/",)))
    by_name = {path.rpartition("/")[2]: content for path, content in files.items()}
    for line in by_name["transcription"].decode("utf-8").splitlines():
        if match := re.fullmatch(r"<s> (.*) </s> \((.*)\)", line.strip()):
            samples, rate = soundfile.read(io.BytesIO(by_name[f"{match[2]}.wav"]), dtype="float32")
            assert rate == SOUND_RATE, rate  # the hash says so
            yield Prompt(f"book-{match[2][-4:]}", "en", match[1], samples)


# --- writing the folder --------------------------------------------------------------------------


def write(prompts: list[Prompt], folder: Path) -> None:
    """manifest.json, a file for each prompt, and long recordings with pauses. OSError."""
    manifest = []
    for prompt in prompts:
        words = spoken_words(prompt.samples, SOUND_RATE, prompt.text)
        file = f"{prompt.language}-{prompt.name.replace('/', '_')}.flac"
        soundfile.write(folder / file, prompt.samples, SOUND_RATE, subtype="PCM_16")
        manifest.append(
            {
                "file": file,
                "start_s": 0.0,
                "end_s": len(prompt.samples) / SOUND_RATE,
                "text": prompt.text,
                "language": prompt.language,
                "seen_voice": False,
                "spelling": WHISPER,
                "words": _words(words),
            }
        )
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1), "utf-8")
    audio = Audio(folder)
    said = [Session(u.name, audio.of(u), u.text, u.words, u.language) for u in held_out(folder)]
    for language in sorted({session.language for session in said}):
        spoken = [session for session in said if session.language == language]
        for long in minutes_long(spoken, LONG_SECONDS, name=f"long_{language}"):
            _write_long(long, folder)


def _write_long(session: Session, folder: Path) -> None:
    stem = session.name.replace(" ", "_")
    soundfile.write(folder / f"{stem}.flac", session.pcm, RATE)
    entry = {
        "file": f"{stem}.flac",
        "language": session.language,
        "seconds": len(session.pcm) / RATE,
        "text": session.text,
        "spelling": WHISPER,
        "sentences": [{"words": _words(session.words)}],
    }
    (folder / f"{stem}.json").write_text(json.dumps(entry, indent=1), "utf-8")


def _words(words: tuple[SpokenWord, ...]) -> list[dict[str, Any]]:
    keys = {"word": "word", "start": "start_s", "end": "end_s"}
    return [{keys[key]: value for key, value in asdict(word).items()} for word in words]
