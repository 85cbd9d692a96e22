"""A whole recording for Whisper, one window after another. Pure.

With full windows, the sliding window of openai/whisper (`transcribe.py`): decode 30 s with
timestamp tokens, take the segments they delimit, move on to the end of the last complete one. Where
it is known when somebody speaks, windows end in pauses, and a window whose text ends while somebody
still speaks is heard again from there. What is much shorter than a window may first be heard in one
of its own length; a text that is doubtful then, or none, is heard again in a full one. A checkpoint
for short windows hears less at once and all of it: the recording is cut at quiet places.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.adapters.adapters import Adapters
from lookhear.engine.core.request import Cost, Priority, Result
from lookhear.engine.messages import SAMPLE_RATE, TranscribeFile
from lookhear.engine.sampling.alternatives import Doubts
from lookhear.engine.speech.file import FileTranscription, Section
from lookhear.engine.speech.recognizer import loop_room
from lookhear.engine.speech.text.agreement import audible
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.speech.text.words import group_words
from lookhear.engine.whisper.files.apart import is_miscounted, spelt_words
from lookhear.engine.whisper.files.attempts import Attempt, Attempts, has_loop
from lookhear.engine.whisper.files.language import FileLanguage, WindowLanguage
from lookhear.engine.whisper.files.pieces import (
    SENTENCE_PAUSE,
    Cut,
    Piece,
    disjoint,
    is_rough,
    split_segments,
    spoken_span,
)
from lookhear.engine.whisper.files.timed import (
    LEFT_OUT,
    Timed,
    runs_ahead,
    timed_by_words,
    until_pause,
)
from lookhear.engine.whisper.prompt import WhisperPrompter
from lookhear.engine.whisper.recognizer import WindowRule
from lookhear.engine.whisper.request import WhisperRequest

AUDIO_TOKEN = SAMPLE_RATE // 50  # samples of a place of the encoder's output
BEYOND_SECONDS = 1.0  # times are told to the second at times; what is later was made up
# Speech behind the last word of a window that is worth another look.
UNHEARD = SAMPLE_RATE
# The same where the model says that somebody begins to speak.
BEGUN = SAMPLE_RATE * 3 // 10
# Seconds of a segment: in a longer one Whisper did not listen for times, and may leave out more.
LONG_SEGMENT = 12.0
# Of a window in which several languages seem to be spoken: a shorter one is mostly a sentence that
# sounds like several. And the shortest part of a longer one.
SHORTEST_MIXED = SAMPLE_RATE * 6
SHORTEST_PART = SAMPLE_RATE
# A text that was sampled this freely is no prompt for the next one (openai/whisper).
MOST_CARRIED_TEMPERATURE = 0.5


class WhisperFile(FileTranscription):
    """cap: longest piece in samples; None: full windows, which overlap where a segment is open.
    quick: windows in which audio that they have room for is heard first; None: there are none.
    doubts: as in `WhisperRecognizer`."""

    follows_language = True

    def __init__(
        self,
        message: TranscribeFile,
        prompter: WhisperPrompter,
        window: WindowRule,
        cap: int | None,
        section: Section | None = None,
        adapters: Adapters | None = None,
        quick: WindowRule | None = None,
        doubts: Doubts | None = None,
    ) -> None:
        self._adapter = None if adapters is None else adapters.of(message.settings.model)
        super().__init__(message, cap or window.longest, prompter.decode_bytes, section)
        self._prompter = prompter
        self._window = window
        self._quick = quick
        self._is_doubted = False  # what a quick window said of what is to be heard next
        self._has_gone_back = False  # to what the window before left out
        self._apart = self._start  # until there one stretch of speech after another is heard
        self._apart_language: int | None = None  # in which
        self._slides = cap is None
        self._given = prompter.language_token(message.settings.language)
        self._languages = FileLanguage(message.settings.languages, self._before)
        self._trial = WindowLanguage()
        self._sound: dict[str, float] = {}  # log-probability of each language, of the last window
        self._room = cap or window.longest  # samples of the next piece, at most
        self._closed: list[int] = []  # the last tokens, for the prompt
        self._attempts = Attempts(message.temperature)
        self._expected = prompter.expected(message.settings.keywords)
        self._doubts = doubts

    @property
    def language(self) -> str | None:
        """ISO code; None for a checkpoint that has just one."""
        return self._languages.known or self._prompter.language_code(self._given)

    def cost(self) -> Cost:
        """Of the next window."""
        num_samples = self._plan_end(self._position) - self._position
        return Cost(self._rule(num_samples).window(num_samples))

    def _rule(self, num_samples: int) -> WindowRule:
        """Of the window in which so much audio is heard next."""
        quick = self._quick
        if quick is None or self._is_doubted or not quick.holds(num_samples):
            return self._window
        return quick

    def _plan_end(self, begin: int) -> int:
        if not self._slides:
            # A short window costs what it is long, so it may hold a sentence.
            pause = self._audio.next_pause(begin, SENTENCE_PAUSE)
            return min(super()._plan_end(begin), pause or begin + self._cap)
        if begin < self._apart:
            following = self._audio.next_begin(begin + 1, SENTENCE_PAUSE)
            return min(following or self._apart, self._apart)
        end = min(begin + self._room, self._end)
        if end == self._end:
            return end
        return self._audio.last_pause(begin + self._room * 2 // 3, end) or end

    def _request(self, samples: NDArray[np.float32]) -> WhisperRequest:
        settings, prompter = self._message.settings, self._prompter
        prior: dict[str, float] = (
            {} if self._given is not None else self._languages.prior(prompter.languages)
        )
        head, tail = self._prompter.prompt(
            settings.prompt, self._closed, settings.task, timestamps=True
        )
        spoken = self._spoken(len(samples)) or 0.0
        return WhisperRequest(
            key=self._message.request,
            priority=Priority.BATCH,
            samples=samples,
            window_samples=self._rule(len(samples)).window(len(samples)),
            head=head,
            language=self._asked(),
            language_prior=prompter.language_tokens(prior),
            language_guess=prompter.language_token(self._languages.known),
            detect_language=prompter.detects_language,
            tail=tail,
            loop_room=loop_room(round(spoken * SAMPLE_RATE)),
            timestamps=True,
            temperature=self._attempts.temperature,
            seed=self._attempts.count,
            align=settings.words,
            align_if=self._wants_times,
            expected=self._expected,
            doubts=None if self._attempts.temperature else self._doubts,
            adapter=self._adapter,
            detects_alone=self._given is None
            and prompter.detects_language
            and bool(settings.prompt.strip()),
        )

    def _wants_times(self, tokens: Sequence[int]) -> bool:
        """Whether a window's own times do not do: they are rough, it may be a loop, a segment has a
        pause in it that was left out, or, where it is known when somebody speaks, is long or not
        next to another, or the last one may be made up, since it says again what was said."""
        seconds, begin = self._prompter.timestamp_seconds, self._position
        if is_rough(tokens, seconds) or has_loop([t for t in tokens if seconds(t) is None]):
            return True
        found, _ = split_segments(tuple(tokens), seconds, keep_open=True)
        longest = ((self._until or self._end) - begin) / SAMPLE_RATE
        pieces = [(start, min(end, longest)) for *_, start, end in found]
        if any(self._seams(begin, a, b) for a, b in pieces):
            return True
        if self._message.speech is None:
            return False  # then nobody knows whether the text lacks something
        if any(b - a >= LONG_SEGMENT for a, b in pieces):
            return True
        between = ((before, after) for (_, before), (after, _) in pairwise(pieces))
        if any(self._spoken_between(a, b) >= LEFT_OUT for a, b in between):
            return True
        spelt = (self._prompter.decode_bytes(tokens[a:b]) for a, b, *_ in found[-2:])
        said = [audible(data.decode("utf-8", "replace")) for data in spelt]
        return len(said) > 1 and bool(said[1]) and said[0].endswith(said[1])

    def _spoken_between(self, start: float, end: float) -> int:
        """How many samples of speech there are between two times in seconds of the window; none if
        nobody knows."""
        first, last = (self._position + round(time * SAMPLE_RATE) for time in (start, end))
        return 0 if self._message.speech is None else self._audio.spoken(first, last)

    def _seams(self, begin: int, start: float, end: float) -> list[int]:
        """Where a pause was left out of a segment. begin: of its window, in samples. start, end: in
        seconds of the window."""
        first = begin + round(start * SAMPLE_RATE)
        longest = (self._end - begin) / SAMPLE_RATE
        return self._audio.seams(first, begin + round(min(end, longest) * SAMPLE_RATE))

    def _size(self, request: WhisperRequest) -> tuple[int, int]:
        text = len(request.head) + len(request.tail) + request.detect_language
        return request.window_samples // AUDIO_TOKEN, text

    def _hear(self, result: Result, num_samples: int) -> int:
        heard = Hypothesis.of(result, 0, self._position)
        words = [t for t in heard.tokens if self._prompter.timestamp_seconds(t) is None]
        last = max((self._prompter.timestamp_seconds(t) or 0.0 for t in heard.tokens), default=0.0)
        attempt = Attempt.of(
            result,
            heard,
            words,
            self._prompter.decode_bytes(words).decode("utf-8", "replace"),
            self._attempts.temperature,
            spoken=self._spoken(num_samples),
            is_beyond=last > num_samples / SAMPLE_RATE + BEYOND_SECONDS,
        )
        if self._given is None and result.languages:
            code = self._prompter.language_code
            self._sound = sound = {
                code(token) or "": share for token, share in result.languages.items()
            }
            is_mixed = self._trial.asked is None and self._languages.is_mixed(sound)
            if self._closed and (is_mixed or self._languages.has_changed(sound)):
                self._closed = []  # behind a text everything sounds like its language
                return 0
            if is_mixed:
                if self._takes_part(num_samples):
                    return 0  # a part of it, by itself
                self._languages.sound_alike(sound)
            weighed = self._prompter.language_tokens(self._languages.weighed(sound))
            likeliest = self._trial.take(result, attempt, weighed)
            if likeliest is None:
                return 0  # once more, in another language
            attempt = likeliest
        if self._rule(num_samples) is self._quick and not attempt.is_sure:
            self._trial, self._is_doubted = WindowLanguage(), True
            return 0  # once more, in a full window
        if self._is_miscounted(attempt, num_samples):
            self._apart, self._apart_language = self._position + num_samples, attempt.language
            self._trial, self._attempts = WindowLanguage(), Attempts(self._message.temperature)
            self._is_doubted, self._closed = False, []
            return 0  # once more, one stretch after another
        chosen = self._attempts.take(attempt)
        if chosen is None:
            return 0  # once more, less greedily
        cut, gives_up = self._cut(chosen.heard, num_samples), self._attempts.gives_up(chosen)
        if gives_up and self._slides:
            cut = until_pause(cut, chosen.heard, self._position, self._audio)
        back: Cut | None = None
        timed = self._timed(cut, chosen.heard) if self._slides else None
        if timed is not None and not gives_up:
            at = None if self._has_gone_back else timed.left_out(num_samples)
            if at is not None and not chosen.temperature:
                back = timed.until(at, self._written(self._prompter.language_code(chosen.language)))
            if at is not None and back is None and self._closed:
                self._trial, self._closed = WindowLanguage(), []
                return 0  # once more, with no text in front: it may be left out since it is in that
            cut = cut._replace(pieces=cut.pieces[: timed.num_said(num_samples)])
        self._has_gone_back = back is not None
        cut = back or cut
        self._trial, self._is_doubted = WindowLanguage(), False
        done = self._keep(chosen, cut, num_samples)
        self._room = min(self._cap, 2 * self._room)
        if self._room < self._cap or back or gives_up or self._position < self._apart:
            # What follows may be in another language, or what was left out as it was said before,
            # the end of a loop, or the same short answer once more.
            self._closed = []
        return done

    def _asked(self) -> int | None:
        """The language that is told for the next request."""
        asked = self._apart_language if self._position < self._apart else self._trial.asked
        return asked if self._given is None else self._given

    def _is_miscounted(self, attempt: Attempt, num_samples: int) -> bool:
        """Whether a text of a window is not one of as many short answers as there are."""
        begin = self._position
        if not self._slides or self._message.speech is None or begin < self._apart:
            return False  # nobody knows, or it is one stretch
        cut = self._cut(attempt.heard, num_samples)
        if not cut.is_whole or self._audio.spoken(begin - 1, begin + 1):
            return False  # it begins or ends in the midst of an answer
        end = begin + (num_samples if cut.moved is None else round(cut.moved * SAMPLE_RATE))
        code = self._written(self._prompter.language_code(attempt.language))
        words = spelt_words(cut, attempt.heard, self._prompter.decode_bytes, code)
        return is_miscounted(words, len(cut.pieces), self._audio, begin, end)

    def _takes_part(self, num_samples: int) -> bool:
        """Whether the next piece is about half of this one, which ends in a pause."""
        if not self._slides or num_samples < SHORTEST_MIXED:
            return False
        begin, end = self._position, self._position + num_samples
        low, high = begin + SHORTEST_PART, end - SHORTEST_PART
        pause = self._audio.pause_near(begin + num_samples // 2, low, high)
        if pause is None:
            return False
        self._room, self._is_doubted = pause - begin, False
        return True

    def _spoken(self, num_samples: int) -> float | None:
        """Seconds of the window with speech, if anybody knows."""
        if self._message.speech is None:
            return None
        return self._audio.spoken(self._position, self._position + num_samples) / SAMPLE_RATE

    def _cut(self, heard: Hypothesis, num_samples: int, *, by_words: bool = False) -> Cut:
        """by_words: the times are those of its words, which it has."""
        prompter, begin, end = self._prompter, self._position, self._position + num_samples
        # Nobody speaks on where the window ends: its last segment is complete.
        is_whole = not self._slides or end == self._end or self._audio.spoken(end - 1, end + 1) == 0
        pieces, moved = split_segments(heard.tokens, prompter.timestamp_seconds, keep_open=is_whole)
        longest = num_samples / SAMPLE_RATE
        kept = list[Piece]()
        for first, last, start_s, end_s in pieces:
            text = prompter.decode_bytes(heard.tokens[first:last]).decode("utf-8", "replace")
            if not text.strip():
                continue
            start_s = min(start_s, longest)
            kept.append(Piece(first, last, text, start_s, max(start_s, min(end_s, longest))))
        if not self._slides:
            return Cut(kept, None, is_whole)
        if kept and self._message.speech is not None:
            if by_words:
                kept = timed_by_words(kept, heard, begin, longest)
                moved = None if moved is None else max(moved, kept[-1].end)
            last_end = kept[-1].end
            rest = begin + round(last_end * SAMPLE_RATE)
            going_on = end if moved is None else begin + round(moved * SAMPLE_RATE)
            if self._audio.spoken(rest, end) >= UNHEARD:
                moved = last_end
            elif is_whole and self._audio.spoken(min(going_on, end), end) < BEGUN:
                moved = None
        cut = Cut(kept, moved, is_whole)
        if not by_words and runs_ahead(cut, heard, begin, self._audio):
            return self._cut(heard, num_samples, by_words=True)
        return cut

    def _timed(self, cut: Cut, heard: Hypothesis) -> Timed | None:
        """With the times of its tokens; None where they, or when somebody speaks, are not known."""
        if not heard.spans or self._message.speech is None:
            return None
        return Timed(heard, cut, self._position, self._audio, self._prompter.decode_bytes)

    def _keep(self, chosen: Attempt, cut: Cut, num_samples: int) -> int:
        """What the model says of this window; returns how many of its samples are done with."""
        heard = chosen.heard
        code = self._prompter.language_code(chosen.language)
        if self._given is None and code is not None and heard.tokens:  # silence has no language
            self._languages.keep(code, self._sound)
            if self._message.settings.task == "translate":
                self._given = chosen.language  # all text is English, and tells nothing of the next
        offset = self._position / SAMPLE_RATE
        if chosen.temperature > MOST_CARRIED_TEMPERATURE:
            self._closed = []
        for part in disjoint([p for piece in cut.pieces for p in self._parts(piece, heard, code)]):
            self._add(
                heard.split(part.last)[0].split(part.first)[1],
                part.text,
                offset + part.start,
                offset + part.end,
                chosen.no_speech,
                chosen.temperature,
            )
        for piece in cut.pieces:
            # With its timestamps: after plain text a model stops to write them.
            self._closed += heard.tokens[max(0, piece.first - 1) : piece.last + 1]
        self._closed = self._closed[-self._prompter.max_prompt :]
        advance = num_samples if cut.moved is None else round(cut.moved * SAMPLE_RATE)
        # A window that claims to end where it began would never let us get on.
        return num_samples if advance < SAMPLE_RATE // 2 else min(advance, num_samples)

    def _parts(self, piece: Piece, heard: Hypothesis, language: str | None) -> list[Piece]:
        """A segment, with the times of its words where the model's are rough, cut between words
        where a long pause was left out. language: ISO code of what is spoken."""
        prompter, offset = self._prompter, self._position / SAMPLE_RATE
        is_broken = self._seams(self._position, piece.start, piece.end)
        is_exact = not is_broken and not is_rough(heard.tokens, prompter.timestamp_seconds)
        if is_exact or not heard.spans:
            return [piece]
        written, tokens = self._written(language), heard.tokens[piece.first : piece.last]
        words = group_words(tokens, prompter.decode_bytes, written)
        begun = [piece.first + first for _, first, _ in words]
        spans = zip(begun, [*begun[1:], piece.last], strict=True)
        groups = self._audio.unbroken(
            [(heard.spans[a][0], heard.spans[b - 1][1]) for a, b in spans]
        )
        parts = list[Piece]()
        for (word, low, high), last in zip(
            groups, [*(begun[word] for word, _, _ in groups[1:]), piece.last], strict=True
        ):
            first = begun[word]
            text = prompter.decode_bytes(heard.tokens[first:last]).decode("utf-8", "replace")
            start, end = (min(at, high) for at in spoken_span(heard, first, last, low))
            parts.append(Piece(first, last, text, start - offset, end - offset))
        return parts
