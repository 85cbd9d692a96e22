"""Short videos for tests, as a person may have them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image

from lookhear.media.audio.decode import iter_audio

RATE = 48_000  # samples per second
FRAMES = 10  # per second


def write_video(path: Path, pictures: Sequence[Image.Image], recording: Path | None) -> Path:
    """A WebM: every picture for a second, and the recording's sound, as long with silence behind
    it, if there is one. -> path"""
    with av.open(str(path), "w", format="webm") as container:
        video = container.add_stream("libvpx", rate=FRAMES)
        video.width, video.height = pictures[0].size
        video.pix_fmt = "yuv420p"
        video.bit_rate = 400_000
        sound = container.add_stream("libopus", rate=RATE, layout="mono") if recording else None
        for picture in pictures:
            image = av.VideoFrame.from_ndarray(np.asarray(picture), format="rgb24")
            for _ in range(FRAMES):
                image.pts = None
                container.mux(video.encode(image))
        container.mux(video.encode())
        if sound is not None and recording is not None:
            heard = np.concatenate(list(iter_audio(recording, 10.0, RATE)))
            samples = np.zeros(max(len(heard), len(pictures) * RATE), np.float32)
            samples[: len(heard)] = heard
            pcm = (np.clip(samples, -1, 1) * 32767).astype(np.int16)
            piece = av.AudioFrame.from_ndarray(pcm[None, :], format="s16", layout="mono")
            piece.sample_rate, piece.pts, piece.time_base = RATE, 0, Fraction(1, RATE)
            container.mux(sound.encode(piece))
            container.mux(sound.encode())
    return path
