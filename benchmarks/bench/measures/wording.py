"""Whether two transcripts of the same speech are written alike: case and punctuation."""

from __future__ import annotations

from lookhear.wer import align, normalise

SENTENCE_ENDS = (".", "?", "!", "…", "。", "？", "！")


def sentences_of(text: str) -> list[list[str]]:
    """The words of each sentence, as they are written; the last may lack its end."""
    found: list[list[str]] = [[]]
    for word in text.split():
        found[-1].append(word)
        if word.rstrip("\"'”’)").endswith(SENTENCE_ENDS):
            found.append([])
    return [sentence for sentence in found if sentence]


def written_alike(text: str, other: str) -> tuple[int, int]:
    """(sentences of `text` that the other writes with the same case and punctuation, sentences).

    Only words that both have are looked at: whether they are right is for the WER to say. A
    sentence none of whose words the other has does not count.
    """
    owner = [(word, number) for number, said in enumerate(sentences_of(text)) for word in said]
    others = other.split()
    # A written word is one token here, however many words its spelling makes.
    pairs = align([_token(word) for word, _ in owner], [_token(word) for word in others])
    alike: dict[int, bool] = {}
    for i, j in pairs:
        if i is None or j is None or _token(owner[i][0]) != _token(others[j]):
            continue
        word, number = owner[i]
        alike[number] = alike.get(number, True) and word == others[j]
    return sum(alike.values()), len(alike)


def _token(word: str) -> str:
    return " ".join(normalise(word))
