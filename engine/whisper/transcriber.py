"""Who listens to a turn, and who reads a file, with a Whisper checkpoint."""

from __future__ import annotations

from lookhear.engine.core.owner import Owner
from lookhear.engine.messages import TranscribeFile, TranscriptionSettings
from lookhear.engine.speech.live import LiveTurn
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.whisper.file import WhisperFile
from lookhear.engine.whisper.prompt import WhisperPrompter
from lookhear.engine.whisper.recognizer import WhisperRecognizer, WindowRule


class WhisperTranscriber:
    """window: encoder windows, also those of files."""

    has_word_times = True

    def __init__(self, prompter: WhisperPrompter, live: LiveConfig, window: WindowRule) -> None:
        self._prompter = prompter
        self._live = live
        self._window = window
        self.languages = prompter.languages
        self.translates = bool(self.languages)
        self.max_samples = live.max_samples

    def start_turn(self, session: str, turn: str, settings: TranscriptionSettings) -> LiveTurn:
        """See `Transcriber`."""
        recognizer = WhisperRecognizer(self._prompter, self._window, settings)
        return LiveTurn(session, turn, settings, recognizer, self._live)

    def start_file(self, message: TranscribeFile) -> Owner:
        """See `Transcriber`."""
        window = self._window
        # Full windows are one step of the rule long.
        cap = window.longest - window.margin if window.step < window.longest else None
        return WhisperFile(message, self._prompter, window, cap)
