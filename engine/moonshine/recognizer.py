"""How Moonshine is asked about a stretch of audio, and what its answer means. Pure.

Every look encodes the whole open segment, which takes as long as the segment is and no longer:
there is no window to fill. A segment knows nothing of the text before it, and the model writes no
times.
"""

from __future__ import annotations

from lookhear.engine.core.request import Cost, Result
from lookhear.engine.messages import TranscribeFile, TranscriptionSettings
from lookhear.engine.moonshine.decoder import MoonshineDecoder
from lookhear.engine.moonshine.request import MoonshineRequest
from lookhear.engine.speech.file import Section
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.recognizer import Stretch, loop_room, max_answer
from lookhear.engine.speech.sentence_file import SentenceFile
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.speech.transcriber import Transcriber
from lookhear.engine.tokenizers.pieces import PieceTokenizer


class MoonshineRecognizer:
    """Of one turn or file. See `Recognizer`."""

    joins_with_space = False
    heeds_bars = False
    max_carried = 0

    def __init__(
        self, tokenizer: PieceTokenizer, temperature: float = 0.0, reach: int | None = None
    ) -> None:
        """reach: samples of what was heard before that are encoded again when there are more; None:
        all of them."""
        self._reach = reach
        self.token_bytes = tokenizer.token_bytes
        self.decode_bytes = tokenizer.decode_bytes
        self._temperature = temperature

    def cost(
        self,
        start: int,
        num_samples: int,
        num_committed: int,
        num_before: int = 0,
        num_heard: int = 0,
    ) -> Cost:
        """What is encoded of it."""
        known = 0 if self._reach is None else max(0, num_heard - self._reach)
        return Cost(max(0, num_samples - known))

    def request(self, stretch: Stretch) -> MoonshineRequest:
        """The whole segment, committed tokens forced, the last hypothesis as draft."""
        return MoonshineRequest(
            key=stretch.key,
            priority=stretch.priority,
            samples=stretch.samples[:],
            prefix=stretch.committed,
            draft=() if stretch.draft is None else stretch.draft.tokens,
            max_new_tokens=max_answer(len(stretch.samples)),
            loop_room=loop_room(stretch.num_voiced),
            temperature=self._temperature,
            at_least=stretch.at_least,
            beginning=stretch.beginning,
        )

    def hypothesis(self, result: Result, stretch: Stretch) -> Hypothesis:
        """See `Recognizer`."""
        return Hypothesis.of(result, len(stretch.committed), stretch.start, stretch.language)


class MoonshineFile(SentenceFile):
    """See `SentenceFile`."""

    def __init__(
        self,
        model: MoonshineDecoder,
        message: TranscribeFile,
        recognizer: MoonshineRecognizer,
        cap: int,
        section: Section | None = None,
    ) -> None:
        super().__init__(message, recognizer, cap, section)
        self._model = model

    def _size(self, request: MoonshineRequest) -> tuple[int, int]:
        return self._model.num_positions(len(request.samples)), 1 + len(request.prefix)


def moonshine_transcriber(
    model: MoonshineDecoder,
    tokenizer: PieceTokenizer,
    live: LiveConfig,
    cap: int,
    reach: int | None = None,
) -> Transcriber:
    """Of one language, which nobody has to tell. cap: longest piece of a file, samples. reach: see
    `MoonshineRecognizer`."""

    def recognizer(settings: TranscriptionSettings) -> MoonshineRecognizer:
        return MoonshineRecognizer(tokenizer, reach=reach)

    def start_file(message: TranscribeFile, section: Section | None = None) -> MoonshineFile:
        asked = MoonshineRecognizer(tokenizer, message.temperature)
        return MoonshineFile(model, message, asked, cap, section)

    return Transcriber(live, [], recognizer, start_file, takes_context=False)
