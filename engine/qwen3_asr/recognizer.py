"""How Qwen3-ASR listens to a growing segment so that a tick costs the same however long it grows.

    log-mel     a window that is full is read for the last time, with the loudest value so far, and
                never again (it is *closed*): `windows.py`
    encoder     closed windows come from the encoder cache; only the open window is encoded
    decoder     prompt, closed windows: keys and values are pinned. Read anew: the open window and
                the text, committed tokens forced, the last hypothesis as draft

    [system: context] <audio_start> |closed|closed|...|open| <audio_end> ... committed | draft
    |------------ final, found in the prefix cache --------|----- read in every tick ---------|

Pure apart from log-mel on a CPU, which is arithmetic. Prompt and answer: `prompt.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lookhear.engine.adapters.adapters import Adapters
from lookhear.engine.core.request import Cost, Priority, Result
from lookhear.engine.messages import TranscriptionSettings
from lookhear.engine.models.audio_encoder import AudioDims
from lookhear.engine.paged.blocks import whole_blocks
from lookhear.engine.paged.request import Expectation, Medium, PagedRequest
from lookhear.engine.paged.sound import HOP
from lookhear.engine.qwen3_asr.header import HeaderGrammar
from lookhear.engine.qwen3_asr.prompt import (
    ASR_TEXT,
    PromptFrame,
    Transcript,
    language_code,
    language_name,
    parse_transcript,
)
from lookhear.engine.qwen3_asr.timed import TimedRequest
from lookhear.engine.qwen3_asr.windows import (
    SHORTEST,
    DeviceWindows,
    HostWindows,
    Windows,
    filled,
    num_final,
)
from lookhear.engine.sampling.expected import ExpectedWords
from lookhear.engine.sampling.params import SamplingParams
from lookhear.engine.speech.recognizer import Stretch, loop_room, max_answer
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.tokenizers.qwen import QwenTokenizer

HEADER_TOKENS = 8  # "language Cantonese<asr_text>" at most


@dataclass(frozen=True, slots=True)
class AsrConfig:
    """Of one checkpoint. freeze: whether full windows are closed for good; if not, everything is
    read and encoded anew in every tick, as the published recipe does (for comparison). by_device:
    whether log-mel is left to the device; where windows are closed only. times_words: whether the
    runner can tell when the words of an answer were said.
    Raises `CheckpointError` if the tokenizer lacks a token of the prompt."""

    tokenizer: QwenTokenizer
    dims: AudioDims
    freeze: bool = True
    by_device: bool = False
    times_words: bool = False
    adapters: Adapters | None = None

    def __post_init__(self) -> None:
        # A token that is missing must be known when the checkpoint is loaded, not in mid-session.
        PromptFrame.of(self.tokenizer, language="English")

    def new_windows(self) -> Windows:
        """Of a segment that begins."""
        if self.by_device and self.freeze:
            return DeviceWindows(self.dims)
        return HostWindows(self.dims, closes=self.freeze)


class AsrRecognizer:
    """Of one turn or file. See `Recognizer`."""

    joins_with_space = True
    heeds_bars = False
    max_carried = 0  # a segment knows nothing of the text before it

    def __init__(
        self, config: AsrConfig, settings: TranscriptionSettings, temperature: float = 0.0
    ) -> None:
        self._config = config
        self._settings = settings
        self._sampling = SamplingParams(temperature=temperature)
        self._adapter = None if config.adapters is None else config.adapters.of(settings.model)
        self._asr_text = config.tokenizer.token(ASR_TEXT)
        self._spell = config.tokenizer.token_bytes
        words = tuple(filter(None, map(config.tokenizer.without_added, settings.keywords)))
        self._expected: ExpectedWords | None = None
        if words:
            self._expected = ExpectedWords(words, config.tokenizer.encode, self.token_bytes)
        self._headers: HeaderGrammar | None = None
        if settings.languages:
            self._headers = HeaderGrammar.of(config.tokenizer, settings.languages)
        self._start: int | None = None  # of the segment that the features are of
        self._windows = config.new_windows()
        self._is_padded = False  # the features go beyond the samples: not for long
        self._header: tuple[int, ...] = ()  # how the segment's last answer began
        self._is_forced = False
        self._frames: dict[str | None, PromptFrame] = {}  # by the code of the language
        self._overhead = len(self._frame("pt").around(0).tokens) + HEADER_TOKENS

    def token_bytes(self, token: int) -> bytes:
        """UTF-8 bytes that a text token stands for."""
        # The tag is spelt out when it is decoded; whoever reads the words must never see it.
        return b"" if token == self._asr_text else self._spell(token)

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """UTF-8 bytes of text tokens, without the tag in front of them."""
        return b"".join(map(self.token_bytes, tokens))

    def cost(
        self,
        start: int,
        num_samples: int,
        num_committed: int,
        num_before: int = 0,
        num_heard: int = 0,
    ) -> Cost:
        """Closed windows cost the encoder nothing; blocks are reserved for all."""
        dims = self._config.dims
        frames = max(num_samples, SHORTEST) // HOP
        closed = 0
        if start == self._start and not self._is_padded:
            # Fewer than are closed now, if the segment is cut at a quiet place.
            final = num_final(num_samples) // dims.window_frames
            closed = min(self._windows.num_closed, final) * dims.window_frames
        prompt = dims.num_tokens(frames) + 1 + self._overhead + len(self._header) + num_committed
        tokens = whole_blocks(prompt + max_answer(num_samples))
        return Cost(max(0, frames - closed) * HOP, tokens)

    # --- requests --------------------------------------------------------------------------------

    def request(self, stretch: Stretch) -> PagedRequest | TimedRequest:
        """Closed windows, the open one, and the text so far: see the module."""
        request = self._decoded(stretch)
        if not (self._config.times_words and self._settings.words):
            return request
        return TimedRequest(request, stretch.samples[:], stretch.committed, stretch.language)

    def _decoded(self, stretch: Stretch) -> PagedRequest:
        media = self._media(stretch)
        count = sum(medium.num_tokens for medium in media)
        frame = self._frame(stretch.language)
        self._is_forced = frame.after[-1] == self._asr_text
        # Words may be settled while their language is not: it had no name that we know.
        header = () if self._is_forced else self._header
        is_settled = bool(stretch.committed)
        prefix = (*header, *stretch.committed) if is_settled else ()
        prompt = frame.around(count, prefix)
        places, at = [], prompt.audio_start
        for medium in media:
            places.append((at, medium))
            at += medium.num_tokens
        draft: tuple[int, ...] = ()
        if stretch.draft is not None:
            draft = (*(() if is_settled else header), *stretch.draft.tokens)
        expected = self._expected
        expectation = None
        if expected is not None:
            ends = None if self._is_forced or is_settled else self._asr_text
            expectation = Expectation(expected, stretch.committed, ends, stretch.is_open)
        final = sum(medium.num_tokens for medium in media[: self._windows.num_closed])
        return PagedRequest(
            key=stretch.key,
            priority=stretch.priority,
            tokens=prompt.tokens,
            media=tuple(places),
            draft=draft,
            max_new_tokens=max_answer(len(stretch.samples)) + HEADER_TOKENS,
            loop_room=loop_room(stretch.num_voiced),
            sampling=self._sampling,
            final_tokens=prompt.audio_start + final,
            adapter=self._adapter,
            expectation=expectation,
            grammar=None if self._is_forced or is_settled else self._headers,
        )

    def _frame(self, language: str | None) -> PromptFrame:
        """language: ISO code. Made once: only what is inside changes from tick to tick."""
        frame = self._frames.get(language)
        if frame is None:
            name = None if language is None else language_name(language)
            context = self._settings.context
            frame = PromptFrame.of(self._config.tokenizer, context=context, language=name)
            self._frames[language] = frame
        return frame

    def _media(self, stretch: Stretch) -> list[Medium]:
        """The segment's windows. Those that are full, and whose frames are final, are closed."""
        if stretch.start != self._start:
            self._header = ()
        if stretch.start != self._start or self._is_padded or not self._config.freeze:
            self._start, self._windows = stretch.start, self._config.new_windows()
        audio = filled(stretch.samples)
        self._is_padded = len(audio) > len(stretch.samples)
        # A piece of a file does not grow.
        return self._windows.hear(audio, is_whole=stretch.priority is Priority.BATCH)

    # --- results ---------------------------------------------------------------------------------

    def hypothesis(self, result: Result, stretch: Stretch) -> Hypothesis:
        """What follows the header of the answer, which says the language."""
        num_committed, start = len(stretch.committed), stretch.start
        if self._is_forced or num_committed:  # the header was part of the prompt
            return Hypothesis.of(result, num_committed, start, stretch.language)
        split = 0
        if self._asr_text in result.tokens:
            split = result.tokens.index(self._asr_text) + 1
        raw = self._config.tokenizer.decode(result.tokens)
        # A header that was never finished is no speech.
        answer = parse_transcript(raw, final=bool(split)) or Transcript(None, "")
        self._header = result.tokens[:split]
        language = None if answer.language is None else language_code(answer.language)
        words = result.tokens[split:] if answer.text.strip() else ()
        times = result.token_times
        heard = replace(
            result,
            tokens=words,
            logprobs=result.logprobs[split:][: len(words)],
            token_times=None if times is None else times[split:][: len(words)],
        )
        hypothesis = Hypothesis.of(heard, num_committed, start, language)
        return hypothesis._replace(language_logprob=min(result.logprobs[:split], default=0.0))
