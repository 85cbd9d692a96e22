"""How Whisper is asked about a stretch of audio, and what its answer means. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lookhear.engine.core.request import Cost, Result
from lookhear.engine.messages import TranscriptionSettings
from lookhear.engine.speech.hypothesis import Hypothesis
from lookhear.engine.speech.recognizer import Stretch, max_answer
from lookhear.engine.whisper.prompt import WhisperPrompter
from lookhear.engine.whisper.request import WhisperRequest


@dataclass(frozen=True, slots=True)
class WindowRule:
    """How long a window the encoder sees for a stretch of audio. All in samples at 16 kHz."""

    step: int
    shortest: int
    longest: int
    margin: int  # zeros after the audio at least, so that the last word is not at the edge

    def window(self, num_samples: int) -> int:
        """Window length for num_samples of audio: padded up to a step, within the limits."""
        steps = -(-(num_samples + self.margin) // self.step)
        return min(max(steps * self.step, self.shortest), self.longest)


class WhisperRecognizer:
    """Every request hears the whole segment anew: in Whisper's encoder all audio sees all other."""

    joins_with_space = False

    def __init__(
        self, prompter: WhisperPrompter, window: WindowRule, settings: TranscriptionSettings
    ) -> None:
        self._prompter = prompter
        self._window = window
        self._settings = settings
        self.max_carried = prompter.max_prompt
        self.token_bytes = prompter.token_bytes
        self.decode_bytes = prompter.decode_bytes

    def cost(self, start: int, num_samples: int, num_committed: int) -> Cost:
        """The whole window, whatever was heard of it before."""
        return Cost(self._window.window(num_samples))

    def request(self, stretch: Stretch) -> WhisperRequest:
        """The whole segment, with committed tokens forced and the last hypothesis as draft."""
        settings = self._settings
        head, tail = self._prompter.prompt(
            settings.prompt, stretch.earlier, settings.task, timestamps=False
        )
        return WhisperRequest(
            key=stretch.key,
            priority=stretch.priority,
            samples=stretch.samples,
            window_samples=self._window.window(len(stretch.samples)),
            head=head,
            language=self._prompter.language_token(stretch.language),
            detect_language=self._prompter.detects_language,
            tail=tail,
            prefix=stretch.committed,
            draft=stretch.draft.tokens if stretch.draft else (),
            max_new_tokens=max_answer(len(stretch.samples)),
            align=settings.words,
            language_prior=self._prompter.language_tokens(
                stretch.languages.prior(self._prompter.languages)
            ),
        )

    def hypothesis(self, result: Result, num_committed: int, start: int) -> Hypothesis:
        """See `Recognizer`."""
        language = self._prompter.language_code(result.language)
        heard = {self._prompter.language_code(t): p for t, p in result.languages.items()}
        languages = {code: p for code, p in heard.items() if code is not None}
        hypothesis = Hypothesis.of(result, num_committed, start, language)
        return replace(hypothesis, languages=languages)
