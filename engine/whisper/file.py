"""A whole recording, one window after another. Pure; satisfies `Owner`.

With full windows, the sliding window of openai/whisper (`transcribe.py`): decode 30 s with
timestamp tokens, take the segments they delimit, move on to the end of the last complete one. A
checkpoint for short windows hears less at once and all of it: the recording is cut at quiet places.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from lookhear.engine.core.request import Cost, Priority, Result
from lookhear.engine.messages import (
    SAMPLE_RATE,
    Event,
    FileFailed,
    FileTranscribed,
    Segment,
    TranscribeFile,
    Word,
)
from lookhear.engine.speech.hypothesis import Hypothesis
from lookhear.engine.speech.quiet import quietest
from lookhear.engine.whisper.prompt import Prompter
from lookhear.engine.whisper.recognizer import WindowRule
from lookhear.engine.whisper.request import WhisperRequest

SecondsOf = Callable[[int], float | None]  # seconds of a timestamp token, None for any other


class FileTranscription:
    """Turns `TranscribeFile` into `FileTranscribed`, one window at a time.

    cap: longest piece in samples, cut at the quietest place of its second half; None: full windows.
    """

    def __init__(
        self,
        message: TranscribeFile,
        prompter: Prompter,
        window: WindowRule,
        cap: int | None,
        words: bool,
    ) -> None:
        self._message = message
        self._prompter = prompter
        self._window = window
        self._cap = cap
        self._end = 0  # of the window in flight
        self._with_words = words
        self._language = prompter.language_token(message.settings.language)
        self._position = 0  # samples that are done with
        self._closed: list[int] = []
        self._segments: list[Segment] = []
        self._words: list[Word] = []
        self._num_tokens = 0
        self._in_flight = False
        self._done = False

    @property
    def is_done(self) -> bool:
        return self._done

    @property
    def is_urgent(self) -> bool:
        return False

    def wants_request(self) -> bool:
        return not self._done and not self._in_flight and self._remaining() >= SAMPLE_RATE // 50

    def _remaining(self) -> int:
        return len(self._message.samples) - self._position

    def cost(self) -> Cost:
        return Cost(self._window.window(self._plan_end() - self._position))

    def _plan_end(self) -> int:
        if self._cap is None:
            return min(self._position + self._window.longest, len(self._message.samples))
        if self._remaining() <= self._cap:
            return len(self._message.samples)
        low, high = self._position + self._cap // 2, self._position + self._cap
        return low + quietest(self._message.samples[low:high])

    def make_request(self) -> WhisperRequest:
        assert not self._in_flight and not self._done
        self._in_flight = True
        self._end = self._plan_end()
        samples = self._message.samples[self._position : self._end]
        settings = self._message.settings
        head, tail = self._prompter.prompt(
            settings.prompt, self._closed, settings.task, timestamps=True
        )
        return WhisperRequest(
            key=self._message.request,
            priority=Priority.BATCH,
            samples=samples,
            window_samples=self._window.window(len(samples)),
            head=head,
            language=self._language,
            detect_language=self._prompter.detects_language,
            tail=tail,
            timestamps=True,
            temperature=self._message.temperature,
            align=self._with_words,
        )

    def absorb(self, result: Result) -> list[Event]:
        self._in_flight = False
        if self._language is None:
            self._language = result.language
        heard = Hypothesis.of(result, 0, self._position)
        length = self._end - self._position
        # Nothing of this window will be heard again: take all of it.
        is_whole = self._cap is not None or self._end == len(self._message.samples)
        pieces, moved = split_segments(
            heard.tokens, self._prompter.timestamp_seconds, keep_open=is_whole
        )
        advance = length if moved is None or is_whole else round(moved * SAMPLE_RATE)
        seconds = length / SAMPLE_RATE
        for first, last, start, end in pieces:
            self._add(heard, result, first, last, min(start, seconds), min(end, seconds))
        # A window that claims to end where it began would never let us get on.
        self._position += length if advance < SAMPLE_RATE // 2 else min(advance, length)
        return self.settle()

    def _add(
        self, heard: Hypothesis, result: Result, first: int, last: int, start: float, end: float
    ) -> None:
        tokens = heard.tokens[first:last]
        text = b"".join(self._prompter.token_bytes(t) for t in tokens).decode("utf-8", "replace")
        if not text.strip():
            return
        offset = self._position / SAMPLE_RATE
        logprobs = heard.logprobs[first:last]
        self._segments.append(
            Segment(
                text,
                offset + start,
                offset + max(start, end),
                list(tokens),
                sum(logprobs) / len(logprobs),
                result.no_speech_prob,
            )
        )
        part = heard.split(last)[0].split(first)[1]
        language = self._prompter.language_code(self._language)
        self._words.extend(part.words(self._prompter.decode_bytes, language))
        self._num_tokens += len(tokens)
        self._closed = (self._closed + list(tokens))[-self._prompter.max_prompt :]

    def settle(self) -> list[Event]:
        if self._done or self._in_flight or self._remaining() >= SAMPLE_RATE // 50:
            return []
        self._done = True
        return [
            FileTranscribed(
                self._message.request,
                "".join(segment.text for segment in self._segments).strip(),
                self._prompter.language_code(self._language),
                len(self._message.samples) / SAMPLE_RATE,
                self._segments,
                self._words,
                self._num_tokens,
            )
        ]

    def fail(self, code: str, message: str) -> list[Event]:
        self._done = True
        return [FileFailed(self._message.request, code, message)]


def split_segments(
    tokens: tuple[int, ...], seconds: SecondsOf, *, keep_open: bool = False
) -> tuple[list[tuple[int, int, float, float]], float | None]:
    """Cut tokens at timestamp tokens: ([(first, last, start_s, end_s)], where to go on, in s).

    Timestamps come in pairs: <|0.00|> text <|2.10|><|2.60|> text <|4.00|>. The text after the last
    complete pair is not taken when an earlier one is complete (the next window hears it whole),
    unless keep_open: there is no next window. None: nothing says where to go on, so the whole
    window is done with.
    """
    stamps = [i for i, token in enumerate(tokens) if seconds(token) is not None]
    if not stamps:
        return ([(0, len(tokens), 0.0, float("inf"))] if tokens else []), None
    pieces = []
    for a, b in pairwise(stamps):
        if b > a + 1:
            pieces.append((a + 1, b, seconds(tokens[a]) or 0.0, seconds(tokens[b]) or 0.0))
    if stamps[0] > 0:
        pieces.insert(0, (0, stamps[0], 0.0, seconds(tokens[stamps[0]]) or 0.0))
    last = stamps[-1]
    is_open = last < len(tokens) - 1  # text after the last timestamp: cut off by the window's end
    if is_open and (keep_open or not pieces):
        rest = (last + 1, len(tokens), seconds(tokens[last]) or 0.0, float("inf"))
        return [*pieces, rest], None
    if is_open:
        return pieces, seconds(tokens[last])
    # Two timestamps at the end: more speech follows the last segment. One: the rest is silence.
    ends_in_pair = len(stamps) >= 2 and stamps[-2] == last - 1
    return pieces, seconds(tokens[last]) if ends_in_pair else None
