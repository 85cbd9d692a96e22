"""Thinking split off, stop texts found: however the text is cut into pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.chat.stop_texts import StopTexts
from lookhear.engine.markup.thinking import ThinkingSplitter


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(c % (len(text) + 1) for c in cuts)})
    return [text[a:b] for a, b in zip(places, places[1:], strict=False)]


def split(parts: list[str], *, is_open: bool = False) -> tuple[str, str]:
    splitter = ThinkingSplitter(is_open=is_open)
    outcomes = [*(splitter.push(part) for part in parts), splitter.flush()]
    return "".join(t for t, _ in outcomes), "".join(a for _, a in outcomes)


CUTS = st.lists(st.integers(0, 100), max_size=12)
WORDS = st.text("ab<>/ \nthink", max_size=12)


@pytest.mark.parametrize(
    ("text", "is_open", "thinking", "answer"),
    [
        ("<think>\nLet me see.\n</think>\n\nFour.", False, "Let me see.", "Four."),
        ("Let me\nsee.\n</think>\n\nFour.", True, "Let me\nsee.", "Four."),
        ("<think>\n\n</think>\n\nFour.", False, "", "Four."),
        ("\n<think>a</think>b", False, "a", "b"),
        ("Four.", False, "", "Four."),
        ("", False, "", ""),
        ("<thin ice", False, "", "<thin ice"),
        ("A tag is <think>x</think>.", False, "", "A tag is <think>x</think>."),
        ("<think>never ends", False, "never ends", ""),
        ("a</think>b</think>c", True, "a", "b</think>c"),
        ("  indented", False, "", "  indented"),
    ],
)
@given(cuts=CUTS)
def test_thinking_is_split_off(
    text: str, is_open: bool, thinking: str, answer: str, cuts: list[int]
) -> None:
    assert split(pieces(text, cuts), is_open=is_open) == (thinking, answer)


@given(text=WORDS, is_open=st.booleans(), cuts=CUTS)
def test_pieces_change_nothing(text: str, is_open: bool, cuts: list[int]) -> None:
    assert split(pieces(text, cuts), is_open=is_open) == split([text], is_open=is_open)


@given(thought=st.text("ab \n", max_size=9), said=st.text("ab", min_size=1), cuts=CUTS)
def test_nothing_but_line_breaks_is_lost(thought: str, said: str, cuts: list[int]) -> None:
    text = f"<think>{thought}</think>\n{said}"
    assert split(pieces(text, cuts)) == (thought.strip("\n"), said)


@given(
    text=st.text("abc", max_size=30),
    stops=st.lists(st.text("abc", min_size=1), max_size=3),
    cuts=CUTS,
)
def test_the_first_stop_text_ends_the_answer(text: str, stops: list[str], cuts: list[int]) -> None:
    stage = StopTexts(stops)
    passed = ""
    for part in pieces(text, cuts):
        passed += stage.push(part)
        if stage.has_stopped:
            break
    passed += stage.flush()
    assert text.startswith(passed)
    found = [text.find(stop) for stop in stops if stop in text]
    assert stage.has_stopped == bool(found)
    if found:
        # As soon as one is whole, so one that ends earlier wins over one that begins earlier.
        assert not any(stop in passed for stop in stops)
    else:
        assert passed == text


@given(
    early=st.text("abc", max_size=9),
    late=st.text("abc", max_size=9),
    stops=st.lists(st.text("abc", min_size=1), max_size=3),
    cuts=CUTS,
)
def test_only_what_becomes_whole_late_enough_ends_the_answer(
    early: str, late: str, stops: list[str], cuts: list[int]
) -> None:
    stage = StopTexts(stops)
    passed = "".join(stage.push(part, may_stop=False) for part in pieces(early, cuts))
    for part in pieces(late, cuts):
        passed += stage.push(part)
    passed += stage.flush()
    text = early + late
    ends = [
        at + len(stop)
        for stop in stops
        for at in range(len(text))
        if text.startswith(stop, at) and at + len(stop) > len(early)
    ]
    assert text.startswith(passed) and stage.has_stopped == bool(ends)
    assert len(passed) < min(ends) if ends else passed == text
