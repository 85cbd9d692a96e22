"""Who listens to turns and who reads files, of a Parakeet. Pure."""

from __future__ import annotations

from lookhear.engine.messages import StartTurn, TranscribeFile, TranscriptionSettings
from lookhear.engine.parakeet.sound import WholeFeed, WholeSound
from lookhear.engine.speech.file import Section
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.streaming import StreamingTurn
from lookhear.engine.speech.transcriber import Transcriber
from lookhear.engine.transducer.recognizer import TransducerRecognizer
from lookhear.engine.transducer.transcriber import TransducerFile


def parakeet_transcriber(
    recognizer: TransducerRecognizer, sound: WholeSound, live: LiveConfig
) -> Transcriber:
    """live: its long pause ends a recording."""

    def of(settings: TranscriptionSettings) -> TransducerRecognizer:
        return recognizer

    def start_file(message: TranscribeFile, section: Section | None = None) -> TransducerFile:
        return TransducerFile(message, recognizer, sound.cap, section)

    def listen(message: StartTurn) -> StreamingTurn:
        return StreamingTurn(message, recognizer, lambda: WholeFeed(sound), live)

    return Transcriber(
        live,
        [],
        of,
        start_file,
        has_word_times=True,
        takes_context=False,
        detects_among=False,
        listen=listen,
    )
