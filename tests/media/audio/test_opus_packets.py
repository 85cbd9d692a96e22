"""Opus without a container."""

from __future__ import annotations

import numpy as np
import pytest

from lookhear.media.audio.opus_packets import MOST_DAMAGED, OpusPackets
from lookhear.media.base import MediaError
from tests.media.audio.recordings import RATE, SECONDS, likeness, opus_packets, voice


def heard(packets: list[bytes], *, one_by_one: bool = True) -> np.ndarray:
    stream, parts = OpusPackets(), []
    for packet in packets:
        stream.feed(packet)
        if one_by_one:
            parts.append(stream.take()[0])
    stream.end()
    return np.concatenate([*parts, stream.take()[0]])


def test_packets_become_what_was_said() -> None:
    packets = opus_packets(voice(48000))
    samples = heard(packets)
    assert len(samples) / RATE == pytest.approx(SECONDS, abs=0.03)
    assert likeness(samples) > 0.98
    assert np.array_equal(samples, heard(packets, one_by_one=False))


def test_damaged_packets_are_left_out() -> None:
    packets = opus_packets(voice(48000))
    samples = heard([part for packet in packets for part in (packet, b"\xff" * 10)])
    assert len(samples) == len(heard(packets))


def test_what_is_no_opus_is_told_soon() -> None:
    stream = OpusPackets()
    with pytest.raises(MediaError, match="expected packets of Opus; got unknown data") as raised:
        for _ in range(MOST_DAMAGED + 1):
            stream.feed(b"\xff" * 100)
    assert raised.value.reason == "not_audio"


def test_nothing_is_nothing() -> None:
    assert not len(heard([b""]))
