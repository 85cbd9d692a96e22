"""How a checkpoint of one language is heard live, whose writing is scripted."""

from __future__ import annotations

import numpy as np

from lookhear.engine.core.request import Result, StopReason
from lookhear.engine.messages import SAMPLE_RATE, TextCommitted, TranscriptionSettings
from lookhear.engine.moonshine.recognizer import MoonshineRecognizer
from lookhear.engine.speech.live import LiveTurn
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.tokenizers.pieces import PieceTokenizer

SAID, EACH = "今日はとても天気がいいので公園へ散歩に行きます", SAMPLE_RATE // 4


def test_text_without_spaces_comes_while_somebody_speaks_if_its_language_is_told() -> None:
    recognizer = MoonshineRecognizer(PieceTokenizer([character.encode() for character in SAID]))
    turn = LiveTurn("s", "t", TranscriptionSettings("m", "ja"), recognizer, LiveConfig())
    text = ""
    for end in range(EACH, EACH * len(SAID), EACH):
        turn.append(np.ones(EACH, np.float32), end)
        while turn.wants_request():
            request = turn.make_request()
            tokens = range(len(request.prefix), end // EACH)
            logprobs = (-0.1,) * len(tokens)
            result = Result(request.key, tuple(tokens), logprobs, 0, StopReason.END)
            told = [e.text for e in turn.absorb(result) if isinstance(e, TextCommitted)]
            text += "".join(told)
    assert SAID.startswith(text) and len(text) > len(SAID) - 6
