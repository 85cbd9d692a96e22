"""What Qwen3-ForcedAligner is asked, and how its answer is read. Pure functions.

    <|audio_start|><|audio_pad|>...<|audio_end|>the<timestamp><timestamp>words<timestamp><timestamp>

Each word has two markers behind it, whose labels are its start and its end. Punctuation is not
read: a word is its letters, digits and apostrophes, and each Chinese character is one.
Source: the processors of Qwen3-ForcedAligner (QwenLM/Qwen3-ASR; transformers, `qwen3_asr`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.qwen3_asr.prompt import AUDIO_PAD
from lookhear.engine.tokenizers.qwen import QwenTokenizer

MARKER = "<timestamp>"
# ISO codes. It was trained on Japanese and Korean, too, but on words as nagisa and soynlp cut them.
ALIGNED_LANGUAGES = ("de", "en", "es", "fr", "it", "pt", "ru", "yue", "zh")
_IDEOGRAPHS = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0x2F800, 0x2FA1F),
)  # fmt: skip
_NEAR = 2  # so many wrong times in a row are given to their neighbours, more are spread out


@dataclass(frozen=True, slots=True)
class AlignedWord:
    """text: as it was read, without punctuation. start, end: seconds from the audio's beginning."""

    text: str
    start: float
    end: float


def word_spans(text: str) -> list[tuple[int, int]]:
    """(first character, end) of the words that get times, in their order: as the text spells them,
    with what is not read between their characters, as the hyphen of "well-known"."""
    spans: list[tuple[int, int]] = []
    first: int | None = None  # of the word that is not over
    end = 0
    for i, char in enumerate(text):
        is_word = _is_ideograph(char)
        if first is not None and (is_word or char.isspace()):
            spans.append((first, end))
            first = None
        if is_word:
            spans.append((i, i + 1))
        elif _is_read(char):
            first, end = i if first is None else first, i + 1
    return spans if first is None else [*spans, (first, end)]


def aligned_words(text: str) -> list[str]:
    """The words of a text that get times, in their order, as they are read."""
    return ["".join(filter(_is_read, text[first:end])) for first, end in word_spans(text)]


def alignment_prompt(
    tokenizer: QwenTokenizer, words: Sequence[str], audio_tokens: int
) -> list[int]:
    """Tokens that ask when these words were said in an audio of so many encoder tokens."""
    marker = tokenizer.token(MARKER)
    tokens = [
        tokenizer.token("<|audio_start|>"),
        *[tokenizer.token(AUDIO_PAD)] * audio_tokens,
        tokenizer.token("<|audio_end|>"),
    ]
    for word in words:
        tokens += [*tokenizer.encode(word), marker, marker]
    return tokens


def read_alignment(
    words: Sequence[str], labels: Sequence[int], step_ms: float
) -> list[AlignedWord]:
    """labels: the likeliest of each marker, two a word. step_ms: what a label stands for. Times
    never go back, whatever the model says."""
    assert len(labels) == 2 * len(words), (len(labels), len(words))
    times = in_order(np.array(labels, np.float64) * step_ms)
    return [
        AlignedWord(word, times[2 * i] / 1000, times[2 * i + 1] / 1000)
        for i, word in enumerate(words)
    ]


def in_order(times: NDArray[np.float64]) -> list[int]:
    """Times that never go back, whole numbers: the longest series of them that rises is right.

    times: [n], in any unit. One or two wrong ones in a row become the nearer of their neighbours;
    more are spread evenly between them.
    """
    right = _rising(times)
    if not right:
        return []
    fixed = times.copy()
    last = right[0]
    fixed[:last] = times[last]
    for after in right[1:]:
        wrong = after - last - 1
        if wrong > _NEAR:
            step = (times[after] - times[last]) / (wrong + 1)
            fixed[last + 1 : after] = times[last] + step * np.arange(1, wrong + 1)
        elif wrong:
            fixed[after - 1] = times[after]
            fixed[last + 1] = times[last]  # of one, it is the nearer
        last = after
    fixed[last + 1 :] = times[last]
    return [int(time) for time in fixed]


def _rising(times: NDArray[np.float64]) -> list[int]:
    """Indices of the longest part that never falls; of several, the one that is done first."""
    lengths = np.ones(len(times), np.int64)
    before = np.full(len(times), -1)
    for i in range(1, len(times)):
        reaches = np.where(times[:i] <= times[i], lengths[:i], 0)
        best = int(reaches.argmax())
        if reaches[best]:
            lengths[i], before[i] = reaches[best] + 1, best
    found: list[int] = []
    at = int(lengths.argmax()) if len(times) else -1
    while at >= 0:
        found.append(at)
        at = int(before[at])
    return found[::-1]


def _is_read(char: str) -> bool:
    return char == "'" or unicodedata.category(char)[0] in "LN"


def _is_ideograph(char: str) -> bool:
    code = ord(char)
    return any(first <= code <= last for first, last in _IDEOGRAPHS)
