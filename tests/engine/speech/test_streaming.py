"""A turn of a model that streams by itself, whose writing is scripted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lookhear.engine.core.request import Result, StopReason
from lookhear.engine.messages import (
    SAMPLE_RATE,
    Event,
    StartTurn,
    TextCommitted,
    TranscriptionSettings,
    TurnCompleted,
    TurnState,
)
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.streaming import StreamingTurn
from lookhear.engine.tokenizers.pieces import PieceTokenizer
from lookhear.engine.transducer.languages import Languages
from lookhear.engine.transducer.recognizer import TransducerRecognizer
from lookhear.engine.transducer.sound import Feed, Sound

SOUND = Sound(0.97, 8, (0, 1, 3), 3)
HELLO, WORLD, TAG, HOW, ARE = range(5)
TOKENIZER = PieceTokenizer([b" hello", b" world", b"", b"how", b" are"])
RECOGNIZER = TransducerRecognizer(TOKENIZER, SOUND, Languages({"de": 1}, {TAG: "de"}))


def a_turn(resume: TurnState | None = None, *, words: bool = False) -> StreamingTurn:
    settings = TranscriptionSettings("m", words=words)
    start = StartTurn("s", "t", settings, resume=resume, tells_state=True)
    return StreamingTurn(start, RECOGNIZER, lambda: Feed(SOUND, 4), LiveConfig())


def hear(turn: StreamingTurn, *tokens: int) -> list[Event]:
    """Somebody speaks on for a second, of which this is written."""
    turn.append(np.ones(SAMPLE_RATE, np.float32), turn.num_samples + SAMPLE_RATE)
    return answer(turn, *tokens)


def answer(turn: StreamingTurn, *tokens: int) -> list[Event]:
    """To the request that it makes."""
    assert turn.wants_request()
    key = turn.make_request().key
    times = tuple((0.1 * i, 0.1 * i + 0.08) for i in range(len(tokens)))
    logprobs = (-0.1,) * len(tokens)
    return turn.absorb(Result(key, tokens, logprobs, 0, StopReason.END, token_times=times))


def told(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextCommitted))


def test_words_of_another_engine_are_apart_from_those_before_them() -> None:
    """It hears a recording of its own, which begins without a space."""
    events = hear(a_turn(), HELLO, WORLD)
    text = told(events)
    (state,) = [event.state for event in events if isinstance(event, TextCommitted)]
    assert state is not None
    text += told(hear(a_turn(replace(state, text=text)), HOW, ARE))
    assert text == "hello world how are"


@pytest.mark.parametrize("words", [False, True])
def test_a_language_that_is_written_behind_all_words_is_the_turns(words: bool) -> None:
    turn = a_turn(words=words)
    hear(turn, HELLO)
    events = hear(turn, WORLD)
    turn.end()
    events += answer(turn, TAG)
    while turn.wants_request():
        events += answer(turn)
    (done,) = [event for event in events if isinstance(event, TurnCompleted)]
    assert (done.text, done.language) == ("hello world", "de")
