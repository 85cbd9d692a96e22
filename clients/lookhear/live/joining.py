"""What was said in several turns, as one text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable


def joined(texts: Iterable[str]) -> str:
    """Texts of turns with a space between them, but none between two signs of a script that is
    written without (Chinese, Japanese)."""
    whole = ""
    for text in filter(None, (text.strip() for text in texts)):
        gap = " " if whole and not (_is_unspaced(whole[-1]) and _is_unspaced(text[0])) else ""
        whole += gap + text
    return whole


def _is_unspaced(char: str) -> bool:
    """Of Chinese, Japanese and their signs; Korean, as wide, has spaces between words."""
    is_wide = unicodedata.east_asian_width(char) in ("W", "F")
    return is_wide and not unicodedata.name(char, "").startswith(("HANGUL", "HALFWIDTH HANGUL"))
