"""What was said before, written once more."""

from __future__ import annotations

import pytest

from lookhear.engine.speech.text.echo import is_echo

PIECES = [b" The", b" conference", b" is", b" now", b" unlocked", b".", b" No", b"?"]
SENTENCE = [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        ([*SENTENCE, 5], [*SENTENCE, 5, *SENTENCE, 5], True),
        ([*SENTENCE, 5], [*SENTENCE, 6, 1, 2, 4], True),  # whatever signs there are
        ([6, 5, *SENTENCE, 5], [*SENTENCE, *SENTENCE], True),  # of several sentences the last
        (SENTENCE, [*SENTENCE, *SENTENCE], True),
        ([*SENTENCE, 5], [*SENTENCE, 5], False),  # no more than that: somebody says it again
        ([*SENTENCE, 5], [*SENTENCE, 6, 1], False),
        ([*SENTENCE, 5], [0, 1, 2, 3, 6, 1, 2, 3, 4], False),
        ([6, 5], [6, 5, *SENTENCE], False),  # so short that everybody says it twice
        ([], SENTENCE, False),
        ([5, 7], [*SENTENCE, *SENTENCE], False),
    ],
)
def test_the_last_sentence_whole_and_more(
    before: list[int], text: list[int], expected: bool
) -> None:
    assert is_echo(before, text, PIECES.__getitem__) is expected
