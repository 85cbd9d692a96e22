"""One answer's events: bounded, and nothing of them lost."""

from __future__ import annotations

from lookhear.chat.answers import AnswerCompleted, AnswerDelta, ReasoningDelta
from lookhear.chat.responses import Response


async def test_deltas_that_nobody_takes_are_joined() -> None:
    response = Response()
    response.take({"type": "response.created", "response": {"id": "r"}})
    reasoning = {"type": "lookhear.response.reasoning.delta", "response_id": "r", "delta": "?"}
    response.take(reasoning)
    for _ in range(3000):
        response.take({"type": "response.output_text.delta", "response_id": "r", "delta": "ab"})
    response.take({"type": "response.done", "response": {"id": "r", "status": "completed"}})
    events = []
    while (event := await response.next()) is not None:
        events.append(event)
    assert len(events) == 1001 and events[0] == ReasoningDelta("?")
    assert "".join(e.text for e in events if isinstance(e, AnswerDelta)) == "ab" * 3000
    assert isinstance(events[-1], AnswerCompleted) and events[-1].text == "ab" * 3000
