"""Names of blocks: equal ones mean equal contents, and those that go on are those made anew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.digests import MediaSpan, OwnersDigests, block_digests

tokens_of_prompts = st.lists(st.integers(0, 2), min_size=1, max_size=6 * BLOCK_TOKENS)
spans = st.lists(
    st.tuples(st.sampled_from([b"a", b"b"]), st.integers(0, 20), st.integers(1, 40)), max_size=4
)
# Of the prompt before: how much is kept, and what stands behind it.
changes = st.tuples(
    st.integers(0, 6 * BLOCK_TOKENS), st.lists(st.integers(0, 1), max_size=40), spans,
    st.integers(0, 4), st.sampled_from(["a", "a", "b"]), st.sampled_from([b"", b"", b"salt"]),
)  # fmt: skip


@given(tokens_of_prompts, tokens_of_prompts)
def test_equal_digests_mean_equal_prefixes(a: list[int], b: list[int]) -> None:
    for i, (x, y) in enumerate(zip(block_digests(a), block_digests(b), strict=False)):
        end = (i + 1) * BLOCK_TOKENS
        assert (x == y) == (a[:end] == b[:end])


def test_two_clips_in_the_same_text_do_not_collide() -> None:
    tokens = [7] * 48
    one, other = (block_digests(tokens, [MediaSpan(d, 4, 30)]) for d in (b"one", b"other"))
    assert one[0] != other[0] and one[2] != other[2]


def test_the_offset_inside_the_media_counts() -> None:
    tokens = [7] * 16
    a = block_digests(tokens, [MediaSpan(b"m", 0, 16)])
    b = block_digests(tokens, [MediaSpan(b"m", -16, 48)])
    assert a != b


def test_media_later_than_a_block_does_not_change_its_name() -> None:
    tokens = [7] * 48
    assert block_digests(tokens)[0] == block_digests(tokens, [MediaSpan(b"m", 16, 8)])[0]


def test_tenants_and_adapters_are_apart() -> None:
    tokens = [1] * 16
    names = {
        block_digests(tokens, salt=salt, adapter=adapter)[0]
        for salt, adapter in ((b"", ""), (b"x", ""), (b"", "x"), (b"y", ""))
    }
    assert len(names) == 4


@given(st.lists(changes, min_size=1, max_size=6))
def test_names_that_go_on_are_those_made_anew(
    steps: list[tuple[int, list[int], list[tuple[bytes, int, int]], int, str, bytes]],
) -> None:
    digests = OwnersDigests()
    prompt: tuple[int, ...] = ()
    media: tuple[MediaSpan, ...] = ()
    for kept, more, clips, kept_media, owner, salt in steps:
        prompt = (*prompt[:kept], *more)
        places = [*media[:kept_media]]
        end = places[-1].start + places[-1].length if places else 0
        for digest, gap, length in clips:
            places.append(MediaSpan(digest, end + gap, length))
            end += gap + length
        media = tuple(places)
        assert digests.of(owner, prompt, media, salt=salt) == block_digests(
            prompt, media, salt=salt
        )


def test_who_is_gone_is_forgotten() -> None:
    digests = OwnersDigests()
    tokens = (1,) * (2 * BLOCK_TOKENS)
    digests.of("a", tokens, (), salt=b"")
    digests.forget("a")
    digests.forget("a")
    assert not digests._last
    assert digests.of("a", tokens, (), salt=b"") == block_digests(tokens)
