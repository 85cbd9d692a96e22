"""What is asked all the same of a conversation that is too long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lookhear.engine.messages import ChatMessage, TextPart, ToolCall
from lookhear.gateway.chat.truncation import remaining

ROLES = {"s": "system", "u": "user", "a": "assistant", "c": "assistant", "t": "tool"}


def conversation(kinds: str) -> list[ChatMessage]:
    """A message for each letter: c calls two tools, and each t is the result of one of them."""
    messages: list[ChatMessage] = []
    waiting: list[str] = []
    for number, kind in enumerate(kinds):
        calls = [ToolCall(f"{number}.{i}", "f", "{}") for i in range(2)] if kind == "c" else []
        waiting += [call.id for call in calls]
        call = waiting.pop(0) if kind == "t" else None
        messages.append(ChatMessage(ROLES[kind], [TextPart(str(number))], calls, call))
    return messages


@pytest.mark.parametrize(
    ("kinds", "kept"),
    [
        ("u", None),
        ("su", None),
        ("suctt", None),
        ("uu", [1]),
        ("suau", [0, 3]),  # an answer to nothing begins no conversation
        ("suauau", [0, 3, 4, 5]),
        ("sauu", [0, 2, 3]),
        ("suausu", [0, 3, 4, 5]),
        ("uauauctt", [2, 3, 4, 5, 6, 7]),
        ("ucttau", [5]),  # results go with their calls
        ("ucttcttctt", [0, 4, 5, 6, 7, 8, 9]),  # what the user wants stays
        ("ucttauctt", [5, 6, 7, 8]),
    ],
)
def test_the_older_half_is_left_out(kinds: str, kept: list[int] | None) -> None:
    assert remaining(conversation(kinds)) == kept


def test_a_result_goes_with_its_own_call_where_each_turn_numbers_them_anew() -> None:
    messages = [
        replace(
            message,
            calls=[replace(call, id=call.id.rpartition(".")[2]) for call in message.calls],
            call=message.call and message.call.rpartition(".")[2],
        )
        for message in conversation("ucttauctt")
    ]
    assert remaining(messages) == [5, 6, 7, 8]


@pytest.mark.parametrize("kinds", ["suauauauauauauauau", "suctctctctctctctctct", "s" * 9 + "uuuu"])
def test_it_ends_with_what_cannot_be_left_out(kinds: str) -> None:
    messages, rounds = conversation(kinds), 0
    while (kept := remaining(messages)) is not None:
        assert len(kept) < len(messages)
        messages, rounds = [messages[i] for i in kept], rounds + 1
        ids = {call.id for message in messages for call in message.calls}
        assert all(message.call is None or message.call in ids for message in messages)
    assert rounds <= 5
    assert [m.role for m in messages if m.role != "system"][0] == "user"
