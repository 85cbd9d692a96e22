"""Words of a text, spelled so that "Press 1" and "press one" are the same."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache

from lookhear.errors import NotInstalled
from lookhear.wer import normalise

WHISPER = "whisper"  # as the accuracy of Whisper is reported


def spelled(text: str, language: str, spelling: str = "") -> list[str]:
    """The words that are counted. spelling: "" for `lookhear.wer.normalise`, WHISPER for Whisper's
    own: English has its numbers and contractions written one way, other languages lose their
    diacritics. NotInstalled."""
    if spelling != WHISPER:
        return normalise(text)
    return _whisper(language == "en")(text).split()


@cache
def _whisper(english: bool) -> Callable[[str], str]:
    module = "whisper_normalizer.english" if english else "whisper_normalizer.basic"
    try:
        library = importlib.import_module(module)
    except ModuleNotFoundError:
        raise NotInstalled(
            'texts of people are compared as Whisper spells: pip install "lookhear[bench]" '
            "(whisper-normalizer is missing)"
        ) from None
    made: Callable[[str], str] = (
        library.EnglishTextNormalizer()
        if english
        else library.BasicTextNormalizer(remove_diacritics=True)
    )
    return made
