"""Who listens to a turn, and who reads a file, with a Qwen3-ASR checkpoint."""

from __future__ import annotations

from lookhear.engine.core.owner import Owner
from lookhear.engine.messages import TranscribeFile, TranscriptionSettings
from lookhear.engine.qwen3_asr.file import AsrFile
from lookhear.engine.qwen3_asr.recognizer import AsrConfig, AsrRecognizer
from lookhear.engine.speech.live import LiveTurn
from lookhear.engine.speech.live_config import LiveConfig


class AsrTranscriber:
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
        """See `Transcriber`."""
        recognizer = AsrRecognizer(self._config, settings)
        return LiveTurn(session, turn, settings, recognizer, self._live)

    def start_file(self, message: TranscribeFile) -> Owner:
        """See `Transcriber`."""
        recognizer = AsrRecognizer(self._config, message.settings, message.temperature)
        return AsrFile(message, recognizer, self._cap)
