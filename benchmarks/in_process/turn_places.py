"""Where a recording may be cut between two words, for `benchmarks.conversation.turn_ends`.

Of synthesised speech the places are known. Of people's only the text is; letters spread over the
loud stretches are a fifth of a second off, which is inside a word more often than not. So a model
hears the recording as a file, and the places are between words that it heard as they stand in the
text, one behind the other, when it says that they were. There, a place is where it is quiet for a
moment: nobody pauses in full voice.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Sequence

import numpy as np

from lookhear.bench.measures.trace import RATE
from lookhear.bench.recordings.session import Session
from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import (
    SAMPLE_RATE,
    FileTranscribed,
    ModelCard,
    TranscribeFile,
    TranscriptionSettings,
    Word,
)
from lookhear.media.audio.resample import resample
from lookhear.media.voice.silero import SileroModel
from lookhear.media.voice.stretches import speech_stretches

SENTENCE_ENDS = (".", "?", "!", ":", ";")
SEARCH = 0.08  # seconds around the end of a word and the start of the next
EARLY = 0.04  # seconds: so much sooner than espeak-ng's words are those that whisper-base hears
MOMENT = 0.02  # seconds
QUIET = 0.25  # of the level that a tenth of all moments is above
Gap = tuple[float, float]  # the end of a word, the start of the next, in seconds


def known(session: Session) -> list[Gap]:
    """By the recording's own word times, but for those behind a sentence."""
    words = [(word.word, word.start, word.end) for word in session.words]
    return [
        (end, start)
        for (word, _, end), (_, start, _) in zip(words, words[1:], strict=False)
        if not _ends_sentence(word)
    ]


def heard(session: Session, core: EngineCore, card: ModelCard, voice: SileroModel) -> list[Gap]:
    """By the model's, where it heard both words; but for those behind a sentence."""
    samples = resample(session.pcm.astype(np.float32) / 32768.0, RATE, SAMPLE_RATE)
    language = session.language if session.language in card.languages else None
    settings = TranscriptionSettings(model=card.id, language=language, words=True)
    speech = speech_stretches(voice, samples)
    core.submit(TranscribeFile("places", settings, samples, timestamps=True, speech=speech))
    words: list[Word] = []
    while core.has_work:
        for event in core.step():
            words = event.words if isinstance(event, FileTranscribed) else words
    said = [word.word for word in session.words]
    return [
        (words[place].end + EARLY, words[place + 1].start + EARLY)
        for index, place in _pairs(said, [word.word for word in words])
        if not _ends_sentence(said[index])
    ]


def quiet_places(session: Session, gaps: Sequence[Gap]) -> list[float]:
    """The quietest moment around each, in seconds, but for those that are loud."""
    size = round(MOMENT * RATE)
    power = (session.pcm.astype(np.float64) / 32768.0) ** 2
    level = np.sqrt(np.convolve(power, np.ones(size) / size, mode="same"))
    most = QUIET * float(np.percentile(level[::size], 90))
    found = []
    for gap in gaps:
        low = max(round((min(gap) - SEARCH) * RATE), 0)
        around = level[low : round((max(gap) + SEARCH) * RATE)]
        if len(around) and around.min() < most:
            found.append((low + int(around.argmin())) / RATE)
    return found


def _pairs(said: Sequence[str], found: Sequence[str]) -> list[tuple[int, int]]:
    """Where both have the same two words in a row."""
    one, other = (list(map(_letters, words)) for words in (said, found))
    blocks = difflib.SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return [(block.a + n, block.b + n) for block in blocks for n in range(block.size - 1)]


def _letters(word: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", word.lower()) if c.isalnum())


def _ends_sentence(word: str) -> bool:
    return word.rstrip("\"')").endswith(SENTENCE_ENDS)
