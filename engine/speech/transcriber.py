"""A kind of checkpoint, as the core sees it: who listens to a turn, who reads a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lookhear.engine.core.request import RequestError
from lookhear.engine.messages import (
    SAMPLE_RATE,
    StartTurn,
    TranscribeFile,
    TranscriptionSettings,
)
from lookhear.engine.speech.earlier import EarlierRule, EarlierSpeech
from lookhear.engine.speech.file import FileTranscription, Section
from lookhear.engine.speech.live import LiveTurn
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.recognizer import Recognizer
from lookhear.engine.speech.session_language import SessionLanguage
from lookhear.engine.speech.turn import Turn


class NamedAdapters(Protocol):
    """See `engine.adapters.adapters.Adapters`."""

    def of(self, model: str) -> object:
        """Raises `RequestError` if it names one that there is not."""


class Listen(Protocol):
    """Who listens to a turn in a way of its own."""

    def __call__(self, message: StartTurn) -> Turn: ...


class StartFile(Protocol):
    """Who reads a file, or a section of it."""

    def __call__(
        self, message: TranscribeFile, section: Section | None = None
    ) -> FileTranscription: ...


@dataclass(frozen=True, slots=True)
class Transcriber:
    """Of one checkpoint. live: how turns are heard, and how long one turn or file may be.
    languages: ISO codes it can be told to expect; empty: it has just one. recognizer: who is asked
    in a turn. start_file: who reads a file. translates: whether it can write English of other
    languages. has_word_times: whether it can say when each word was spoken. takes_context: whether
    it can be told what was said before, or what words to expect. earlier: how much of what was said
    before is heard again in front of a segment. adapters: that may be asked for with the model's
    name. detects_among: whether it can be held to some of its languages while it finds out which
    one is spoken. listen: who listens to turns; None: a `LiveTurn`."""

    live: LiveConfig
    languages: list[str]
    recognizer: Callable[[TranscriptionSettings], Recognizer]
    start_file: StartFile
    translates: bool = False
    has_word_times: bool = False
    takes_context: bool = True
    earlier: EarlierRule = EarlierRule()
    adapters: NamedAdapters | None = None
    detects_among: bool = True
    listen: Listen | None = None

    @property
    def max_samples(self) -> int:
        """Of one turn or file."""
        return self.live.max_samples

    def start_turn(
        self, message: StartTurn, language: SessionLanguage, earlier: EarlierSpeech
    ) -> Turn:
        """Who listens to a turn. language, earlier: of its session."""
        if self.listen is not None:
            return self.listen(message)
        return LiveTurn(
            message.session,
            message.turn,
            message.settings,
            self.recognizer(message.settings),
            self.live.delayed(message.settings.delay),
            language,
            earlier,
            resume=message.resume,
            tells_state=message.tells_state,
        )


def settings_error(
    family: Transcriber, name: str, settings: TranscriptionSettings
) -> tuple[str, str] | None:
    """(code, message) if a checkpoint, served under a name, cannot do what is asked."""
    languages = family.languages
    try:
        if family.adapters is not None:
            family.adapters.of(settings.model)
    except RequestError as error:
        return error.code, str(error)
    if settings.language and languages and settings.language not in languages:
        known = ", ".join(languages)
        return "invalid_language", f"language: expected {known}; got {settings.language!r}"
    unknown = [code for code in settings.languages if languages and code not in languages]
    if unknown:
        known = ", ".join(languages)
        return "invalid_language", f"languages: expected some of {known}; got {unknown[0]!r}"
    if languages and len(settings.languages) > 1 and not family.detects_among:
        given = ", ".join(settings.languages)
        return (
            "invalid_language",
            f"languages: expected one at most, {name} knows none of them as"
            f" more likely; got {given}",
        )
    if settings.task not in ("transcribe", "translate"):
        return "invalid_task", f"task: expected transcribe or translate; got {settings.task!r}"
    if settings.task == "translate" and not family.translates:
        return "invalid_task", f"task: expected transcribe, {name} cannot translate; got translate"
    if settings.words and not family.has_word_times:
        return "invalid_words", f"words: expected false, {name} has no word times; got true"
    if not family.takes_context and settings.context:
        given = "keywords" if settings.keywords else "prompt"
        return f"invalid_{given}", f"{given}: expected none, {name} hears without; got some"
    return None


def too_long(num_samples: int, max_samples: int) -> tuple[str, str] | None:
    """(code, message) for a file that is too long."""
    if num_samples <= max_samples:
        return None
    return (
        "audio_too_long",
        f"file: expected at most {max_samples // SAMPLE_RATE} s of audio,"
        f" got {num_samples / SAMPLE_RATE:.0f} s",
    )
