"""Which windows are heard once more, one stretch of speech after another. Pure.

Of short answers with pauses between them, above all of the same one again and again, Whisper
writes fewer or more than there were, and mishears them, too; one by one it hears them rightly.
"""

from __future__ import annotations

from collections.abc import Sequence


def is_miscounted(words: Sequence[str], segments: int, stretches: int) -> bool:
    """Whether a text is not one of so many stretches of speech with pauses between them: there are
    more of them than words, or fewer than segments, or it says the same few words over and over,
    but not as often. words: letters and digits of each, in lower case."""
    count = len(words)
    if stretches < 2 or not count:
        return False
    if not segments <= stretches <= count:
        return True
    phrase = next(n for n in range(1, count + 1) if words[n:] == words[: count - n])
    is_listed = phrase <= count // 2 or len(set(words)) <= count // 3
    return is_listed and stretches not in (count, -(-count // phrase))
