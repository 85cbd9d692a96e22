"""A kind of checkpoint, as the core sees it: who listens to a turn, who reads a file."""

from __future__ import annotations

from typing import Protocol

from lookhear.engine.core.owner import Owner
from lookhear.engine.messages import SAMPLE_RATE, TranscribeFile, TranscriptionSettings
from lookhear.engine.speech.live import LiveTurn


class Transcriber(Protocol):
    """Of one checkpoint. languages: ISO codes it can be told to expect; empty: it has just one.
    max_samples: of one turn or file."""

    @property
    def languages(self) -> list[str]:
        """ISO codes; empty if it has just one."""

    @property
    def translates(self) -> bool:
        """Whether it can write English of other languages."""

    @property
    def has_word_times(self) -> bool:
        """Whether it can say when each word was spoken."""

    @property
    def max_samples(self) -> int:
        """Of one turn or file."""

    def start_turn(self, session: str, turn: str, settings: TranscriptionSettings) -> LiveTurn:
        """Who listens to a turn."""

    def start_file(self, message: TranscribeFile) -> Owner:
        """Who reads a file."""


def settings_error(
    family: Transcriber, name: str, settings: TranscriptionSettings
) -> tuple[str, str] | None:
    """(code, message) if a checkpoint, served under a name, cannot do what is asked."""
    languages = family.languages
    if settings.language and languages and settings.language not in languages:
        known = ", ".join(languages)
        return "invalid_language", f"language: expected {known}; got {settings.language!r}"
    if settings.task not in ("transcribe", "translate"):
        return "invalid_task", f"task: expected transcribe or translate; got {settings.task!r}"
    if settings.task == "translate" and not family.translates:
        return "invalid_task", f"task: expected transcribe, {name} cannot translate; got translate"
    if settings.words and not family.has_word_times:
        return "invalid_words", f"words: expected false, {name} has no word times; got true"
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
