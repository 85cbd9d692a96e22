"""What is asked all the same of a conversation that is too long."""

from __future__ import annotations

from collections.abc import Sequence

from lookhear.engine.messages import ChatMessage
from lookhear.gateway.chat.lines import Line


def remaining(messages: Sequence[ChatMessage | Line]) -> list[int] | None:
    """Places of those that are left when the older half is left out of what may be: what was said
    before the last message of the user's, and before the last calls that were made for it. What
    the system says stays. None: there is nothing to leave out."""
    asked = max((i for i, message in enumerate(messages) if message.role == "user"), default=-1)
    called = max((i for i, message in enumerate(messages) if message.calls), default=-1)
    past = [i for i in range(max(asked, called)) if messages[i].role != "system" and i != asked]
    if not past:
        return None
    gone = set(past[: (len(past) + 1) // 2])
    for i, message in enumerate(messages):  # templates want the user to begin
        if message.role == "user" and i not in gone:
            break
        if i in past:
            gone.add(i)
    kept, calls = list[int](), set[str]()  # whose results go with them
    for i, message in enumerate(messages):
        ids = {call.id for call in message.calls}
        if i in gone:
            calls |= ids
        elif message.call not in calls:
            calls -= ids  # some clients number their calls anew in each turn
            kept.append(i)
    return kept
