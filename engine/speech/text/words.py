"""Which tokens of a text make a word. Constants of openai/whisper `timing.py`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

UNSPACED_LANGUAGES = frozenset({"zh", "ja", "th", "lo", "my", "yue", "km", "bo"})
PREPENDED = "\"'“¿([{-«"
SPOKEN = "&%@#+=×÷°§$€£¥₹"  # signs that are words where they stand apart
APPENDED = "\"'.。,，!！?？:：”)]}、…»"
INNER = ".,:'’-"  # signs that a word may go on behind: "3.50", "10:30", "O'Brien"


def group_words(
    tokens: Sequence[int], decode_bytes: Callable[[Sequence[int]], bytes], language: str | None
) -> list[tuple[str, int, int]]:
    """Words of a text as (text, first token, last token exclusive), in order, none left out.

    A word begins at a space; punctuation joins the word it belongs to, and so does what stands
    right behind a sign within a word. In languages without spaces every group of tokens that makes
    whole characters is a word.
    """
    pieces = whole_characters(tokens, decode_bytes)
    is_spaced = language not in UNSPACED_LANGUAGES
    words: list[tuple[str, int, int]] = []
    for text, first, last in pieces:
        if words and is_spaced and not text.startswith(" ") and not _is_punctuation(text):
            before, start, _ = words[-1]
            words[-1] = (before + text, start, last)
        else:
            words.append((text, first, last))
    return _merge_punctuation(words, INNER if is_spaced else "")


def whole_characters(
    tokens: Sequence[int], decode_bytes: Callable[[Sequence[int]], bytes]
) -> list[tuple[str, int, int]]:
    """The shortest groups of tokens that are valid UTF-8 each, as (text, first token, end); a
    broken tail becomes U+FFFD."""
    pieces: list[tuple[str, int, int]] = []
    first, data = 0, b""
    for index, token in enumerate(tokens):
        data += decode_bytes([token])
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            waits = error.reason == "unexpected end of data"
            if waits and index + 1 < len(tokens):
                continue
            text = data.decode("utf-8", errors="replace")
        pieces.append((text, first, index + 1))
        first, data = index + 1, b""
    return pieces


def _is_punctuation(text: str) -> bool:
    return bool(text.strip()) and all(c in PREPENDED + APPENDED for c in text.strip())


def _merge_punctuation(words: list[tuple[str, int, int]], inner: str) -> list[tuple[str, int, int]]:
    """Opening signs go to the next word, closing signs to the one before, with what is behind them
    where they are of the `inner` ones."""
    merged: list[tuple[str, int, int]] = []
    opening: tuple[str, int, int] | None = None
    for text, first, last in words:
        if opening is not None:
            text, first = opening[0] + text, opening[1]
            opening = None
        sign = text.strip()
        if text.startswith(" ") and sign and all(c in PREPENDED for c in sign):
            opening = (text, first, last)
        elif (
            merged
            and not text.startswith(" ")
            and sign
            and (sign[0] in inner or all(c in APPENDED for c in sign))
        ):
            before, start, _ = merged[-1]
            merged[-1] = (before + text, start, last)
        else:
            merged.append((text, first, last))
    if opening is not None:
        merged.append(opening)
    return merged
