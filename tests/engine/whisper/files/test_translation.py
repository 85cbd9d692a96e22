"""A file in a language without spaces, in English words: those have some."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from lookhear.engine.core.request import Result, StopReason
from lookhear.engine.messages import (
    SAMPLE_RATE,
    FileTranscribed,
    TranscribeFile,
    TranscriptionSettings,
)
from lookhear.engine.whisper.files.file import WhisperFile
from lookhear.engine.whisper.prompt import WhisperPrompter
from lookhear.engine.whisper.recognizer import WindowRule
from tests.engine.speech.scripted import FIRST_STAMP, SpeltTokens

WINDOW = WindowRule(30 * SAMPLE_RATE, 30 * SAMPLE_RATE, 30 * SAMPLE_RATE, 3200)


class Japanese(SpeltTokens):
    def __init__(self) -> None:
        super().__init__([" The", " trans", "lation", " costs"])
        self.languages = ["en", "ja"]


@pytest.mark.parametrize("language", [None, "ja"])
@pytest.mark.parametrize(
    ("pause", "segments"),
    [(0.1, [" The translation costs"]), (9.0, [" The translation", " costs"])],
)
def test_words_of_a_translation_are_whole(
    language: str | None, pause: float, segments: list[str]
) -> None:
    """Also where a segment is cut, since a long pause was left out of it."""
    spoken = [(1.0, 2.0), (2.0 + pause, 3.0 + pause)]
    speech = [(round(a * SAMPLE_RATE), round(b * SAMPLE_RATE)) for a, b in spoken]
    settings = TranscriptionSettings("m", language, task="translate", words=True)
    samples = np.zeros(15 * SAMPLE_RATE, np.float32)
    message = TranscribeFile("f", settings, samples, True, speech=speech)
    vocabulary = Japanese()
    job = WhisperFile(message, cast(WhisperPrompter, vocabulary), WINDOW, None)
    key = job.make_request().key
    behind, end = (sample / SAMPLE_RATE for sample in job._audio.speech[-1])
    told = (FIRST_STAMP, *range(4), vocabulary.timestamp(end))
    words = [(behind - 1.3, behind - 1.2), (behind - 1.2, behind - 0.7)]
    words += [(behind + 0.1, behind + 0.2), (behind + 0.5, end)]
    times = ((0.0, 0.0), *words, (end, end))
    spoken_in = vocabulary.language_token("ja")
    answer = Result(
        key, told, (-0.1,) * 6, 0, StopReason.END, language=spoken_in, token_times=times
    )
    [done] = job.absorb(answer)
    assert isinstance(done, FileTranscribed)
    assert (done.text, done.language) == ("The translation costs", "ja")
    assert [word.word for word in done.words] == ["The", "translation", "costs"]
    assert [segment.text for segment in done.segments] == segments
