"""A buffer is the array that appending and cutting would give."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.speech.audio_buffer import AudioBuffer


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 50)), max_size=40),
    st.integers(0, 60),
    st.data(),
)
def test_it_holds_what_an_array_would(
    ops: list[tuple[bool, int]], lead: int, data: st.DataObject
) -> None:
    buffer, plain, count = AudioBuffer(lead), np.zeros(0, np.float32), 1
    silence = np.zeros(lead, np.float32)
    for is_append, size in ops:
        view = buffer.led_samples if data.draw(st.booleans()) else silence
        before = view.copy()
        if is_append:
            fresh = np.arange(count, count + size, dtype=np.float32)
            count += size
            buffer.append(fresh)
            plain = np.concatenate([plain, fresh])
            np.testing.assert_array_equal(view, before)  # somebody may still read it
        else:
            size = min(size, len(plain))
            buffer.drop(size)
            plain = plain[size:]
        assert len(buffer) == len(plain)
        all_of_it = np.concatenate([silence, plain])
        a, b = sorted(data.draw(st.tuples(*2 * [st.integers(0, len(all_of_it))])))
        led = buffer.led(b)
        np.testing.assert_array_equal(led[a:], all_of_it[a:b])
        assert len(led) == b
        if data.draw(st.booleans()):
            continue  # pieces may be dropped before they were ever in one
        np.testing.assert_array_equal(buffer.samples, plain)
        np.testing.assert_array_equal(buffer.led_samples, np.concatenate([silence, plain]))


def test_a_turn_of_many_segments_stays_in_the_same_memory() -> None:
    buffer, piece = AudioBuffer(lead=10), np.ones(100, np.float32)
    for _ in range(20):
        buffer.append(piece)
    before = buffer.samples
    for _ in range(50):  # segments of the same length
        buffer.drop(len(buffer) - 100)
        for _ in range(19):
            buffer.append(piece)
        assert np.shares_memory(before, buffer.samples)
