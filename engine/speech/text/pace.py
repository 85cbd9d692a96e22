"""How fast anybody speaks: what a model writes for too little audio was not said in it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lookhear.engine.messages import SAMPLE_RATE

# Letters and digits, of the audio from the beginning of a segment, its silence included. 137
# recordings of people have at most 18 without the silence around them; who reads aloud as fast as
# can be followed (300 words a minute) has 24.
LETTERS_PER_SECOND = 25
# With 0.4 s of silence around, nine in ten of those in English have fewer, and all in Spanish.
USUAL_LETTERS_PER_SECOND = 14
# A voice that was heard for so long is not much faster in its next sentence, and nobody slower.
MEASURED = 3 * SAMPLE_RATE
FASTER = 1.1
FEWEST_LETTERS_PER_SECOND = 6


def num_sayable(
    said: bytes,
    new: Sequence[int],
    samples: int,
    token_bytes: Callable[[int], bytes],
    pace: float = LETTERS_PER_SECOND,
) -> int:
    """Leading tokens of a text that can have been said in so much audio, behind what was said in it
    before: its UTF-8. pace: letters in a second."""
    room = pace * samples / SAMPLE_RATE
    pieces = list(map(token_bytes, new))
    if len(said) + sum(map(len, pieces)) <= room:
        return len(new)  # mostly; a letter is a byte at least
    room -= _num_letters(said)
    if _num_letters(b"".join(pieces)) <= room:
        return len(new)
    count = 0
    while _num_letters(b"".join(pieces[: count + 1])) <= room:
        count += 1
    return count


def usual_pace(said: bytes, samples: int) -> float:
    """Letters that a voice says in a second, at most, as long as it does not hurry. said: what it
    said last, in UTF-8, in so much audio."""
    if samples < MEASURED:
        return USUAL_LETTERS_PER_SECOND
    pace = FASTER * _num_letters(said) * SAMPLE_RATE / samples
    return min(max(pace, FEWEST_LETTERS_PER_SECOND), USUAL_LETTERS_PER_SECOND)


def is_ahead(
    said: bytes, new: Sequence[int], samples: int, token_bytes: Callable[[int], bytes]
) -> bool:
    """Whether the new tokens are words that are hardly said yet: with them a text has more than
    people usually say in so much audio. said: the text before, in UTF-8. Who has heard a sentence
    already knows how it ends before it does."""
    count = _num_letters(b"".join(map(token_bytes, new)))
    most = USUAL_LETTERS_PER_SECOND * samples / SAMPLE_RATE
    return count > 0 and _num_letters(said) + count > most


def _num_letters(data: bytes) -> int:
    return sum(map(str.isalnum, data.decode("utf-8", errors="ignore")))
