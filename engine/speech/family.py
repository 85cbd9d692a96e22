"""A kind of checkpoint, as the core sees it: who listens to a turn, who reads a file."""

from __future__ import annotations

from typing import Protocol

from lookhear.engine.core.owner import Owner, WindowRule
from lookhear.engine.messages import SAMPLE_RATE, TranscribeFile, TranscriptionSettings
from lookhear.engine.speech.asr import AsrConfig, AsrRecognizer
from lookhear.engine.speech.asr_file import AsrFile
from lookhear.engine.speech.file import FileTranscription
from lookhear.engine.speech.live import LiveConfig, LiveTurn
from lookhear.engine.speech.recognizer import WhisperRecognizer
from lookhear.engine.whisper.prompt import Prompter


class Family(Protocol):
    """Of one checkpoint. languages: ISO codes it can be told to expect; empty: it has just one.
    max_samples: of one turn or file."""

    @property
    def languages(self) -> list[str]: ...

    @property
    def translates(self) -> bool: ...

    @property
    def has_word_times(self) -> bool: ...

    @property
    def max_samples(self) -> int: ...

    def start_turn(self, session: str, turn: str, settings: TranscriptionSettings) -> LiveTurn: ...

    def start_file(self, message: TranscribeFile) -> Owner: ...


def settings_error(
    family: Family, name: str, settings: TranscriptionSettings
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


class WhisperFamily:
    """window: encoder windows, also those of files."""

    has_word_times = True

    def __init__(self, prompter: Prompter, live: LiveConfig, window: WindowRule) -> None:
        self._prompter = prompter
        self._live = live
        self._window = window
        self.languages = prompter.languages
        self.translates = bool(self.languages)
        self.max_samples = live.max_samples

    def start_turn(self, session: str, turn: str, settings: TranscriptionSettings) -> LiveTurn:
        recognizer = WhisperRecognizer(self._prompter, self._window, settings)
        return LiveTurn(session, turn, settings, recognizer, self._live)

    def start_file(self, message: TranscribeFile) -> Owner:
        window = self._window
        # Full windows are one step of the rule long.
        cap = window.longest - window.margin if window.step < window.longest else None
        return FileTranscription(message, self._prompter, window, cap, message.settings.words)


class AsrFamily:
    """Qwen3-ASR. languages: ISO codes it was trained for. cap: longest piece of a file, samples."""

    has_word_times = False
    translates = False

    def __init__(self, config: AsrConfig, live: LiveConfig, languages: list[str], cap: int) -> None:
        self._config = config
        self._live = live
        self._cap = cap
        self.languages = languages
        self.max_samples = live.max_samples

    def start_turn(self, session: str, turn: str, settings: TranscriptionSettings) -> LiveTurn:
        recognizer = AsrRecognizer(self._config, settings)
        return LiveTurn(session, turn, settings, recognizer, self._live)

    def start_file(self, message: TranscribeFile) -> Owner:
        recognizer = AsrRecognizer(self._config, message.settings, message.temperature)
        return AsrFile(message, recognizer, self._cap)
