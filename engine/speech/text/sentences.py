"""Where the sentences of a text end. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from lookhear.engine.speech.text.words import group_words

CLOSING = "\"'”’)]}»"
ENDS = ".!?。！？…؟۔।։።"  # of Arabic and Urdu, Hindi, Armenian, Amharic as well
PAUSES = ",;:，；：、،؛"
TRAILING = ("...", "…")
TAIL = 12  # tokens that surely hold the last word
TITLES = frozenset({"Mr", "Mrs", "Ms", "Dr", "St", "Sr", "Sra", "Hr", "Fr"})
LONGEST_ABBREVIATION = 3  # letters: "Mr.", "U.S." begin with a capital and end no sentence


def sentences(
    tokens: Sequence[int], decode_bytes: Callable[[Sequence[int]], bytes], language: str | None
) -> list[tuple[int, int]]:
    """(first token, end) of each sentence, in order; together they are all tokens."""
    found = []
    first = 0
    for text, _, end in group_words(tokens, decode_bytes, language):
        if ends_sentence(text.strip()):
            found.append((first, end))
            first = end
    if first < len(tokens):
        found.append((first, len(tokens)))
    return found


def end_probability(
    tokens: Sequence[int],
    logprobs: Sequence[float],
    decode_bytes: Callable[[Sequence[int]], bytes],
    before: str = "",
) -> float:
    """How probable the sign was that ends the sentence at the end of a text; 0 where none does, or
    where the text trails off. logprobs: natural logarithms, one per token. before: the text in
    front of these tokens."""
    if not is_sentence(tokens, decode_bytes, before):
        return 0.0
    for token, logprob in zip(reversed(tokens), reversed(logprobs), strict=True):
        if any(sign in ENDS for sign in decode_bytes([token]).decode("utf-8", errors="replace")):
            return math.exp(logprob)
    return 0.0  # a sign of several tokens


def is_sentence(
    tokens: Sequence[int], decode_bytes: Callable[[Sequence[int]], bytes], before: str = ""
) -> bool:
    """Whether a text that may be over ends as a sentence does, and does not trail off: "Yes." does,
    "Mr." and "U.S." do not. before: as in `end_probability`."""
    front = before if len(tokens) <= TAIL else ""
    tail = (front + decode_bytes(tokens[-TAIL:]).decode("utf-8", errors="replace")).rstrip()
    bare = tail.rstrip(CLOSING)
    if not bare or bare[-1] not in ENDS or bare.endswith(TRAILING):
        return False
    last = tail.split()[-1]
    letters = last.strip(ENDS + CLOSING)
    is_whole = len(letters) > 1 and "." not in letters and letters not in TITLES
    return is_whole or ends_sentence(last)


def without_signs(tokens: Sequence[int], token_bytes: Callable[[int], bytes]) -> int:
    """How many tokens a text has in front of the signs that it ends with."""
    count = len(tokens)
    while count:
        text = token_bytes(tokens[count - 1]).decode("utf-8", errors="replace")
        if text.strip(ENDS + CLOSING):
            break
        count -= 1
    return count


def is_closing(data: bytes) -> bool:
    """Whether a token is nothing but signs that belong behind a word."""
    text = data.decode("utf-8", errors="replace").strip()
    return bool(text) and not text.strip(ENDS + PAUSES)


def ends_text(data: bytes) -> bool:
    """Whether a token is a sign that ends a sentence, perhaps among others."""
    text = data.decode("utf-8", errors="replace").strip()
    return bool(text) and not text.strip(ENDS + CLOSING) and any(sign in ENDS for sign in text)


def ends_sentence(word: str) -> bool:
    """Whether a word, with the signs behind it, is the last of a sentence."""
    bare = word.rstrip(CLOSING)
    if not bare or bare[-1] not in ENDS:
        return False
    letters = bare.strip(ENDS + CLOSING)
    is_short = len(letters.replace(".", "")) <= LONGEST_ABBREVIATION
    return not (bare[-1] == "." and is_short and letters[:1].isupper())
