"""A whole recording for Qwen3-ASR, which writes no times itself: cut at quiet places. Pure."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lookhear.engine.messages import TranscribeFile
from lookhear.engine.paged.request import PagedRequest
from lookhear.engine.qwen3_asr.recognizer import AsrConfig, AsrRecognizer
from lookhear.engine.qwen3_asr.timed import TimedRequest
from lookhear.engine.speech.file import Section
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.sentence_file import SentenceFile
from lookhear.engine.speech.transcriber import Transcriber


class AsrFile(SentenceFile):
    """See `SentenceFile`. Each piece says its own language, as published."""

    follows_language = True

    def _size(self, request: PagedRequest | TimedRequest) -> tuple[int, int]:
        if isinstance(request, TimedRequest):
            request = request.decoding
        audio = sum(medium.num_tokens for _, medium in request.media)
        return audio, len(request.tokens) - audio


def asr_transcriber(
    config: AsrConfig, live: LiveConfig, languages: list[str], cap: int
) -> Transcriber:
    """languages: ISO codes it was trained for. cap: longest piece of a file, samples."""

    def start_file(message: TranscribeFile, section: Section | None = None) -> AsrFile:
        # Segments have times of their words, too.
        wants_words = message.settings.words or message.timestamps
        settings = replace(message.settings, words=wants_words)
        recognizer = AsrRecognizer(config, settings, message.temperature)
        return AsrFile(message, recognizer, cap, section)

    return Transcriber(
        live,
        languages,
        partial(AsrRecognizer, config),
        start_file,
        has_word_times=config.times_words,
        adapters=config.adapters,
    )
