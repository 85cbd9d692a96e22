"""SmolVLM's vision encoder by captured graphs."""

from __future__ import annotations

import numpy as np

from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.paged.media_graphs import MediaGraphs
from lookhear.engine.smolvlm.encoder import MAX_CROPS
from lookhear.engine.smolvlm.model import SmolVlmModel

CROPS = (1, 2, 4, 8, 12, MAX_CROPS)  # of one pass; a whole picture of the published ones has 17


def crop_graphs(model: SmolVlmModel, acceleration: Acceleration) -> MediaGraphs:
    """For crops, each of the one size."""
    encoder, dims = model.encoder, model.encoder.dims
    return MediaGraphs(
        acceleration,
        (dims.channels, dims.size, dims.size),
        encoder.dtype,
        CROPS,
        dims.num_tokens,
        lambda pixels, fields: encoder.transform(pixels, fields["bounds"]),
        model.encode,
        lambda count: {"bounds": np.array(encoder.bounds(count), np.int64)},
    )
