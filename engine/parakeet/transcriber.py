"""Who listens to turns and who reads files, of a Parakeet. Pure."""

from __future__ import annotations

from lookhear.engine.messages import TranscribeFile
from lookhear.engine.parakeet.sound import WholeFeed, WholeSound
from lookhear.engine.speech.file import Section
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.streaming import streaming_transcriber
from lookhear.engine.speech.transcriber import Transcriber
from lookhear.engine.transducer.recognizer import TransducerRecognizer
from lookhear.engine.transducer.transcriber import TransducerFile


def parakeet_transcriber(
    recognizer: TransducerRecognizer, sound: WholeSound, live: LiveConfig
) -> Transcriber:
    """live: its long pause ends a recording."""

    def start_file(message: TranscribeFile, section: Section | None = None) -> TransducerFile:
        return TransducerFile(message, recognizer, sound.cap, section)

    return streaming_transcriber(recognizer, live, start_file, lambda _: WholeFeed(sound))
