"""What lies on the device of a window is what its frames see, however it grew and whoever came."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.models.audio_encoder import AudioDims
from lookhear.engine.models.window_samples import WindowSamples, rows_of
from lookhear.engine.paged.sound import HOP, Sound
from lookhear.engine.qwen3_asr.windows import DeviceWindows
from tests.engine.qwen3_asr.test_features import clip
from tests.engine.recording import RecordedMemory

WINDOW = 40  # frames
DIMS = AudioDims(
    num_mels=20, width=8, layers=1, heads=1, ffn=8, channels=4, out_width=8, chunk_frames=20,
    window_frames=WINDOW,
)  # fmt: skip


def held_samples(places: int) -> WindowSamples:
    passing = 8 * rows_of(WINDOW)
    return WindowSamples(
        RecordedMemory(), torch.device("cpu"), frames=WINDOW, passing=passing, places=places
    )


def assert_arrives(held: WindowSamples, sounds: list[Sound]) -> int:
    """Sends them; how many rows that took."""
    begins, rows = held.write(sounds)
    held.send(torch.from_numpy(rows))
    for sound, begin in zip(sounds, begins, strict=True):
        expected = np.empty(sound.length, np.float32)
        sound.write(expected)
        there = held.samples[begin : begin + sound.length].numpy()
        np.testing.assert_array_equal(there, expected)
    return len(rows)


@settings(max_examples=40, deadline=None)
@given(st.integers(4, 6), st.data())
def test_windows_lie_on_the_device_as_they_are_heard(places: int, data: st.DataObject) -> None:
    """Five speakers, some cut at a quiet place; files between them; too few places, or enough."""
    held = held_samples(places)
    speakers = [(clip(i, 60_000), DeviceWindows(DIMS)) for i in range(5)]
    ends = [0] * len(speakers)
    for _ in range(data.draw(st.integers(1, 8))):
        sounds: list[Sound] = []
        for i in data.draw(st.sets(st.integers(0, 4), min_size=1, max_size=2)):
            samples, windows = speakers[i]
            if ends[i] and data.draw(st.booleans()):
                ends[i] = data.draw(st.integers(max(201, ends[i] // 2), ends[i]))
            else:
                ends[i] = min(len(samples), ends[i] + data.draw(st.integers(201, 6_000)))
            media = windows.hear(samples[: ends[i]], is_whole=False)
            sounds += [m.sound for m in media[-2:] if m.sound is not None]
        if data.draw(st.booleans()):
            (medium,) = DeviceWindows(DIMS).hear(clip(9, 5_000), is_whole=True)
            assert medium.sound is not None
            sounds.append(medium.sound)
        assert_arrives(held, sounds)
        if data.draw(st.booleans()):
            held.forget([s.on_device for s in sounds if s.on_device is not None])


def test_of_a_window_that_grows_only_what_is_new_is_sent() -> None:
    held, windows, samples = held_samples(2), DeviceWindows(DIMS), clip(1, 6_000)
    sent = []
    for end in (4_000, 4_480, 4_481):
        (medium,) = windows.hear(samples[:end], is_whole=False)
        assert medium.sound is not None
        sent.append(assert_arrives(held, [medium.sound]))
    # All 26 rows; then three, the one in which the last ended, and what is reflected behind them.
    assert sent == [32, 16, 16]
    assert sent[0] >= 4_000 // HOP
