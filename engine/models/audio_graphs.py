"""Qwen3-ASR's audio encoder by captured graphs: a shape for a number of chunks (seconds of audio),
whatever windows they belong to.

    samples of windows -> log-mel of chunks, zeros behind the last frame -> convolutions
            -> tokens that are real, packed -> layers, attention inside windows
            -> rows of each window; how loud its segment was up to its end

Which tokens are real, and where windows begin and end, are integers of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from torch import Tensor

from lookhear import kernels
from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.device.graphs import Fields, Shape
from lookhear.engine.device.staging import Integers, Readback
from lookhear.engine.models.audio_chunks import (
    chunk_integers,
    log_mel_of,
    loudest,
    num_chunks,
)
from lookhear.engine.models.audio_encoder import PAD_MULTIPLE, AudioEncoder
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.models.window_samples import WindowSamples, rows_of
from lookhear.engine.paged.request import Medium
from lookhear.engine.paged.sound import HOP, Sound

# Of one pass; eight closed windows are 64. A dozen ticks in a step are some 50, and what is padded
# is computed too.
CHUNKS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96)
PLACES_BYTES = 2**29  # for the samples of windows that grow


class AudioGraphs:
    """Encodes media as the model does; they are sounds. See `MediaEncoder`. max_windows: that grow
    side by side; of more, some are sent whole in every tick."""

    def __init__(
        self, model: Qwen3AsrModel, acceleration: Acceleration, max_windows: int = CHUNKS[-1]
    ) -> None:
        assert acceleration.memory is not None
        self._encoder: AudioEncoder = model.encoder
        dims = self._encoder.dims
        self._size = dims.chunk_frames
        self._chunk_tokens = dims.num_tokens(dims.chunk_frames)
        self._filters = kernels.mel_filters(dims.num_mels).to(model.decoder.device)
        most = PLACES_BYTES // (rows_of(dims.window_frames) * HOP * 4)
        self._samples = WindowSamples(
            acceleration.memory,
            model.decoder.device,
            frames=dims.window_frames,
            passing=CHUNKS[-1] * rows_of(self._size),
            places=max(CHUNKS[-1], min(max_windows, most)),
        )
        capacity = CHUNKS[-1] * (self._chunk_tokens + 6) + self._samples.max_rows + 256
        self.graphs = acceleration.new_graphs(capacity)
        self._unread: list[Callable[[], None]] = []
        shapes: list[Shape] = [(count,) for count in CHUNKS]
        self.graphs.plan(
            "encode", shapes, self._region, lambda shape: self._integers([], [], shape[0])
        )

    def encode(self, media: Sequence[Medium]) -> list[Tensor]:
        """Per medium [num_tokens, width], in memory that the next call may write. In several passes
        if it is too much for the largest graph."""
        encoded: list[Tensor] = []
        for group in self._groups(media):
            if encoded:  # this pass writes where the one before did
                encoded = [rows.clone() for rows in encoded]
            encoded += self._encode(group)
        return encoded

    def unread(self) -> list[Callable[[], None]]:
        """See `MediaEncoder`."""
        unread, self._unread = self._unread, []
        return unread

    def _groups(self, media: Sequence[Medium]) -> list[list[Medium]]:
        """In order, as many in each as the largest graph takes, but one at least. Windows side by
        side in a segment stay together: how loud the first is, nobody knows before it is encoded.
        """
        if self._num_chunks(media) <= CHUNKS[-1]:
            return [list(media)]
        runs: list[list[Medium]] = []
        for medium in media:
            before = runs[-1][-1].sound if runs else None
            if before is not None and medium.sound is not None and medium.sound.before is before:
                runs[-1].append(medium)
            else:
                runs.append([medium])
        groups: list[list[Medium]] = []
        left = 0
        for run in runs:
            for place, medium in enumerate(run):
                wanted = self._num_chunks(run if place == 0 else [medium])
                if not groups or left < min(wanted, CHUNKS[-1]):
                    groups.append([])
                    left = CHUNKS[-1]
                groups[-1].append(medium)
                left -= self._num_chunks([medium])
        return groups

    def _num_chunks(self, media: Sequence[Medium]) -> int:
        return sum(num_chunks(sound.frames, self._size) for sound in _sounds(media))

    def _encode(self, media: Sequence[Medium]) -> list[Tensor]:
        sounds = _sounds(media)
        among = {id(sound) for sound in sounds}
        for sound in sounds:
            if sound.before is not None and id(sound.before) not in among:
                loudest(sound.before, self._encoder.dims.num_mels)
        count = self._num_chunks(media)
        shape = self.graphs.fit("encode", count)
        windows = [sound.on_device for sound in sounds if sound.on_device is not None]
        try:
            begins, sent = self._samples.write(sounds)
            integers = self._integers(sounds, begins, count if shape is None else shape[0])
            integers["sent"] = sent
            fields = self.graphs.staging.put(integers, is_fixed=shape is not None)
            self._samples.send(fields["sent"])
        except BaseException:
            self._samples.forget(windows)
            raise
        rows, heard = self.graphs.run("encode", shape, lambda: self._region(fields))
        final = [m.sound.on_device for m in media if m.is_final and m.sound is not None]
        if final:
            self._unread.append(partial(_told, media, self._size, Readback(heard.double())))
            self._samples.forget([window for window in final if window is not None])
        sizes = [medium.num_tokens for medium in media]
        return list(rows[: sum(sizes)].split(sizes))

    def _integers(
        self, sounds: Sequence[Sound], begins: Sequence[int], count: int
    ) -> dict[str, Integers]:
        """Of so many chunks. begins: of each sound's samples. places: [tokens] of the real tokens
        among those of all chunks; limits: [chunks + 1] of the windows, of which there are no more
        than chunks."""
        dims = self._encoder.dims
        size = count * self._chunk_tokens
        places = np.zeros(size + -size % PAD_MULTIPLE, np.int64)
        limits = np.zeros(count + 1, np.int64)
        chunk = end = 0
        for index, sound in enumerate(sounds):
            tokens = dims.num_tokens(sound.frames)
            # A window's chunks but the last are whole, so its tokens lie side by side.
            first = chunk * self._chunk_tokens
            places[end : end + tokens] = np.arange(first, first + tokens)
            end += tokens
            chunk += num_chunks(sound.frames, self._size)
            limits[index + 1 :] = end
        chunks = chunk_integers(sounds, begins, self._size, total=count)
        return {"places": places, "limits": limits, **chunks}

    def _region(self, fields: Fields) -> tuple[Tensor, Tensor]:
        encoder = self._encoder
        features, heard = log_mel_of(self._samples.samples, fields, self._filters, self._size)
        tokens = encoder.convolve(features.to(encoder.dtype)).flatten(0, 1)
        return encoder.transform(tokens[fields["places"]], fields["limits"]), heard


def _sounds(media: Sequence[Medium]) -> list[Sound]:
    sounds = [medium.sound for medium in media if medium.sound is not None]
    assert len(sounds) == len(media), "expected samples, whose log-mel is computed here"
    return sounds


def _told(media: Sequence[Medium], size: int, heard: Readback) -> None:
    """Keeps how loud segments were up to the ends of windows that are final."""
    values, end = heard.read(), 0
    for medium, sound in zip(media, _sounds(media), strict=True):
        end += num_chunks(sound.frames, size)
        if medium.is_final:
            sound.loudest = values[end - 1]
