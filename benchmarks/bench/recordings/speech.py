"""What the sessions of a benchmark say, and the truth about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from lookhear.bench.measures.trace import RATE
from lookhear.bench.measures.utterances import utterances
from lookhear.bench.recordings.dataset import DATA, Audio, held_out, long_recordings, looped
from lookhear.bench.recordings.human import HUMAN, human_folder
from lookhear.bench.recordings.session import Session
from lookhear.errors import SourceError

GOLDEN = 0.618034  # multiples of it, modulo 1, spread evenly


def held_out_sessions(folder: Path = DATA, limit: int | None = None) -> list[Session]:
    """Every held-out utterance as a session. SourceError."""
    folder = _checked(folder, "manifest.json")
    audio = Audio(folder)
    return [
        Session(u.name, audio.of(u), u.text, u.words, u.language, u.split, u.spelling)
        for u in held_out(folder, limit)
    ]


def long_session(
    name: str, start: int, seconds: float, folder: Path = DATA, language: str | None = None
) -> Session:
    """The long recordings in turn, beginning with number `start`; of one language, if named.

    SourceError if there are none.
    """
    folder = _checked(folder, "long_*.json")
    recordings = [r for r in long_recordings(folder) if language in (None, r.language)]
    if not recordings:
        raise SourceError(f"{folder}: expected a long recording in {language!r}, found none")
    order = [recordings[(start + n) % len(recordings)] for n in range(len(recordings))]
    pcm, text, words = looped(order, Audio(folder), seconds)
    return Session(name, pcm, text, words, order[0].language, spelling=order[0].spelling)


def crowd(session: Session, count: int) -> list[Session]:
    """`count` speakers of the same text, so that their WER compares with that of one.

    Each has its own loudness and begins a little later than the one before: no cache of a server
    can take one for another.
    """
    return [_variant(session, number) for number in range(count)]


def _variant(session: Session, number: int) -> Session:
    loudness = 0.6 + 0.4 * (number * GOLDEN % 1.0)
    shift = int((number * 37 % 200) / 1000 * RATE)  # under a fifth of a second
    pcm = np.zeros(shift + len(session.pcm), "<i2")
    pcm[shift:] = np.rint(session.pcm * np.float32(loudness)).astype("<i2")
    seconds = shift / RATE
    words = tuple(
        replace(word, start=word.start + seconds, end=word.end + seconds) for word in session.words
    )
    return replace(session, name=f"{session.name} {number}", pcm=pcm, words=words)


def sentences(session: Session) -> list[Session]:
    """The session cut in the middles of its pauses: what an engine for whole files gets at best."""
    found = []
    parts = utterances(session.words)
    for number, part in enumerate(parts):
        said = session.words[part.start : part.stop]
        start, end = 0.0, len(session.pcm) / RATE
        if number:
            start = (session.words[part.start - 1].end + said[0].start) / 2
        if part.stop < len(session.words):
            end = (said[-1].end + session.words[part.stop].start) / 2
        words = tuple(replace(w, start=w.start - start, end=w.end - start) for w in said)
        text = " ".join(word.word for word in said)
        pcm = session.pcm[int(start * RATE) : int(end * RATE)]
        name = f"{session.name}/{number}"
        found.append(replace(session, name=name, pcm=pcm, text=text, words=words, parts=()))
    return found


def _checked(folder: Path, pattern: str) -> Path:
    """The folder itself; of the name HUMAN, where the recordings of people are."""
    if folder == HUMAN and not folder.is_dir():
        return human_folder()
    if folder == DATA and not folder.is_dir():
        raise SourceError(
            "expected --data FOLDER with recordings (manifest.json, long_*.json and the audio that "
            "they name): the package carries none, the repository has some in tests/data"
        )
    if not any(folder.glob(pattern)):
        raise SourceError(
            f"{folder}: expected recordings ({pattern} and the audio it names); name their folder "
            "with --data, the repository has some in tests/data"
        )
    return folder
