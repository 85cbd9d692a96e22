"""Who listens to turns and who reads files, of a transducer. Pure."""

from __future__ import annotations

from dataclasses import replace

from lookhear.engine.messages import (
    SAMPLE_RATE,
    TranscribeFile,
    TranscriptionSettings,
)
from lookhear.engine.models import frames
from lookhear.engine.speech.file import Section
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.sentence_file import TimedSentenceFile
from lookhear.engine.speech.streaming import streaming_transcriber
from lookhear.engine.speech.transcriber import Transcriber
from lookhear.engine.transducer.recognizer import TransducerRecognizer
from lookhear.engine.transducer.request import TransducerRequest
from lookhear.engine.transducer.sound import Feed, Sound


class TransducerFile(TimedSentenceFile):
    """See `TimedSentenceFile`. A token is timed by the place that said it."""

    def _size(self, request: TransducerRequest) -> tuple[int, int]:
        return request.frames * frames.HOP // round(request.place * SAMPLE_RATE) + 1, 0


def transducer_transcriber(
    recognizer: TransducerRecognizer, sound: Sound, live: LiveConfig, cap: int
) -> Transcriber:
    """cap: longest piece of a file, samples."""

    def start_file(message: TranscribeFile, section: Section | None = None) -> TransducerFile:
        told = replace(message.settings, language=recognizer.languages.told(message.settings))
        message = replace(message, settings=told)
        return TransducerFile(message, recognizer, cap, section)

    def feed(settings: TranscriptionSettings) -> Feed:
        return Feed(sound, sound.chunk(settings.delay), recognizer.prompt(settings))

    return streaming_transcriber(
        recognizer, live, start_file, feed, list(recognizer.languages.prompts)
    )
