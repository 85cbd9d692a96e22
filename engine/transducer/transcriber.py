"""Who listens to turns and who reads files, of a transducer. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lookhear.engine.messages import (
    SAMPLE_RATE,
    StartTurn,
    TranscribeFile,
    TranscriptionSettings,
)
from lookhear.engine.models import frames
from lookhear.engine.speech.file import Section
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.sentence_file import SentenceFile
from lookhear.engine.speech.streaming import StreamingTurn
from lookhear.engine.speech.transcriber import Transcriber
from lookhear.engine.transducer.recognizer import TransducerRecognizer
from lookhear.engine.transducer.request import TransducerRequest
from lookhear.engine.transducer.sound import Feed, Sound


class TransducerFile(SentenceFile):
    """See `SentenceFile`. A token is timed by the place that said it; a sentence by its tokens."""

    def _size(self, request: TransducerRequest) -> tuple[int, int]:
        return request.frames * frames.HOP // round(request.place * SAMPLE_RATE) + 1, 0

    def _add(self, *told: Any, **more: Any) -> None:
        super()._add(*told, **more)
        if not self._message.settings.words:
            self.heard.words.clear()


def transducer_transcriber(
    recognizer: TransducerRecognizer, sound: Sound, live: LiveConfig, cap: int
) -> Transcriber:
    """cap: longest piece of a file, samples."""

    def of(settings: TranscriptionSettings) -> TransducerRecognizer:
        return recognizer

    def start_file(message: TranscribeFile, section: Section | None = None) -> TransducerFile:
        told = replace(message.settings, language=recognizer.languages.told(message.settings))
        message = replace(message, settings=told)
        return TransducerFile(message, recognizer, cap, section)

    def listen(message: StartTurn) -> StreamingTurn:
        settings = message.settings
        chunk, prompt = sound.chunk(settings.delay), recognizer.prompt(settings)
        return StreamingTurn(message, recognizer, lambda: Feed(sound, chunk, prompt), live)

    return Transcriber(
        live,
        list(recognizer.languages.prompts),
        of,
        start_file,
        has_word_times=True,
        takes_context=False,
        detects_among=False,
        listen=listen,
    )
