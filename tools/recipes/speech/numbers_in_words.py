"""Whole numbers below one hundred, in words."""

from __future__ import annotations

_EN = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_EN_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ES = (
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince "
    "dieciséis diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés "
    "veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve"
).split()
_ES_TENS = "treinta cuarenta cincuenta sesenta setenta ochenta noventa".split()
_DE = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn"
).split()
_DE_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def in_words(n: int, language: str) -> str:
    """`n` (0 to 99) as it is read: "twenty-three", "veintitrés", "dreiundzwanzig"."""
    assert 0 <= n < 100, n
    tens, ones = divmod(n, 10)
    if language == "en":
        if n < 20:
            return _EN[n]
        return _EN_TENS[tens - 2] + (f"-{_EN[ones]}" if ones else "")
    if language == "es":
        if n < 30:
            return _ES[n]
        return _ES_TENS[tens - 3] + (f" y {_ES[ones]}" if ones else "")
    assert language == "de", language
    if n < 20:
        return _DE[n]
    unit = "ein" if ones == 1 else _DE[ones]
    return f"{unit}und{_DE_TENS[tens - 2]}" if ones else _DE_TENS[tens - 2]
