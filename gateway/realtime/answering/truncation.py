"""What is left out of a question's context that is too long for its model. Pure."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import takewhile

from lookhear.gateway.realtime.pictures.camera import CameraFrame
from lookhear.gateway.realtime.protocol.conversation import Item, OutputContent

HALF = 0.5  # of what is too long: so a few tries find what fits


def excess(
    items: Sequence[Item], frames: Sequence[CameraFrame], refused: Set[str], share: float
) -> tuple[list[Item], list[CameraFrame]]:
    """What goes next: first what was asked in vain (refused: ids), being too long, pictures last;
    then what was said before the present question, but for `share` of it, and the older half of the
    frames; where nothing was answered yet, of the question, but for its pictures and its end.
    Nothing: all that is there has to stay."""
    answers = [i for i, item in enumerate(items) if item.role == "assistant" and not item.call]
    asked, end = answers[-1] + 1 if answers else 0, _end(items)
    vain = [item for item in items[asked:-1] if item.id in refused and item not in end]
    if vain:
        return [item for item in vain if not item.media(hears=False)] or vain, []
    past = items[:asked] or [item for item in items[:-1] if not item.media(hears=False)]
    past = [item for item in past if item.role != "system" and item not in end]
    kept = min(int(share * len(past)), len(past) - 1)
    return past[: len(past) - kept], list(frames[: len(frames) // 2])


def _end(items: Sequence[Item]) -> list[Item]:
    """What stays of a question, whatever is left out of it: its last item. If that came of a tool,
    also what came of others with it, the calls, and what the user asked for in front of them: a
    model could not read the one without the others."""
    outputs = list(takewhile(lambda item: item.role == "tool", reversed(items)))
    if not outputs:
        return list(items[-1:])
    parts = (part for item in outputs for part in item.content)
    called = {part.call_id for part in parts if isinstance(part, OutputContent)}
    calls = [item for item in items if item.call is not None and item.call.call_id in called]
    asked = next((item for item in reversed(items) if item.role == "user"), None)
    return [*outputs, *calls, *([] if asked is None else [asked])]
