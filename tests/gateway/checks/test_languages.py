"""A language may be called as clients and answers call it."""

from __future__ import annotations

import pytest

from lookhear.gateway.checks.languages import english_name, language_code


@pytest.mark.parametrize(
    ("called", "code"),
    [
        ("en", "en"), ("EN", "en"), ("en-US", "en"), ("es_MX", "es"), ("zh-Hans-CN", "zh"),
        ("English", "en"), (" spanish ", "es"), ("haitian creole", "ht"), ("haitian_creole", "ht"),
        ("xx", "xx"), ("klingon", "klingon"), ("", None), (" ", None), (None, None),
    ],
)  # fmt: skip
def test_code(called: str | None, code: str | None) -> None:
    assert language_code(called) == code


@pytest.mark.parametrize("code", ["en", "es", "ht", "yue"])
def test_the_language_of_an_answer_can_be_asked_for(code: str) -> None:
    assert language_code(english_name(code)) == code
