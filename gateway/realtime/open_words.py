"""Words behind which no sentence ends: articles, possessives, conjunctions, and the prepositions of
languages that do not leave them stranded.

Whisper puts a full stop behind whatever the audio stops at, also behind "Please enter your". One
list for all languages, since that of a turn is seldom known before its end: so it lacks what ends
sentences in one of them (English "to" and "do", German "an" and "du", Spanish "uno").

It also puts an exclamation mark behind what it does not understand, such as the first half of a
word: "¡Para, amor!" of "Por el momento".
"""

from __future__ import annotations

from lookhear.gateway.realtime.patience import Words

_ENGLISH = "a the my your our their and or but nor because whether if than every"
_SPANISH = """a al de del con por para en el la los las un una unos unas mi su sus tu tus y o u pero
porque que sin hacia"""
_FRENCH = """le la les un une du de au aux mon ma mes tes sa ses et ou mais que pour avec dans
sans"""
_GERMAN = """der dem eine einen einem einer eines meine deine seine unsere und oder aber weil dass
wenn"""
_ITALIAN = "il lo la gli le un una di del della dei delle da dal nel nella con per e o ma che"
_PORTUGUESE = "o os as um uma de do da dos das em na nos nas com por para e ou mas que"
_ENDS = "as com da do du na sa tu"  # sentences, in another language than theirs

OPEN_WORDS = frozenset(
    " ".join((_ENGLISH, _SPANISH, _FRENCH, _GERMAN, _ITALIAN, _PORTUGUESE)).split()
) - frozenset(_ENDS.split())

# How probably a sentence ends behind such a mark, at most, as if nothing were known of the words:
# by the mark, by what else the model might have written there.
EXCLAIMED, EXCLAIMED_CLOSING = 0.5, 0.97


def sentence_end(text: str, words: Words) -> Words:
    """What the text says of it itself. words: by the signs that a model put there."""
    if is_open(text):
        return words.at_most(0.0, 0.0)
    if text.rstrip().endswith(("!", "！")):
        return words.at_most(EXCLAIMED, EXCLAIMED_CLOSING)
    return words


def is_open(text: str) -> bool:
    """Whether it breaks off behind such a word, whatever sign was put there."""
    words = text.split()
    return bool(words) and words[-1].strip("\"'”’.,;:!?…¿¡").lower() in OPEN_WORDS
