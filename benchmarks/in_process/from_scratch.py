"""A live turn that keeps nothing of its text: every tick decodes all of the open segment anew.

What a decoder has to do where neither the last hypothesis is verified nor agreed text is forced:
the measure of what both save together. What is committed and when stays the policy's business.
"""

from __future__ import annotations

from unittest.mock import patch

from benchmarks.in_process.sessions import Listener, Speech
from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.request import Result
from lookhear.engine.messages import TranscriptionSettings
from lookhear.engine.paged.request import PagedRequest
from lookhear.engine.qwen3_asr.recognizer import AsrRecognizer
from lookhear.engine.qwen3_asr.timed import TimedRequest
from lookhear.engine.speech.recognizer import Stretch
from lookhear.engine.speech.text.hypothesis import Hypothesis


class FromScratch(AsrRecognizer):
    """Asks for the text of the whole segment, and hands on what lies beyond the committed tokens
    (as many of them as there are: what is said is said, even if it is heard otherwise now)."""

    def request(self, stretch: Stretch) -> PagedRequest | TimedRequest:
        """Without what is committed and without a draft."""
        return super().request(stretch._replace(committed=(), draft=None))

    def hypothesis(self, result: Result, stretch: Stretch) -> Hypothesis:
        """The whole text, of which the committed words are cut off."""
        whole = super().hypothesis(result, stretch._replace(committed=()))
        return whole.split(len(stretch.committed))[1]


def from_scratch(core: EngineCore, settings: TranscriptionSettings, speech: Speech) -> Listener:
    """A listener whose turn decodes so. The core: of a Qwen3-ASR checkpoint."""
    with patch("lookhear.engine.qwen3_asr.transcriber.AsrRecognizer", FromScratch):
        return Listener(core, settings, speech)
