"""What of a client's prompt, and of what was said before, stands in front of a window."""

from __future__ import annotations

import pytest

from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.prompt import WhisperPrompter
from tests.engine.whisper.test_recognizer import DEMO

TOKENIZER = WhisperTokenizer.from_folder(DEMO)
LONG = " ".join(f"word{number}" for number in range(100)) + " and Wroclaw"


def before(text: str, earlier: list[int], carried: int = 64) -> list[int]:
    """The tokens between the two that mark them; none without the first."""
    prompter = WhisperPrompter(TOKENIZER, 64, carried)
    head, _ = prompter.prompt(text, earlier, "transcribe", timestamps=True)
    assert head[-1] == TOKENIZER.sot
    assert TOKENIZER.prev not in head[1:] and TOKENIZER.sot not in head[:-1]
    if len(head) > 1:
        assert head[0] == TOKENIZER.prev
    return list(head[1:-1])


def test_of_a_long_prompt_the_end_is_kept() -> None:
    whole = TOKENIZER.encode(" " + LONG)
    assert len(whole) > 64
    assert before(LONG, []) == whole[-64:]
    assert before(LONG, TOKENIZER.encode(" and on"), carried=0) == whole[-64:]


@pytest.mark.parametrize("count", [1, 10, 32, 200])
def test_a_long_prompt_leaves_half_of_the_room_to_what_was_said_before(count: int) -> None:
    earlier = (TOKENIZER.encode(" and so it went on") * 100)[:count]
    kept = min(count, 32)
    whole = TOKENIZER.encode(" " + LONG)
    assert before(LONG, earlier) == [*whole[kept - 64 :], *earlier[-kept:]]


@pytest.mark.parametrize("words", [0, 1, 5, 12])
def test_a_prompt_that_fits_is_whole(words: int) -> None:
    text = " ".join(LONG.split()[:words])
    given = TOKENIZER.encode(" " + text) if text else []
    assert len(given) < 64
    earlier = TOKENIZER.encode(" and so it went on") * 20
    assert before(text, earlier) == [*given, *earlier[len(given) - 64 :]]
    assert before(text, []) == given
