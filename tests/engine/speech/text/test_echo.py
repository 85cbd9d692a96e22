"""What was said before, written once more."""

from __future__ import annotations

import pytest

from lookhear.engine.speech.text.echo import is_echo, is_known, is_multiple, is_quote

PIECES = [b" The", b" conference", b" is", b" now", b" unlocked", b".", b" No", b"?"]
SENTENCE = [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        ([*SENTENCE, 5], [*SENTENCE, 5, *SENTENCE, 5], True),
        ([*SENTENCE, 5], [*SENTENCE, 6, 1, 2, 4], True),  # whatever signs there are
        ([6, 5, *SENTENCE, 5], [*SENTENCE, *SENTENCE], True),  # of several sentences the last
        ([6, 5, *SENTENCE, 5], [6, 5, *SENTENCE, 5, 6, 5, *SENTENCE], True),  # or all of them
        ([*SENTENCE, 5, 6, 5], [*SENTENCE, 5, 6, 5, *SENTENCE], True),
        ([*SENTENCE, 5, 6, 5], [*SENTENCE, 5, *SENTENCE], False),  # the first alone
        (SENTENCE, [*SENTENCE, *SENTENCE], True),
        ([*SENTENCE, 5], [*SENTENCE, 5], False),  # no more than that: somebody says it again
        ([*SENTENCE, 5], [*SENTENCE, 6, 1], False),
        ([*SENTENCE, 5], [0, 1, 2, 3, 6, 1, 2, 3, 4], False),
        ([6, 5], [6, 5, *SENTENCE], False),  # so short that everybody says it twice
        ([], SENTENCE, False),
        ([6, *SENTENCE, 5], [*SENTENCE, 5, *SENTENCE], False),  # the end of one is no sentence
        ([5, 7], [*SENTENCE, *SENTENCE], False),
    ],
)
def test_the_last_sentence_whole_and_more(
    before: list[int], text: list[int], expected: bool
) -> None:
    assert is_echo(before, text, PIECES.__getitem__) is expected


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        ([6, 5], [6, 5, 6, 5], True),
        ([6], [6, 7, 6, 5, 6], True),
        ([6, 5], [6, 5], False),  # once more, as it was said
        ([6, 5], [6, 5, 6, 5, 0], False),
        ([6, 5, 6, 5], [6, 5, 6, 5, 6, 5], False),
        ([5], [6, 5, 6, 5], False),
        ([6, 5], [], False),
    ],
)
def test_all_of_it_twice_or_more(before: list[int], text: list[int], expected: bool) -> None:
    assert is_multiple(before, text, PIECES.__getitem__) is expected


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        ([*SENTENCE, 5], SENTENCE, True),
        ([*SENTENCE, 5], [*SENTENCE, 5], True),
        ([*SENTENCE, 5], [0, 1, 2, 3], True),  # so far
        ([*SENTENCE, 5, 0, 1], [2, 3], True),  # begun before
        ([*SENTENCE, 5, 6, 5], SENTENCE, True),  # another one between
        ([*SENTENCE, 5], [6, 5, *SENTENCE], True),  # behind another one
        ([], [*SENTENCE, 5, *SENTENCE], True),  # both at once
        ([*SENTENCE, 5], [*SENTENCE, 6, 1], True),  # and on
        ([*SENTENCE, 5], [0, 1, 2], False),  # so short that many sentences begin so
        ([*SENTENCE, 5], [0, 1, 2, 6, 4], False),
        ([6, 5, *SENTENCE, 5], [6, 5], False),
        ([*SENTENCE, 5, *SENTENCE, 5], [6, 5], False),  # what is repeated was told before
        ([*SENTENCE, 5], [], False),
        ([], SENTENCE, False),
    ],
)
def test_a_sentence_that_was_said_before(
    before: list[int], text: list[int], expected: bool
) -> None:
    assert is_known(before, text, PIECES.__getitem__) is expected


@pytest.mark.parametrize(
    ("prompt", "text", "expected"),
    [
        ("Is the conference now unlocked?", [0, 1, 3, 4], True),
        ("THE CON-FERENCE", [0, 1, 5], True),  # whatever case and signs
        ("Theconference", [0, 1], True),
        ("The conference", [1, 0], False),
        ("The conference", [0, 1, 2], False),
        ("The conference", [0], False),  # in every text
        ("", [0, 1], False),
        ("The conference", [], False),
    ],
)
def test_all_of_a_text_is_in_the_prompt(prompt: str, text: list[int], expected: bool) -> None:
    assert is_quote(prompt, text, PIECES.__getitem__) is expected
