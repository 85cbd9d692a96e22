"""How Whisper is asked about a stretch of audio, and what its answer means. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lookhear.engine.adapters.adapters import Adapters
from lookhear.engine.core.request import Cost, Result
from lookhear.engine.messages import SAMPLE_RATE, TranscriptionSettings
from lookhear.engine.sampling.alternatives import Doubts
from lookhear.engine.speech.recognizer import Stretch, loop_room, max_answer
from lookhear.engine.speech.text.agreement import is_punctuation
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.speech.text.sentences import is_closing, is_sentence
from lookhear.engine.whisper.prompt import WhisperPrompter
from lookhear.engine.whisper.request import Settled, WhisperRequest

STAMPS = 16  # timestamps that an answer has room for
PAUSE = SAMPLE_RATE // 10  # less silence than this behind a segment is where it was cut
NEAR = SAMPLE_RATE // 2  # speech so close to the end of the audio is not waited for


@dataclass(frozen=True, slots=True)
class WindowRule:
    """How long a window the encoder sees for a stretch of audio. All in samples at 16 kHz."""

    step: int
    shortest: int
    longest: int
    margin: int  # zeros after the audio at least, so that the last word is not at the edge
    open: int = 0  # of its end, what a look at more audio reads again; 0: all of it

    def window(self, num_samples: int) -> int:
        """Window length for num_samples of audio: padded up to a step, within the limits."""
        steps = -(-(num_samples + self.margin) // self.step)
        return min(max(steps * self.step, self.shortest), self.longest)

    def holds(self, num_samples: int) -> bool:
        """Whether the longest window has room for that much audio and the margin."""
        return num_samples + self.margin <= self.longest

    def settled(self, num_samples: int) -> int:
        """Of so many samples, those that are not read again when there are more of them."""
        steps = -(-(num_samples + self.margin) // self.step)
        return max(0, min(steps * self.step, self.longest) - self.open) if self.open else 0


def _guess(stretch: Stretch, prior: Mapping[str, float]) -> str | None:
    """The language that will most probably be heard: what the last tick heard, or what the session
    is in. prior: log-probabilities before the stretch is heard."""
    if stretch.draft is not None and stretch.draft.language is not None:
        return stretch.draft.language
    best = max(prior, key=lambda code: prior[code], default=None)
    # A wrong guess costs a pass over the prompt in vain, a right one saves a pass.
    return best if best is not None and math.exp(prior[best]) > 0.5 else None


class WhisperRecognizer:
    """Every request hears the whole segment: in Whisper's encoder all audio sees all other. What
    has enough audio behind it would hardly become another by more of that, and is read once."""

    joins_with_space = False
    heeds_bars = True

    def __init__(
        self,
        prompter: WhisperPrompter,
        window: WindowRule,
        settings: TranscriptionSettings,
        adapters: Adapters | None = None,
        doubts: Doubts | None = None,
    ) -> None:
        """doubts: of a text, that are thought over; None: none is."""
        self._adapter = None if adapters is None else adapters.of(settings.model)
        self._prompter = prompter
        self._window = window
        self._settings = settings
        self._expected = prompter.expected(settings.keywords)
        self._doubts = doubts
        self.max_carried = prompter.max_prompt
        self.token_bytes = prompter.token_bytes
        self.decode_bytes = prompter.decode_bytes

    def cost(
        self,
        start: int,
        num_samples: int,
        num_committed: int,
        num_before: int = 0,
        num_heard: int = 0,
    ) -> Cost:
        """What the encoder reads."""
        known = self._window.settled(num_heard) if self._adapter is None else 0
        new = self._window.window(num_samples) - known
        return Cost(min(num_before + new, self._window.longest))

    def request(self, stretch: Stretch) -> WhisperRequest:
        """The whole segment, with committed tokens forced and the last hypothesis as draft.

        What was said before it is heard and forced as in a file: each segment between timestamps,
        then the one at which this segment begins. Without them the model takes the first full stop
        for the end of all.
        """
        settings, before = self._settings, stretch.before
        is_stamped = bool(before.segments) and not stretch.asks_language
        prior = stretch.languages.prior(self._prompter.languages)
        head, tail = self._prompter.prompt(
            stretch.prompt,
            () if is_stamped else stretch.carried,
            settings.task,
            timestamps=is_stamped,
        )
        samples = stretch.samples[:]
        if before.segments:
            samples = np.concatenate([*(held.samples for held in before.segments), samples])
        prefix = self._prefix(stretch)
        own = self._window.window(len(stretch.samples))
        window = min(before.num_samples + own, self._window.longest)
        if stretch.asks_language:
            answer = 1
        else:
            answer = max_answer(len(stretch.samples)) + (STAMPS if is_stamped else 0)
        return WhisperRequest(
            key=stretch.key,
            priority=stretch.priority,
            samples=samples,
            window_samples=window,
            settled=self._settled(stretch, window) if self._adapter is None else (),
            segment=stretch.beginning if is_stamped and self._keeps else None,
            timestamps=is_stamped,
            end_tokens=self._end_tokens(stretch),
            head=head,
            language=self._prompter.language_token(stretch.language),
            detect_language=self._prompter.detects_language,
            tail=tail,
            prefix=prefix,
            num_earlier=len(prefix) - len(stretch.committed),
            draft=stretch.draft.written if stretch.draft else (),
            max_new_tokens=answer,
            loop_room=loop_room(stretch.num_voiced),
            barred=stretch.barred,
            align=settings.words and not stretch.asks_language,
            language_prior=self._prompter.language_tokens(prior),
            language_guess=self._prompter.language_token(_guess(stretch, prior)),
            expected=self._expected,
            doubts=self._doubts if self._is_thought_over(stretch) else None,
            is_open=stretch.is_open,
            adapter=self._adapter,
            at_least=stretch.at_least,
            closes=settings.provisional and not stretch.is_open and not stretch.asks_language,
            detects_alone=self._detects_alone(stretch),
        )

    def _is_thought_over(self, stretch: Stretch) -> bool:
        """Looks that second thoughts change agree later: the first text of a segment has none. Nor
        has who speaks on, where many do: what is heard late for all of them is no better text."""
        if stretch.asks_language:
            return False
        return not stretch.is_open or bool(stretch.committed and not stretch.is_late)

    def _detects_alone(self, stretch: Stretch) -> bool:
        """What a client's prompt is in says nothing of what is spoken. What is heard behind other
        speech says nothing of its language anyway."""
        is_asked = self._prompter.detects_language and not self._settings.language
        return bool(is_asked and stretch.prompt.strip() and not stretch.before.segments)

    @property
    def _keeps(self) -> bool:
        """Whether what a segment begins with is kept for its next look."""
        return bool(self._window.open) and self._adapter is None

    def _settled(self, stretch: Stretch, window: int) -> tuple[Settled, ...]:
        """Of a window of so many samples: what was said before, and most of the segment."""
        before, marks = stretch.before, []
        if before.beginning is not None:
            marks.append(Settled(before.beginning, before.num_samples))
        own = min(self._window.settled(len(stretch.samples)), window - before.num_samples)
        if stretch.beginning is not None and own:
            marks.append(Settled(stretch.beginning, before.num_samples + own))
        return tuple(marks)

    def _prefix(self, stretch: Stretch) -> tuple[int, ...]:
        """Forced tokens: earlier text and its times, then the committed. What goes on in the midst
        of a sentence has no times in front: it would be written as another one. A sentence begins
        with a capital, though its first word may have been left out, and behind a pause within one
        there is a comma: a model that finds none in front of it writes none from then on."""
        if not stretch.before.segments or stretch.asks_language:
            return stretch.committed
        stamp = self._prompter.timestamp
        tokens: list[int] = []
        at, is_apart = 0, True
        for held in stretch.before.segments:
            if is_apart:
                tokens.append(stamp((at + held.start) / SAMPLE_RATE))
                tokens.extend(self._prompter.capital(held.tokens))
            else:
                tokens.extend(held.tokens)
            is_apart = is_sentence(held.tokens, self.decode_bytes)
            if is_apart:
                tokens.append(stamp((at + held.end) / SAMPLE_RATE))
            elif len(held.samples) - held.end >= PAUSE:
                tokens.extend(self._prompter.comma(held.tokens, held.language))
            at += len(held.samples)
        if is_apart:
            tokens.append(stamp((at + stretch.voiced_from) / SAMPLE_RATE))
        return (*tokens, *stretch.committed)

    def _end_tokens(self, stretch: Stretch) -> frozenset[int]:
        """Timestamps that end the text: behind them nobody speaks, as far as there is audio."""
        if not stretch.before.segments or stretch.asks_language:
            return frozenset()
        last = max(stretch.voiced_from, stretch.voiced_until - NEAR)
        seconds = (stretch.before.num_samples + last) / SAMPLE_RATE
        return frozenset(self._prompter.timestamps_from(seconds))

    def hypothesis(self, result: Result, stretch: Stretch) -> Hypothesis:
        """See `Recognizer`."""
        language = self._prompter.language_code(result.language)
        heard = {self._prompter.language_code(t): p for t, p in result.languages.items()}
        languages = {code: p for code, p in heard.items() if code is not None}
        start = stretch.start - stretch.before.num_samples
        forced = len(self._prefix(stretch))
        heard_all = Hypothesis.of(result, forced, start, language, is_bounded=True)
        heard_all = heard_all.without(self._marks(stretch.committed))
        heard_all = heard_all._replace(closing=self._closing(result))
        if stretch.before.segments and not stretch.asks_language:  # it would be theirs, too
            return heard_all
        return heard_all._replace(languages=languages)

    def _marks(self, committed: Sequence[int]) -> Callable[[int], bool]:
        """What is no text of a segment: times, and in front of its first word the full stop of the
        segment before. Committed as its own, that makes the model believe that all was said. Nor is
        one that stands apart behind another: it is written for noise, in which nobody speaks."""
        spell = self._prompter.token_bytes
        in_front, is_behind = not committed, bool(committed) and is_closing(spell(committed[-1]))

        def is_mark(token: int) -> bool:
            nonlocal in_front, is_behind
            if self._is_stamp(token):
                return True
            data = spell(token)
            is_sign = is_closing(data)
            in_front = in_front and is_sign
            is_apart = is_behind and is_sign and data.startswith(b" ")
            is_behind = is_sign
            return in_front or is_apart

        return is_mark

    def _closing(self, result: Result) -> float | None:
        """See `Hypothesis`."""
        at = len(result.tokens)
        while at and self._is_sign(result.tokens[at - 1]):
            at -= 1
        return math.exp(result.closings[at]) if at < len(result.closings) else None

    def _is_sign(self, token: int) -> bool:
        return self._is_stamp(token) or is_punctuation(self._prompter.token_bytes(token))

    def _is_stamp(self, token: int) -> bool:
        return self._prompter.timestamp_seconds(token) is not None
