"""How Voxtral is asked to write down what it hears, and what its answer means. Pure.

    <s>[INST][BEGIN_AUDIO][AUDIO]...[/INST]lang:en[TRANSCRIBE]the words

A segment is one window, encoded anew with every look, and knows nothing of the text before it. No
language is named where none is known; the model says neither which it heard, nor times.
Source: `encode_transcription` of mistral-common 1.13.
"""

from __future__ import annotations

from dataclasses import dataclass

from lookhear.engine.adapters.adapters import Adapters
from lookhear.engine.core.request import Cost, Priority, Result
from lookhear.engine.messages import TranscribeFile, TranscriptionSettings
from lookhear.engine.paged.blocks import whole_blocks
from lookhear.engine.paged.request import PagedRequest
from lookhear.engine.paged.sound import HOP
from lookhear.engine.sampling.params import SamplingParams
from lookhear.engine.speech.file import Section
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.recognizer import Stretch, loop_room, max_answer
from lookhear.engine.speech.sentence_file import SentenceFile
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.speech.transcriber import Transcriber
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.engine.voxtral_chat.sound import PaddedEars
from lookhear.engine.voxtral_chat.template import BEGIN, PAD

TRANSCRIBE = "[TRANSCRIBE]"
LANGUAGES = ("de", "en", "es", "fr", "hi", "it", "nl", "pt")  # that its makers name
PROMPT_TOKENS = 16  # around the sound, at most


@dataclass(frozen=True, slots=True)
class Dictation:
    """Of one checkpoint. before, after: tokens around what is heard, pad: the placeholder.
    transcribe: the token behind which the words come."""

    tokenizer: QwenTokenizer
    ears: PaddedEars
    before: tuple[int, ...]
    pad: int
    after: int
    transcribe: int
    adapters: Adapters | None = None

    @classmethod
    def of(cls, tokenizer: QwenTokenizer, ears: PaddedEars, adapters: Adapters | None) -> Dictation:
        """Raises `CheckpointError` if the tokenizer lacks a token of the prompt."""
        begin, pad, after, transcribe = map(tokenizer.token, (BEGIN, PAD, "[/INST]", TRANSCRIBE))
        before = (tokenizer.token("<s>"), tokenizer.token("[INST]"), begin)
        return cls(tokenizer, ears, before, pad, after, transcribe, adapters)

    @property
    def piece(self) -> int:
        """Samples of a window: the longest piece of a file."""
        return self.ears.dims.audio.max_frames * HOP

    def most_tokens(self, num_samples: int) -> int:
        """Of a request about so much of a turn, its text and what is to come of it included."""
        return PROMPT_TOKENS + self.ears.num_tokens(num_samples) + 2 * max_answer(num_samples)

    def behind(self, language: str | None) -> tuple[int, ...]:
        """What stands between the sound and the words. language: ISO code."""
        named = self.tokenizer.encode(f"lang:{language}") if language else []
        return (self.after, *named, self.transcribe)


class VoxtralDictation:
    """Of one turn or file. See `Recognizer`."""

    joins_with_space = True
    heeds_bars = False
    max_carried = 0

    def __init__(
        self, of: Dictation, settings: TranscriptionSettings, temperature: float = 0.0
    ) -> None:
        self._of = of
        self._sampling = SamplingParams(temperature=temperature)
        self._adapter = None if of.adapters is None else of.adapters.of(settings.model)
        self.token_bytes = of.tokenizer.token_bytes
        self.decode_bytes = of.tokenizer.decode_bytes

    def cost(
        self,
        start: int,
        num_samples: int,
        num_committed: int,
        num_before: int = 0,
        num_heard: int = 0,
    ) -> Cost:
        """Whole windows; blocks for them and the text."""
        heard = self._of.ears.num_tokens(num_samples)
        tokens = PROMPT_TOKENS + heard + num_committed + max_answer(num_samples)
        return Cost(heard, whole_blocks(tokens))

    def request(self, stretch: Stretch) -> PagedRequest:
        """The whole segment, committed tokens forced, the last hypothesis as draft."""
        of, tokens, media = self._of, list(self._of.before), []
        # A piece of a file may be asked about again, what grows will not.
        is_whole = stretch.priority is Priority.BATCH
        for window in of.ears.windows(stretch.samples[:], is_final=is_whole):
            media.append((len(tokens), window))
            tokens += [of.pad] * window.num_tokens
        tokens += of.behind(stretch.language)
        return PagedRequest(
            key=stretch.key,
            priority=stretch.priority,
            tokens=(*tokens, *stretch.committed),
            media=tuple(media),
            draft=() if stretch.draft is None else stretch.draft.tokens,
            max_new_tokens=max_answer(len(stretch.samples)),
            loop_room=loop_room(stretch.num_voiced),
            sampling=self._sampling,
            adapter=self._adapter,
        )

    def hypothesis(self, result: Result, stretch: Stretch) -> Hypothesis:
        """See `Recognizer`."""
        return Hypothesis.of(result, len(stretch.committed), stretch.start)


class DictatedFile(SentenceFile):
    """See `SentenceFile`."""

    def _size(self, request: PagedRequest) -> tuple[int, int]:
        audio = sum(medium.num_tokens for _, medium in request.media)
        return audio, len(request.tokens) - audio


def dictation_transcriber(of: Dictation, live: LiveConfig) -> Transcriber:
    """live: how turns are heard."""

    def recognizer(settings: TranscriptionSettings) -> VoxtralDictation:
        return VoxtralDictation(of, settings)

    def start_file(message: TranscribeFile, section: Section | None = None) -> DictatedFile:
        asked = VoxtralDictation(of, message.settings, message.temperature)
        return DictatedFile(message, asked, of.piece, section)

    return Transcriber(
        live,
        list(LANGUAGES),
        recognizer,
        start_file,
        takes_context=False,
        detects_among=False,
        adapters=of.adapters,
    )
