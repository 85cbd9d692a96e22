"""How fast anybody speaks: what a model writes for too little audio was not said in it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lookhear.engine.messages import SAMPLE_RATE

# Letters and digits, of the audio from the beginning of a segment, its silence included. 137
# recordings of people have at most 18 without the silence around them; who reads aloud as fast as
# can be followed (300 words a minute) has 24.
LETTERS_PER_SECOND = 25


def num_sayable(
    said: Sequence[int], new: Sequence[int], samples: int, token_bytes: Callable[[int], bytes]
) -> int:
    """Leading tokens of a text that can have been said in so much audio, behind what was said in it
    before."""
    room = LETTERS_PER_SECOND * samples / SAMPLE_RATE - _num_letters(said, token_bytes)
    if _num_letters(new, token_bytes) <= room:
        return len(new)
    count = 0
    while _num_letters(new[: count + 1], token_bytes) <= room:
        count += 1
    return count


def _num_letters(tokens: Sequence[int], token_bytes: Callable[[int], bytes]) -> int:
    text = b"".join(map(token_bytes, tokens)).decode("utf-8", errors="ignore")
    return sum(map(str.isalnum, text))
