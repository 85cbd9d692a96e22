"""What a person sees of an answer: wrapped at words, harmless, with what it took below."""

from __future__ import annotations

import io
import itertools

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lookhear import AnswerCompleted, AnswerDelta, AnswerEvent, ReasoningDelta, Usage
from lookhear.terminal.answer import AnswerDisplay, WordWrap


def shown(events: list[AnswerEvent], *, terminal: bool) -> str:
    out = io.StringIO()
    ticks = itertools.count()
    # No colours, so that what is seen is what was written.
    console = Console(file=out, force_terminal=terminal, width=20, color_system=None)
    with AnswerDisplay(console, lambda: float(next(ticks))) as display:
        for event in events:
            display.show(event)
    return out.getvalue()


USAGE = Usage(prompt=70, output=3, cached=64, image=49)


def test_piped_text_is_the_answer_and_nothing_else() -> None:
    events: list[AnswerEvent] = [ReasoningDelta("hm"), AnswerDelta("A red ")]
    events.append(AnswerDelta("[circle]\x07, as you see"))
    end = AnswerCompleted("", "length", usage=USAGE)
    assert shown([*events, end], terminal=False) == "A red [circle]\x07, as you see\n"
    assert shown([end], terminal=False) == ""


def test_a_terminal_shows_what_it_took() -> None:
    picture = shown(
        [
            ReasoningDelta("Hm, round."),
            AnswerDelta("A red"),
            AnswerCompleted("", "length", "", USAGE),
        ],
        terminal=True,
    )
    assert "thinking" in picture
    lines = [line for line in picture.splitlines() if "thinking" not in line]
    text = " ".join(" ".join(lines).split())
    assert "Hm, round. A red" in text
    assert text.endswith(
        "2.0 s, first text after 1.00 s, 3 tokens, 64 of 70 prompt tokens from the cache, "
        "cut off at the limit of tokens"
    )


def test_a_model_cannot_move_the_cursor() -> None:
    picture = shown([AnswerDelta("\x1b[2J\x9b2Jsafe\r\ttoo [b]\n")], terminal=True)
    shown_text = picture[picture.index("[2J") :]
    assert shown_text == "[2J2Jsafe    too [b]\n"


def wrapped(pieces: list[str], width: int) -> str:
    wrap = WordWrap(width)
    return "".join(map(wrap.add, pieces)) + wrap.end()


def test_words_are_not_broken() -> None:
    assert (
        wrapped(["one two th", "ree", " four\n  five six"], 10) == "one two\nthree four\n  five six"
    )
    assert wrapped(["a", " verylongwordindeed", " b"], 5) == "a\nverylongwordindeed\nb"


def test_chinese_and_japanese_are_shown_as_they_come() -> None:
    wrap = WordWrap(6)
    assert [wrap.add(character) for character in "今天。很好"] == ["", "今", "", "天。", "\n很"]
    assert wrapped(["円 円円円"], 6) == "円 円\n円円"
    assert wrapped(["今OK", "。天"], 6) == "今OK。\n天"  # no line begins with a sign


@given(st.text(alphabet="ab \n", max_size=60), st.lists(st.integers(0, 60)), st.integers(1, 12))
def test_how_text_comes_does_not_change_how_it_looks(
    text: str, cuts: list[int], width: int
) -> None:
    edges = [0, *sorted(cuts), len(text)]
    pieces = [text[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    once = wrapped([text], width)
    assert wrapped(pieces, width) == once
    assert once.split() == text.split()
    for line in once.splitlines():
        assert len(line.strip()) <= width or len(line.split()) == 1


@given(st.text(alphabet="a天。 \n", max_size=30), st.integers(2, 12))
def test_how_chinese_comes_does_not_change_how_it_looks(text: str, width: int) -> None:
    once = wrapped([text], width)
    assert wrapped(list(text), width) == once
    assert "".join(once.split()) == "".join(text.split())
