"""What a model writes of earlier speech once more, as if it had been said again. Pure.

A voice that says a sentence much like the one before it is heard so, above all where a sentence is
said again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lookhear.engine.speech.text.agreement import Letters, TokenBytes, audible
from lookhear.engine.speech.text.sentences import ends_text

LEAST = 16  # letters: three short words are often said twice
QUOTE = 4  # letters: two and three are in every text


def is_echo(before: Sequence[int], text: Sequence[int], token_bytes: TokenBytes) -> bool:
    """Whether a text begins with the last sentence of what was said before it, whole, or the last
    few, and goes on.

    So may somebody who says it again; whoever hears the text by itself can tell.
    """
    heard, end = Letters.of(text, token_bytes).text, _text_end(before, token_bytes)
    for first in range(end - 1, -1, -1):
        if first and not ends_text(token_bytes(before[first - 1])):
            continue
        said = Letters.of(before[first:end], token_bytes).text
        if len(heard) < len(said) + LEAST:
            return False
        if len(said) >= LEAST and heard.startswith(said):
            return True
    return False


def is_multiple(before: Sequence[int], text: Sequence[int], token_bytes: TokenBytes) -> bool:
    """Whether a text is what was said before it, all of that, twice or more."""
    said, heard = (Letters.of(tokens, token_bytes).text for tokens in (before, text))
    count = len(heard) // max(1, len(said))
    return count > 1 and heard == said * count


def is_known(before: Sequence[int], text: Sequence[int], token_bytes: TokenBytes) -> bool:
    """Whether a text goes on, or has, a sentence that begins as one before it, letter for letter
    so far. Who has heard that one writes all of it as soon as it begins once more."""
    tokens, first = [*before, *text], 0
    said: list[str] = []
    for end in range(1, len(tokens) + 1):
        if end < len(tokens) and not ends_text(token_bytes(tokens[end - 1])):
            continue
        letters = Letters.of(tokens[first:end], token_bytes).text
        if end > len(before) and len(letters) >= LEAST:
            if any(one.startswith(letters) or letters.startswith(one) for one in said):
                return True
        first = end
        if len(letters) >= LEAST:
            said.append(letters)
    return False


def is_quote(prompt: str, text: Sequence[int], token_bytes: TokenBytes) -> bool:
    """Whether all of a text stands so in a client's prompt. Who says what the prompt says goes on;
    a model that does not understand copies it."""
    letters = Letters.of(text, token_bytes).text
    return len(letters) >= QUOTE and letters in _letters_of(prompt)


@lru_cache(maxsize=256)
def _letters_of(prompt: str) -> str:
    return audible(prompt)  # once for all looks: it may have thousands


def _text_end(tokens: Sequence[int], token_bytes: TokenBytes) -> int:
    """Where the signs at the end begin."""
    end = len(tokens)
    while end and ends_text(token_bytes(tokens[end - 1])):
        end -= 1
    return end
