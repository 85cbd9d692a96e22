"""Peers that tell their whole text again and again, in the normal form."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from lookhear.bench.measures.metrics import common_prefix
from lookhear.bench.measures.trace import RATE, Trace
from lookhear.bench.wires.job import SessionPlan
from lookhear.bench.wires.recording import samples_of, send_paced

PEER_RATE = 16_000  # samples per second, what every Whisper server takes
PACKET_SECONDS = 0.1  # their own clients send 0.1 to 0.5 s at a time
ITEM = "session"  # they know no turns: one item, from the first word to the last
_TRANSCRIPTION = "conversation.item.input_audio_transcription."


def peer_samples(plan: SessionPlan, pcm: NDArray[np.int16]) -> NDArray[np.int16]:
    """[n] samples at PEER_RATE of the session's audio at RATE, the silence after it included."""
    resampled: NDArray[np.int16] = soxr.resample(samples_of(plan, pcm), RATE, PEER_RATE)
    return resampled.astype("<i2")


send_to_peer = partial(send_paced, rate=PEER_RATE, packet_seconds=PACKET_SECONDS)


class Snapshots:
    """Writes the events of one session from snapshots of its text.

    A delta is what was newly committed. If a peer changes what it had committed, that is written
    down as `peer.retracted` {words, before, after}, the new words follow as a delta, and the final
    transcript is what the peer ended with.
    """

    def __init__(self, trace: Trace, started: float) -> None:
        self._trace = trace
        self._started = started
        self._committed = ""
        self._provisional = ""
        self._last = 0.0  # when the newest snapshot came

    def update(self, committed: str, provisional: str) -> None:
        """A snapshot came: text that the peer will not change, and text behind it that it may."""
        self._last = time.monotonic() - self._started
        committed, provisional = " ".join(committed.split()), " ".join(provisional.split())
        if (committed, provisional) == (self._committed, self._provisional):
            return
        if committed != self._committed:
            self._commit(committed)
        self._provisional = provisional
        space = " " if committed and provisional else ""
        self._event("lookhear.input_audio_transcription.provisional", text=space + provisional)

    def _commit(self, text: str) -> None:
        before = self._committed
        self._committed = text
        if text.startswith(before):
            self._event(_TRANSCRIPTION + "delta", delta=text[len(before) :])
            return
        old, new = before.split(), text.split()
        same = common_prefix(old, new)
        lost, instead = " ".join(old[same:]), " ".join(new[same:])
        self._event("peer.retracted", words=len(old) - same, before=lost, after=instead)
        if instead:
            self._event(_TRANSCRIPTION + "delta", delta=" " + instead)

    def complete(self) -> None:
        """The session is over. What was provisional to the end counts as committed by the last
        snapshot, for a peer without a final one: how long we waited for another is our doing."""
        if self._provisional:
            self._commit(f"{self._committed} {self._provisional}".strip())
            self._provisional = ""
        self._event("input_audio_buffer.committed")
        self._event(_TRANSCRIPTION + "completed", transcript=self._committed)

    def error(self, message: str) -> None:
        """The peer told of an error and went on."""
        self._last = time.monotonic() - self._started
        self._event("error", error={"message": message})

    def _event(self, kind: str, **fields: Any) -> None:
        self._trace.events.append((self._last, {"type": kind, "item_id": ITEM, **fields}))
