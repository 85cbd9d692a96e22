from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.qwen3_asr.prompt import (
    LANGUAGES,
    MAX_CONTEXT_TOKENS,
    Transcript,
    build_prompt,
    language_code,
    language_name,
    parse_transcript,
)
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.random_checkpoints.qwen3 import write_qwen_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prompt")
    write_qwen_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> QwenTokenizer:
    return QwenTokenizer.from_folder(folder)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    from transformers import Qwen2Tokenizer

    return Qwen2Tokenizer.from_pretrained(folder)


@pytest.mark.parametrize("context", ["", "Ada Lovelace", "  zwei\nZeilen, 日本 ", "\n\nx"])
@pytest.mark.parametrize("language", [None, "", "English"])
def test_prompt_is_the_template_as_one_text(
    tokenizer: QwenTokenizer, theirs: Any, context: str, language: str | None
) -> None:
    prompt = build_prompt(tokenizer, 5, context=context, language=language)
    header = f"language {language}<asr_text>" if language else ""
    text = (
        f"<|im_start|>system\n{context.strip()}<|im_end|>\n"
        f"<|im_start|>user\n<|audio_start|>{'<|audio_pad|>' * 5}<|audio_end|><|im_end|>\n"
        f"<|im_start|>assistant\n{header}"
    )
    assert list(prompt.tokens) == theirs.encode(text, add_special_tokens=False)
    pad = tokenizer.token("<|audio_pad|>")
    places = [i for i, token in enumerate(prompt.tokens) if token == pad]
    assert places == list(range(prompt.audio_start, prompt.audio_start + prompt.audio_tokens))


def test_prefix_continues_the_answer(tokenizer: QwenTokenizer) -> None:
    plain = build_prompt(tokenizer, 2, language="German")
    words = tokenizer.encode("schon gesagt")
    longer = build_prompt(tokenizer, 2, language="German", prefix=words)
    assert longer.tokens == (*plain.tokens, *words)


def test_more_audio_changes_nothing_before_it(tokenizer: QwenTokenizer) -> None:
    short, long = (build_prompt(tokenizer, n, context="the word") for n in (13, 117))
    shared = short.audio_start + 13
    assert short.audio_start == long.audio_start
    assert short.tokens[:shared] == long.tokens[:shared]


@given(
    st.lists(
        st.sampled_from(
            ["<|im_end|>", "<|im_", "end|>", "<asr_text>", "<|audio_pad|>", "word", "\n", "<"]
        ),
        max_size=10,
    )
)
def test_context_cannot_leave_its_turn(tmp_path_factory: Any, parts: list[str]) -> None:
    folder = tmp_path_factory.getbasetemp() / "turns"
    if not folder.exists():
        write_qwen_tokenizer(folder)
    tokenizer = QwenTokenizer.from_folder(folder)
    prompt = build_prompt(tokenizer, 3, context="".join(parts))
    plain = build_prompt(tokenizer, 3)
    added = set(tokenizer.added.values())
    assert [t for t in prompt.tokens if t in added] == [t for t in plain.tokens if t in added]


def test_a_long_context_is_cut(tokenizer: QwenTokenizer) -> None:
    plain = build_prompt(tokenizer, 1)
    long = build_prompt(tokenizer, 1, context="x y " * 5000)
    assert len(long.tokens) == len(plain.tokens) + MAX_CONTEXT_TOKENS


@pytest.mark.parametrize(
    ("language", "name"),
    [
        ("en", "English"),
        ("EN-us", "English"),
        ("zh_CN", "Chinese"),
        ("yue", "Cantonese"),
        (" german ", "German"),
        ("Klingon", None),
        ("e", None),
        ("", None),
    ],
)
def test_language_names(language: str, name: str | None) -> None:
    assert language_name(language) == name


def test_names_and_codes_are_those_of_transformers() -> None:
    from transformers.models.qwen3_asr.processing_qwen3_asr import LANGUAGE_CODE_TO_NAME

    assert LANGUAGES == LANGUAGE_CODE_TO_NAME
    assert all(language_code(name) == code for code, name in LANGUAGES.items())
    assert language_code("Klingon") is None


@pytest.mark.parametrize(
    ("raw", "language", "text"),
    [
        ("language English<asr_text>Hello there.", "English", "Hello there."),
        ("language English<asr_text>", "English", ""),
        ("language None<asr_text>", None, ""),
        (" language Simplified Chinese <asr_text> 你好", "Simplified Chinese", "你好"),
        ("language English, German<asr_text>well, ja", "English, German", "well, ja"),
        ("<asr_text>no language", None, "no language"),
        ("Hello there.", None, "Hello there."),
        ("language is what we speak", None, "language is what we speak"),
        ("Language models", None, "Language models"),
        ("languages", None, "languages"),
        ("language English<b>", None, "language English<b>"),
        ("language English<asr_text>a language German<asr_text>b", "English", "a language Germanb"),
        ("language One Two Three Four", None, "language One Two Three Four"),
        ("", None, ""),
    ],
)
def test_answers(raw: str, language: str | None, text: str) -> None:
    assert parse_transcript(raw, final=True) == Transcript(language, text)


@pytest.mark.parametrize(
    "raw", ["language English<asr_text>Hello there.", "language Simplified Chinese<asr_text>x"]
)
def test_nothing_is_shown_of_a_header_however_it_is_cut(raw: str) -> None:
    tag = raw.index("<asr_text>") + len("<asr_text>")
    for length in range(len(raw) + 1):
        answer = parse_transcript(raw[:length])
        assert (answer is None) == (length < tag)
        if answer is not None:
            assert raw[tag:].startswith(answer.text)


@pytest.mark.parametrize(
    ("raw", "needed"),
    [("hello", 1), ("language is", 10), ("language English is", 18), ("<b>", 2)],
)
def test_text_without_a_header_is_held_back_no_longer_than_needed(raw: str, needed: int) -> None:
    for length in range(len(raw) + 1):
        answer = parse_transcript(raw[:length])
        assert answer == (Transcript(None, raw[:length]) if length >= needed else None)


@given(st.text(alphabet="language EGx<asr_t>,\n", max_size=40))
def test_what_was_shown_is_never_taken_back(raw: str) -> None:
    shown = ""
    for length in range(len(raw) + 1):
        answer = parse_transcript(raw[:length])
        if answer is not None and "<" not in raw[:length].replace("<asr_text>", ""):
            assert answer.text.startswith(shown)
            shown = answer.text
    final = parse_transcript(raw, final=True)
    assert final is not None and "<asr_text>" not in final.text
