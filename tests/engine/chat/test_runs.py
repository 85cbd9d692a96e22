"""Texts far too long for the context cost little, and what fits is encoded as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.chat.prompt import ChatPrompter
from lookhear.engine.chat.runs import LONG, SLACK, encoded
from lookhear.engine.chat.template import DEFAULT, ChatTemplate
from lookhear.engine.core.request import RequestError
from lookhear.engine.messages import ChatMessage
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.chat.asking import user
from tools.random_checkpoints.qwen3_vl import write_vl_tokenizer

MOST = 1000  # tokens


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_vl_tokenizer(folder)
    return folder


def prompter_of(folder: Path) -> ChatPrompter:
    tokenizer = QwenTokenizer.from_folder(folder)
    return ChatPrompter(tokenizer, ChatTemplate(DEFAULT, {}, folder), None, max_tokens=MOST)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> QwenTokenizer:
    return QwenTokenizer.from_folder(folder)


FAR = {
    "one text": [user("hello world " * 20_000)],
    "one word": [user("a" * 240_000)],
    "many messages": [user("hello world " * 20), ChatMessage("assistant", [])] * 1000,
}


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("reserved", [0, MOST])
def test_of_what_is_far_too_long_only_a_beginning_is_encoded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, reserved: int
) -> None:
    prompter, read = prompter_of(folder), list[str]()
    encode = prompter.tokenizer.encode

    def noted(text: str) -> list[int]:
        read.append(text)
        return encode(text)

    monkeypatch.setattr(prompter.tokenizer, "encode", noted)
    with pytest.raises(RequestError, match=r"got \d+ or more \+ 1|of \d+ or more$") as refused:
        prompter.prompt("s", FAR[name], reserved=reserved)
    assert refused.value.code == "context_length_exceeded"
    assert 0 < sum(map(len, read)) <= 2 * LONG * MOST  # of 240,000
    with pytest.raises(RequestError, match=rf"expected at most {MOST} tokens, got \d+ or more"):
        prompter.unanswered("s", FAR[name])


def test_what_is_a_little_too_long_is_counted(folder: Path) -> None:
    prompter = prompter_of(folder)
    text = "a b " * MOST
    size = len(prompter.tokenizer.encode(text))
    assert size > MOST + SLACK
    with pytest.raises(RequestError, match=r"got (\d+) \+ 1$") as refused:
        prompter.prompt("s", [user(text)])
    assert size <= int(str(refused.value).split()[-3]) < size + 20  # and the template's


def test_a_text_of_long_tokens_is_encoded_as_a_whole() -> None:
    """Its beginning has other ones where it is cut."""

    def encode(text: str) -> list[int]:
        return [len(text[at : at + 30]) for at in range(0, len(text), 30)]

    for size in (LONG * MOST - 1, LONG * MOST + 1, 29 * MOST, 30 * MOST):
        text = "a" * size
        assert encoded(encode, text, MOST) == encode(text)
    assert MOST + SLACK < len(encoded(encode, "a" * 10_000_000, MOST)) < 10 * MOST


@given(st.text(st.sampled_from("the a\u00e9\n  12<|>\u4e2d"), max_size=1500), st.integers(1, 60))
def test_what_fits_is_the_same_and_what_does_not_never_fits(
    tokenizer: QwenTokenizer, text: str, most: int
) -> None:
    whole, ours = tokenizer.encode(text), encoded(tokenizer.encode, text, most)
    assert ours == whole if len(whole) <= most else len(ours) > most
