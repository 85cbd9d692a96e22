"""How a transducer is asked about a recording that is all there, and what it means. Pure."""

from __future__ import annotations

from typing import Any

from lookhear.engine.core.request import Cost, Result
from lookhear.engine.messages import SAMPLE_RATE, TranscribeFile, TranscriptionSettings
from lookhear.engine.models import frames
from lookhear.engine.speech.file import Section
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.recognizer import Stretch
from lookhear.engine.speech.sentence_file import SentenceFile
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.speech.transcriber import Transcriber
from lookhear.engine.tokenizers.pieces import PieceTokenizer
from lookhear.engine.transducer.live import TransducerTurn
from lookhear.engine.transducer.request import TransducerRequest
from lookhear.engine.transducer.sound import Sound


class TransducerRecognizer:
    """See `Recognizer`."""

    joins_with_space = True
    max_carried = 0

    def __init__(self, tokenizer: PieceTokenizer, sound: Sound) -> None:
        self.token_bytes = tokenizer.token_bytes
        self.decode_bytes = tokenizer.decode_bytes
        self._sound = sound

    def cost(
        self,
        start: int,
        num_samples: int,
        num_committed: int,
        num_before: int = 0,
        num_heard: int = 0,
    ) -> Cost:
        """All of it."""
        return Cost(num_samples)

    def request(self, stretch: Stretch) -> TransducerRequest:
        """All of it."""
        return self._sound.whole(stretch.key, stretch.priority, stretch.samples[:], None)

    def hypothesis(self, result: Result, stretch: Stretch) -> Hypothesis:
        """See `Recognizer`."""
        return Hypothesis.of(result, 0, stretch.start)


class TransducerFile(SentenceFile):
    """See `SentenceFile`. A token is timed by the place that said it; a sentence by its tokens."""

    def _size(self, request: TransducerRequest) -> tuple[int, int]:
        return request.frames * frames.HOP // round(request.place * SAMPLE_RATE) + 1, 0

    def _add(self, *told: Any, **more: Any) -> None:
        super()._add(*told, **more)
        if not self._message.settings.words:
            self.heard.words.clear()


def transducer_transcriber(
    tokenizer: PieceTokenizer, sound: Sound, live: LiveConfig, cap: int
) -> Transcriber:
    """Of one language, which nobody has to tell. cap: longest piece of a file, samples."""
    recognizer = TransducerRecognizer(tokenizer, sound)

    def of(settings: TranscriptionSettings) -> TransducerRecognizer:
        return recognizer

    def start_file(message: TranscribeFile, section: Section | None = None) -> TransducerFile:
        return TransducerFile(message, recognizer, cap, section)

    return Transcriber(
        live,
        [],
        of,
        start_file,
        has_word_times=True,
        takes_context=False,
        listen=lambda message: TransducerTurn(message, recognizer, sound, live),
    )
