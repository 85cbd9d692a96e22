"""The oracle itself refuses what a strict client would refuse."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.gateway.strict import check

DELTA = {
    "type": "conversation.item.input_audio_transcription.delta",
    "event_id": "event_1",
    "item_id": "item_1",
    "content_index": 0,
    "delta": "a",
}


def test_a_good_frame_passes() -> None:
    check(DELTA)


@pytest.mark.parametrize(
    "change",
    [{"item_id": None}, {"content_index": "0"}, {"type": "nothing.known"}, {"delta": 1}],
)
def test_a_bad_frame_does_not(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        check({**DELTA, **change})
