"""How a Voxtral Realtime is asked about a recording that is all there, and who listens to turns and
reads files. Pure."""

from __future__ import annotations

from lookhear.engine.core.request import Cost, Result
from lookhear.engine.messages import TranscribeFile, TranscriptionSettings
from lookhear.engine.speech.file import Section
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.recognizer import Stretch
from lookhear.engine.speech.sentence_file import TimedSentenceFile
from lookhear.engine.speech.streaming import streaming_transcriber
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.speech.transcriber import Transcriber
from lookhear.engine.tokenizers.tekken import TekkenTokenizer
from lookhear.engine.voxtral.request import VoxtralRequest
from lookhear.engine.voxtral.sound import DELAYS, STEP, Feed, Sound

FILE_DELAY = DELAYS["xhigh"]  # nobody waits for a step of a file


class VoxtralRecognizer:
    """See `StreamingRecognizer`."""

    joins_with_space = True
    heeds_bars = False
    max_carried = 0

    def __init__(self, tokenizer: TekkenTokenizer, sound: Sound) -> None:
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
        """All of it, and the silence around."""
        return Cost(num_samples + (self._sound.left + FILE_DELAY + 16) * STEP)

    def request(self, stretch: Stretch) -> VoxtralRequest:
        """All of it."""
        return self._sound.whole(stretch.key, stretch.priority, stretch.samples[:], FILE_DELAY)

    def hypothesis(self, result: Result, stretch: Stretch) -> Hypothesis:
        """See `Recognizer`."""
        return self.heard(result, stretch.start)

    def heard(self, result: Result, start: int) -> Hypothesis:
        """See `StreamingRecognizer`."""
        return Hypothesis.of(result, 0, start)


class VoxtralFile(TimedSentenceFile):
    """See `TimedSentenceFile`. A token is timed by the step that wrote it."""

    def _size(self, request: VoxtralRequest) -> tuple[int, int]:
        return request.steps, 0


def voxtral_transcriber(
    recognizer: VoxtralRecognizer, sound: Sound, live: LiveConfig, cap: int
) -> Transcriber:
    """cap: longest piece of a file, samples."""

    def start_file(message: TranscribeFile, section: Section | None = None) -> VoxtralFile:
        return VoxtralFile(message, recognizer, cap, section)

    def feed(settings: TranscriptionSettings) -> Feed:
        return Feed(sound, sound.steps(settings.delay))

    return streaming_transcriber(recognizer, live, start_file, feed)
