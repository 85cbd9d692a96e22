"""Voxtral's encoder by captured graphs."""

from __future__ import annotations

from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.paged.media_graphs import MediaGraphs
from lookhear.engine.voxtral_chat.model import AT_ONCE, VoxtralChatModel

WINDOWS = (1, 2, 4, AT_ONCE)  # of one pass; inside they are wide


def window_graphs(model: VoxtralChatModel, acceleration: Acceleration) -> MediaGraphs:
    """For windows of log-mel, each a whole one."""
    ears, dims = model.ears, model.dims
    return MediaGraphs(
        acceleration,
        (dims.audio.num_mels, dims.audio.max_frames),
        ears.dtype,
        WINDOWS,
        dims.window_tokens,
        lambda windows, fields: ears.encode(windows).flatten(0, 1),
        model.encode,
    )
