from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.tokenizers.detokenizer import IncrementalDetokenizer


def byte_token(token: int) -> bytes:
    """Tokens 0..255 are single bytes, the others special."""
    return bytes([token]) if token < 256 else b""


TOKENS = st.one_of(
    st.text().map(lambda text: list(text.encode())), st.lists(st.integers(0, 260), max_size=40)
)


@settings(deadline=None)
@given(tokens=TOKENS, cuts=st.lists(st.integers(0, 60)))
def test_joined_pieces_equal_the_whole(tokens: list[int], cuts: list[int]) -> None:
    detokenizer = IncrementalDetokenizer(byte_token)
    whole = b"".join(byte_token(t) for t in tokens).decode("utf-8", errors="replace")
    edges = [0, *sorted(min(c, len(tokens)) for c in cuts), len(tokens)]
    said = ""
    for first, last in zip(edges, edges[1:], strict=False):
        promised = detokenizer.preview(tokens[first:last])
        piece = detokenizer.push(tokens[first:last])
        assert piece == promised
        said += piece
        assert whole.startswith(said)
    assert said + detokenizer.flush() == whole
    assert detokenizer.flush() == ""


def test_half_a_character_waits() -> None:
    detokenizer = IncrementalDetokenizer(byte_token)
    smile = list("🙂".encode())
    assert [detokenizer.push([t]) for t in smile] == ["", "", "", "🙂"]
    assert detokenizer.push(smile[:2]) == "" and detokenizer.flush() == "\ufffd"
    assert detokenizer.push([ord("a")]) == "a"
