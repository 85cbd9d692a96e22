"""Files that hold a wavering tone, of any container."""

from __future__ import annotations

import io
from typing import Any

import av
import numpy as np
import soundfile

RATE = 16000
SECONDS = 4


def voice(rate: int = RATE) -> np.ndarray:
    """Four seconds of a wavering tone at `rate`."""
    t = np.arange(SECONDS * rate) / rate
    wave = 0.3 * np.sin(2 * np.pi * 300 * t) * np.sin(2 * np.pi * 0.9 * t)
    return wave.astype(np.float32)


def by_sndfile(container: str, codec: str) -> bytes:
    """The same, at `RATE`."""
    buffer = io.BytesIO()
    soundfile.write(buffer, voice(), RATE, format=container, subtype=codec)
    return buffer.getvalue()


class _Pipe:
    """A file that cannot be seeked in, as a browser's recorder or a shell pipe."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> int:
        self.data += bytes(data)
        return len(data)


def by_ffmpeg(
    container: str, codec: str, rate: int, *, pipe: bool = False, **options: str
) -> bytes:
    """options: of the container's writer."""
    buffer: Any = _Pipe() if pipe else io.BytesIO()
    with av.open(buffer, "w", format=container, options=options) as output:
        stream: Any = output.add_stream(codec, rate=rate)
        stream.layout = "mono"
        if container == "mp4":  # a video file's audio track
            video = output.add_stream("mpeg4", rate=10)
            video.width = video.height = 64
            video.pix_fmt = "yuv420p"
            for number in range(10 * SECONDS):
                picture = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8))
                picture.pts = number
                output.mux(video.encode(picture))
            output.mux(video.encode(None))
        context = stream.codec_context
        frame = av.AudioFrame.from_ndarray(voice(rate)[None], format="fltp", layout="mono")
        frame.sample_rate = rate
        frame.pts = 0
        converter = av.AudioResampler(
            context.format, stream.layout, rate, frame_size=context.frame_size or 1024
        )
        for part in [*converter.resample(frame), *converter.resample(None)]:
            output.mux(stream.encode(part))
        output.mux(stream.encode(None))
    return bytes(buffer.data) if pipe else bytes(buffer.getvalue())


def likeness(heard: np.ndarray) -> float:
    """Best correlation with the source over shifts up to 100 ms (encoders' delays)."""
    source = voice()[8000:56000]
    samples = np.pad(heard, (0, 4000))[7980 : 8000 + len(source) + 1600]
    shift = int(np.correlate(samples, source, "valid").argmax())
    return float(np.corrcoef(source, samples[shift : shift + len(source)])[0, 1])


def opus_packets(samples: np.ndarray) -> list[bytes]:
    """samples: [n] at 48 kHz -> one packet for each 20 ms."""
    encoder: Any = av.CodecContext.create("libopus", "w")
    encoder.sample_rate, encoder.layout, encoder.format = 48000, "mono", "flt"
    packets: list[bytes] = []
    for start in range(0, len(samples) - 959, 960):
        frame = av.AudioFrame.from_ndarray(
            samples[None, start : start + 960], format="flt", layout="mono"
        )
        frame.sample_rate, frame.pts = 48000, start
        packets += map(bytes, encoder.encode(frame))
    return [*packets, *map(bytes, encoder.encode(None))]
