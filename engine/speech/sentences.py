"""Where the sentences of a text end. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lookhear.engine.speech.words import group_words

CLOSING = "\"'”’)]}»"
ENDS = ".!?。！？…"
LONGEST_ABBREVIATION = 3  # letters: "Mr.", "U.S." begin with a capital and end no sentence


def sentences(
    tokens: Sequence[int], decode_bytes: Callable[[Sequence[int]], bytes], language: str | None
) -> list[tuple[int, int]]:
    """(first token, end) of each sentence, in order; together they are all tokens."""
    found = []
    first = 0
    for text, _, end in group_words(tokens, decode_bytes, language):
        if _ends_sentence(text.strip()):
            found.append((first, end))
            first = end
    if first < len(tokens):
        found.append((first, len(tokens)))
    return found


def _ends_sentence(word: str) -> bool:
    bare = word.rstrip(CLOSING)
    if not bare or bare[-1] not in ENDS:
        return False
    letters = bare.strip(ENDS + CLOSING)
    is_short = len(letters.replace(".", "")) <= LONGEST_ABBREVIATION
    return not (bare[-1] == "." and is_short and letters[:1].isupper())
