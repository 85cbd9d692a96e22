"""Which windows are heard once more, one stretch of speech after another. Pure.

Of short answers with pauses between them, above all of the same one again and again, Whisper
writes fewer or more than there were, and mishears them, too; one by one it hears them rightly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.condensed import CondensedAudio
from lookhear.engine.speech.text.agreement import audible
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.speech.text.words import group_words
from lookhear.engine.whisper.files.pieces import SENTENCE_PAUSE, Cut

# Speech of a short answer, in the mean of those in a window.
SHORT_ANSWER = SAMPLE_RATE * 2


def spelt_words(
    cut: Cut,
    heard: Hypothesis,
    decode: Callable[[Sequence[int]], bytes],
    language: str | None,
) -> list[str]:
    """Letters and digits of each word of a window's text, in lower case. decode: UTF-8 of tokens.
    language: ISO code (some have no spaces)."""
    said = (heard.tokens[piece.first : piece.last] for piece in cut.pieces)
    words = (word for tokens in said for word, _, _ in group_words(tokens, decode, language))
    return [letters for letters in map(audible, words) if letters]


def is_miscounted(
    words: Sequence[str], segments: int, audio: CondensedAudio, begin: int, end: int
) -> bool:
    """Whether a text of the samples [begin, end) is not one of the short answers there, with pauses
    between them: there are more of them than words, or fewer than segments, or it says the same few
    words over and over, but not as often. words: see `spelt_words`."""
    count, stretches = len(words), audio.stretches(begin, end, SENTENCE_PAUSE)
    are_short = audio.spoken(begin, end) <= stretches * SHORT_ANSWER
    if stretches < 2 or not are_short or not count:
        return False
    if not segments <= stretches <= count:
        return True
    phrase = next(n for n in range(1, count + 1) if words[n:] == words[: count - n])
    is_listed = phrase <= count // 2 or len(set(words)) <= count // 3
    return is_listed and stretches not in (count, -(-count // phrase))
