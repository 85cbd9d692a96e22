"""Turns as one text: spaces as the script has them."""

from __future__ import annotations

import pytest

from lookhear.live.joining import joined


@pytest.mark.parametrize(
    ("turns", "text"),
    [
        ([" Good morning. ", "", "How are you?"], "Good morning. How are you?"),
        (["今日はいい", "天気ですね。", "そうですね"], "今日はいい天気ですね。そうですね"),
        (["你好。", "OK", "再见"], "你好。 OK 再见"),
        (["안녕하세요", "감사합니다"], "안녕하세요 감사합니다"),
        (["สวัสดี", "ขอบคุณ"], "สวัสดี ขอบคุณ"),
        ([], ""),
    ],
    ids=["english", "japanese", "mixed", "korean", "thai", "nothing"],
)
def test_turns_are_joined_as_their_script_is_written(turns: list[str], text: str) -> None:
    assert joined(turns) == text
