"""How much can have been said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.text.pace import LETTERS_PER_SECOND, is_ahead, num_sayable

PIECES = [b" so", b" notwithstanding", b",", b" \xc3", b"\xa9t\xc3\xa9", b" 7"]
tokens = st.lists(st.integers(0, len(PIECES) - 1), max_size=20)


def letters(text: list[int]) -> int:
    joined = b"".join(PIECES[token] for token in text).decode("utf-8", errors="ignore")
    return sum(c.isalnum() for c in joined)


@given(tokens, tokens, st.integers(0, 10 * SAMPLE_RATE))
def test_as_many_as_the_audio_has_room_for(said: list[int], new: list[int], samples: int) -> None:
    before = b"".join(PIECES[token] for token in said)
    count = num_sayable(before, new, samples, PIECES.__getitem__)
    room = LETTERS_PER_SECOND * samples / SAMPLE_RATE - letters(said)
    assert 0 <= count <= len(new)
    assert letters(new[:count]) <= max(0.0, room)
    assert count == len(new) or letters(new[: count + 1]) > room


def test_a_sentence_in_a_second_is_not_said() -> None:
    sentence = [0, 1, 1, 0, 1]
    assert num_sayable(b"", sentence, SAMPLE_RATE, PIECES.__getitem__) == 2
    assert num_sayable(b"", sentence, 4 * SAMPLE_RATE, PIECES.__getitem__) == 5


def test_a_text_is_ahead_that_has_more_than_is_usually_said() -> None:
    spell = PIECES.__getitem__
    assert not is_ahead(b" Not at all", [0, 2], SAMPLE_RATE, spell)
    assert is_ahead(b" Not at all", [0, 2, 0, 0, 0, 0], SAMPLE_RATE, spell)
    assert not is_ahead(b" Not at all", [0, 2, 0, 0, 0, 0], 2 * SAMPLE_RATE, spell)
    assert not is_ahead(b" Not at all, not so", [2], SAMPLE_RATE, spell), "all of it was said"
