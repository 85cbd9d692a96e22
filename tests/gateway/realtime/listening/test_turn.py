"""The recent audio of a session is the end of all of it, however it came."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lookhear.gateway.realtime.listening.turn import RecentAudio


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(0, 50)),
            st.tuples(st.just("keep"), st.integers(0, 80)),
            st.tuples(st.just("slice"), st.integers(0, 80)),
        ),
        max_size=40,
    )
)
def test_it_is_the_end_of_what_was_heard(steps: list[tuple[str, int]]) -> None:
    recent, heard, start = RecentAudio(), np.zeros(0, np.float32), 0
    for step, number in steps:
        if step == "append":
            new = np.arange(len(heard), len(heard) + number, dtype=np.float32)
            heard = np.concatenate([heard, new])
            recent.append(new)
        elif step == "keep":
            recent.keep_from(len(heard) - number)
            start = max(start, len(heard) - number)
        else:
            begin = max(start, len(heard) - number)
            middle = (begin + len(heard)) // 2
            for first, last in ((begin, len(heard)), (begin, middle), (middle, middle)):
                assert np.array_equal(recent.slice(first, last), heard[first:last])
        assert (recent.start, recent.end) == (start, len(heard))


def test_old_audio_is_let_go() -> None:
    recent = RecentAudio()
    for _ in range(1000):
        recent.append(np.zeros(160, np.float32))
        recent.keep_from(recent.end - 1000)
    assert len(recent._chunks) == 7
