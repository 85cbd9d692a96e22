"""What a turn has said, and how it is told: committed text, and the guess of what follows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lookhear.engine.core.audio import Samples
from lookhear.engine.messages import (
    SAMPLE_RATE,
    Event,
    TextCommitted,
    TextProvisional,
    TranscriptionSettings,
    TurnCompleted,
    TurnState,
    Word,
)
from lookhear.engine.speech.recognizer import Recognizer
from lookhear.engine.speech.text.hypothesis import Hypothesis, told_logprobs
from lookhear.engine.speech.text.sentences import end_probability
from lookhear.engine.speech.text.word_times import Span, loud_stretches, voiced_words
from lookhear.engine.speech.text.words import UNSPACED_LANGUAGES
from lookhear.engine.tokenizers.detokenizer import IncrementalDetokenizer

LAST_WORD = 64  # characters that surely hold it


class TurnText:
    """text: all that was committed. language: ISO code that is settled, or None. num_tokens: of the
    committed text."""

    def __init__(
        self,
        session: str,
        turn: str,
        settings: TranscriptionSettings,
        recognizer: Recognizer,
        resume: TurnState,
    ) -> None:
        """resume: what was said before, by an engine that is gone."""
        self._session = session
        self._turn = turn
        self._settings = settings
        self._recognizer = recognizer
        self._detokenizer = IncrementalDetokenizer(recognizer.token_bytes, resume.unfinished)
        self._guess: TextProvisional | None = None  # as it was told last
        self._ended = resume.ended
        self._closing: float | None = None  # as in `Hypothesis`, the same
        self._is_apart = resume.is_apart  # the next text wants a space in front
        self._untold = list(resume.untold)  # of characters that are not complete
        self._timed = resume.timed  # seconds of the turn, to the end of the last word that was told
        self.text = resume.text
        self.language = resume.language or settings.language
        self.num_tokens = resume.num_tokens

    def state(self) -> TurnState:
        """What `resume` wants of it, but for the text itself."""
        return TurnState(
            language=self.language,
            ended=self._ended,
            num_tokens=self.num_tokens,
            unfinished=self._detokenizer.unfinished,
            untold=list(self._untold),
            is_apart=self._is_apart,
            timed=self._timed,
        )

    def commit(
        self, said: Hypothesis, heard: Samples | None = None, start: int = 0
    ) -> list[TextCommitted]:
        """Say these tokens for good, behind all others. heard: [n], what they were heard in, up to
        where somebody spoke; their times are within the speech in it. start: its first sample, of
        the turn."""
        if self.language is None:
            self.language = said.language
        self.num_tokens += len(said.tokens)
        self._ended, self._closing = self.end_probability(said), said.closing
        speech: list[Span] = []
        if self._settings.words and heard is not None:
            speech = [(start + begin, start + end) for begin, end in loud_stretches(heard)]
        return self._emit(self._detokenizer.push(said.tokens), said, speech)

    def end_segment(self) -> None:
        """What comes next is another segment's."""
        self._is_apart = self._recognizer.joins_with_space

    def flush(self) -> list[TextCommitted]:
        """No more tokens: what is left of an unfinished character."""
        return self._emit(self._detokenizer.flush())

    def completed(self, num_samples: int, state: TurnState | None) -> TurnCompleted:
        """All of it. num_samples: of the turn. state: as in `TurnCompleted`."""
        seconds, count = num_samples / SAMPLE_RATE, self.num_tokens
        return TurnCompleted(
            self._session, self._turn, self.text, self.language, seconds, count, state
        )

    def provisional(self, guess: Hypothesis, heard: int) -> list[Event]:
        """The present guess of what follows, if it is wanted, and another than before. heard:
        samples of the turn that it is of."""
        if not self._settings.provisional:
            return []
        text = self._joined(self._detokenizer.preview(guess.tokens))
        ended = self.end_probability(guess)
        closing = self._closing if guess.closing is None and not guess.tokens else guess.closing
        told = TextProvisional(self._session, self._turn, text, heard, ended, closing)
        if told == self._guess:
            return []
        self._guess = told
        return [told]

    def end_probability(self, guess: Hypothesis) -> float:
        """How probably a sentence ends behind all that was said, and this guess of what follows."""
        if not guess.tokens:
            return self._ended
        before = self.text[-LAST_WORD:] + " " * self._is_apart
        decode = self._recognizer.decode_bytes
        return end_probability(guess.tokens, guess.logprobs, decode, before)

    def _emit(
        self, text: str, said: Hypothesis | None = None, speech: Sequence[Span] = ()
    ) -> list[TextCommitted]:
        text = self._joined(text)
        wanted = self._settings
        if said and wanted.logprobs:
            self._untold += said.token_logprobs(self._recognizer.token_bytes)
        if not text:
            return []
        self._is_apart = False
        self.text += text
        logprobs = told_logprobs(self._untold, text) if wanted.logprobs else None
        self._untold = []
        words = self._words(said, speech) if said and wanted.words else None
        return [TextCommitted(self._session, self._turn, text, logprobs, words)]

    def _words(self, said: Hypothesis, speech: Sequence[Span]) -> list[Word]:
        """Those before it were timed by another look, whose times may lie behind the new ones; but
        what was said later was not said earlier."""
        words, heard = [], said.words(self._recognizer.decode_bytes, self.language)
        for word in voiced_words(heard, speech, self._timed):
            start = max(word.start, self._timed)
            self._timed = max(word.end, start)
            words.append(replace(word, start=start, end=self._timed))
        return words

    def _joined(self, text: str) -> str:
        """Text as it follows what was said: a turn does not begin with the space of its first word,
        a later segment must begin with one."""
        if not self.text:
            return text.lstrip()
        if self._is_apart and text and not text[0].isspace():
            return text if self.language in UNSPACED_LANGUAGES else " " + text
        return text
