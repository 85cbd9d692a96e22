"""Tags of thinking by family: other tags, the same cuts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.markup.thinking import (
    COMMON,
    FAMILIES,
    ThinkingSplitter,
    ThinkingTags,
    tags_of,
)

WORDS = st.lists(st.sampled_from(["{open}", "{close}", "\n", "a", "<", "[", " "]), max_size=9)


def split(tags: ThinkingTags, words: list[str], *, is_open: bool) -> tuple[str, str]:
    splitter = ThinkingSplitter(tags, is_open=is_open)
    pieces = [
        splitter.push(character)
        for word in words
        for character in word.format(open=tags.open, close=tags.close)
    ]
    pieces.append(splitter.flush())
    return "".join(thought for thought, _ in pieces), "".join(said for _, said in pieces)


@given(st.sampled_from(FAMILIES), WORDS, st.booleans())
def test_every_family_is_cut_as_the_common_one(
    tags: ThinkingTags, words: list[str], is_open: bool
) -> None:
    thought, said = split(COMMON, words, is_open=is_open)
    in_theirs = said.replace(COMMON.open, tags.open).replace(COMMON.close, tags.close)
    thought = thought.replace(COMMON.open, tags.open).replace(COMMON.close, tags.close)
    assert split(tags, words, is_open=is_open) == (thought, in_theirs)


def test_tags_are_found_in_the_template() -> None:
    assert [tags_of(f"{{{{ '{tags.open}' }}}}") for tags in FAMILIES] == [*FAMILIES]
    assert tags_of("nothing of it") is COMMON


def test_where_there_are_no_tags_all_is_answer() -> None:
    splitter = ThinkingSplitter(None)
    assert [splitter.push(text) for text in ("\n<thi", "nk>a</think>")] == [
        ("", "\n<thi"),
        ("", "nk>a</think>"),
    ]
    assert splitter.flush() == ("", "") and not splitter.is_thinking
