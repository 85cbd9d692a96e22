"""Qwen3-Omni's encoders on a GPU: pictures by captured graphs, sounds eagerly."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.models.qwen3_omni import Qwen3OmniModel, is_picture
from lookhear.engine.models.vision_graphs import VisionGraphs
from lookhear.engine.paged.request import Medium


class OmniGraphs:
    """Encodes media as the model does. See `MediaEncoder`."""

    def __init__(self, model: Qwen3OmniModel, acceleration: Acceleration) -> None:
        self._model = model
        self._pictures = VisionGraphs(model.sight, acceleration)
        self.graphs = self._pictures.graphs
        self._warm_up()

    def _warm_up(self) -> None:
        """Kernels that sounds want are compiled before somebody waits for them."""
        dims = self._model.ears.dims
        for frames in (1, dims.chunk_frames, dims.window_frames):
            silence = np.zeros((dims.num_mels, frames), np.float32)
            window = Medium.of(silence, dims.num_tokens(frames))
            for count in (1, 2):
                self._model.hear([window] * count)

    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """Per medium [num_tokens, parts * width], in memory that the next call may write."""
        pictures = [medium for medium in media if is_picture(medium)]
        windows = [medium for medium in media if not is_picture(medium)]
        seen = iter(self._pictures.encode(pictures) if pictures else ())
        heard = iter(self._heard(windows) if windows else ())
        return [next(seen) if is_picture(medium) else next(heard) for medium in media]

    def _heard(self, windows: Sequence[Medium]) -> list[Tensor]:
        rows: list[Tensor] = self.graphs.run("encode", None, lambda: self._model.hear(windows))
        return rows

    def unread(self) -> list[Callable[[], None]]:
        """Nothing."""
        return []
