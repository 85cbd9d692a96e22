"""What does not fit the context is said in the words that clients look for."""

from __future__ import annotations

import re

import pytest

from lookhear.gateway.chat.messages.errors import error_of
from lookhear.gateway.chat.refusals import too_long

# The engine's message, OpenAI's words, and Anthropic's; what stands in groups are the numbers.
CASES = {
    "prompt": (
        "input: expected at most 4096 tokens of prompt and answer, got 60008 + 20",
        r"Input tokens exceed the configured limit of 4096 tokens\. Your messages resulted in "
        r"60008 tokens\. Please reduce the length of the messages\.",
        r"prompt is too long: 60008 tokens > 4096 maximum",
    ),
    "far": (
        "messages: expected at most 4096 tokens of prompt and answer, got 7200 or more + 20",
        r"Input tokens exceed the configured limit of 4096 tokens\. Your messages resulted in "
        r"7200 tokens or more\. Please reduce the length of the messages\.",
        r"prompt is too long: 7200 tokens > 4096 maximum",
    ),
    "both far": (
        "max_tokens: expected less than the 4096 tokens of prompt and answer together, "
        "got 5000 beside a prompt of 7200 or more",
        r"Input tokens exceed the configured limit of 4096 tokens\. Your messages resulted in "
        r"7200 tokens or more\. Please reduce the length of the messages\.",
        r"prompt is too long: 7200 tokens > 4096 maximum",
    ),
    "together": (
        "messages: expected at most 4096 tokens of prompt and answer, got 4000 + 120",
        r"This model's maximum context length is 4096 tokens\. However, you requested 4120 tokens "
        r"\(4000 in the messages, 120 in the completion\)\. Please reduce the length of the "
        r"messages or completion\.",
        r"input length and `max_tokens` exceed context limit: 4000 \+ 120 > 4096, .*",
    ),
    "answer": (
        "max_completion_tokens: expected less than the 4096 tokens of prompt and answer together, "
        "got 5000 beside a prompt of 9",
        r"This model's maximum context length is 4096 tokens\. However, you requested 5009 tokens "
        r"\(9 in the messages, 5000 in the completion\)\. .*",
        r"input length and `max_tokens` exceed context limit: 9 \+ 5000 > 4096, .*",
    ),
    "part": (
        "messages[0].content[1]: expected pictures that fit the model's context, got 7 tokens too "
        "many",
        r"messages\[0\]\.content\[1\]: expected pictures .* got 7 tokens too many\. "
        r"Input tokens exceed the configured limit of this model",
        r"prompt is too long: messages\[0\]\.content\[1\]: expected pictures .*",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_too_long_is_said_as_each_api_says_it(case: str) -> None:
    message, theirs, anthropics = CASES[case]
    told = too_long(message)
    assert re.fullmatch(theirs, told), told
    told = error_of(told, 400)["message"]
    assert re.fullmatch(anthropics, told), told
