"""The wires by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import numpy as np
from numpy.typing import NDArray

from lookhear.bench.measures.trace import Trace
from lookhear.bench.wires import (
    deepgram,
    flux,
    openai,
    vllm,
    whisperlive,
    whisperlivekit,
    wyoming,
)
from lookhear.bench.wires.job import Job, SessionPlan

Wire = Callable[[Job, SessionPlan, NDArray[np.int16]], Awaitable[Trace]]
"""Streams one session to its end and never raises for what the server does.

The trace is in normal form: the GA events input_audio_buffer.committed {item_id},
conversation.item.input_audio_transcription.delta {item_id, delta} (text that will not change) and
.completed {item_id, transcript}, and lookhear.input_audio_transcription.provisional
{item_id, text} (what stands behind the deltas and may change).
"""

WIRES: dict[str, Wire] = {
    "deepgram": deepgram.run_session,
    "flux": flux.run_session,
    "openai": openai.run_session,
    "vllm": vllm.run_session,
    "whisperlive": whisperlive.run_session,
    "whisperlivekit": whisperlivekit.run_session,
    "wyoming": wyoming.run_session,
}
