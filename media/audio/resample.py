"""Sample-rate conversion: one streaming resampler with a short delay, one for whole recordings.

Live audio takes libswresample (a filter graph of libavfilter): it holds back 2 ms at 24 kHz and
4 ms at 8 kHz, flat to 7 kHz, noise and aliases 90 dB down. Files take libsoxr's constant-rate
engine, which is sharper and faster over long blocks, but holds back up to 37 ms at 24 kHz and 115
at 8 kHz; its variable-rate engine (10 and 30 ms) takes twice to four times as long as the first.
"""

from __future__ import annotations

import av
import numpy as np
import soxr
from av.filter import Graph
from numpy.typing import NDArray

__all__ = ["Linear", "StreamResampler", "resample"]

Samples = NDArray[np.float32]
Linear = NDArray[np.int16]  # full scale is 32768

# Of libswresample: taps at the lower rate, and where its pass band ends, as a share of that.
FILTER = "filter_size=64:cutoff=0.95"


class StreamResampler:
    """Mono float32 or int16 at `source_rate` in, mono float32 at `target_rate` out, any chunking.

    Between two flushes all of one kind; int16 with a short delay only.
    The output depends on the samples only, bit for bit, not on how they were split.
    After `flush()` the total is exactly `input * target_rate / source_rate`, rounded (half up).
    """

    def __init__(self, source_rate: int, target_rate: int, *, low_delay: bool = True) -> None:
        self.source_rate = source_rate
        self.target_rate = target_rate
        self.low_delay = low_delay
        self._engine: _Swresample | _Soxr | None = None
        self._fed = self._given = 0

    def reset(self) -> None:
        """Forget everything fed so far."""
        self._fed = self._given = 0
        self._engine = None

    def feed(self, samples: Samples | Linear) -> Samples:
        """samples: [n] -> [m], the m output samples that are now certain."""
        if self.source_rate == self.target_rate or not len(samples):
            return _as_float(samples)
        if self._engine is None:
            self._engine = self._open(samples.dtype == np.int16)
        output = self._engine.feed(samples)
        self._fed += len(samples)
        self._given += len(output)
        return output

    def _open(self, is_linear: bool) -> _Swresample | _Soxr:
        if self.low_delay:
            return _Swresample(self.source_rate, self.target_rate, "s16" if is_linear else "flt")
        assert not is_linear, "whole recordings are float32"
        return _Soxr(self.source_rate, self.target_rate)

    def flush(self) -> Samples:
        """The tail still held back, as if silence followed. The resampler then starts anew."""
        if self._engine is None:
            return _NOTHING
        tail = self._engine.flush()
        # Their own totals are up to two samples off, depending on the ratio.
        total = (2 * self._fed * self.target_rate + self.source_rate) // (2 * self.source_rate)
        missing = max(total - self._given, 0)
        self.reset()
        return np.pad(tail[:missing], (0, max(missing - len(tail), 0)))


_NOTHING: Samples = np.zeros(0, dtype=np.float32)


def _as_float(samples: Samples | Linear) -> Samples:
    if samples.dtype == np.float32:
        return np.asarray(samples, dtype=np.float32)
    return samples.astype(np.float32) * np.float32(1 / 32768)  # exact: a power of two


class _Swresample:
    """kind: of the samples that come, as FFmpeg calls it."""

    def __init__(self, source_rate: int, target_rate: int, kind: str) -> None:
        self._rate, self._kind = source_rate, kind
        self._graph = graph = Graph()
        graph.threads = 1  # else it starts some for itself
        source = f"sample_rate={source_rate}:sample_fmt={kind}:channel_layout=mono"
        nodes = [
            graph.add("abuffer", f"{source}:time_base=1/{source_rate}"),
            graph.add("aresample", f"{target_rate}:{FILTER}"),
            graph.add("aformat", "sample_fmts=flt"),
            graph.add("abuffersink"),
        ]
        graph.link_nodes(*nodes).configure()
        self._in, self._out = nodes[0], nodes[-1]

    def feed(self, samples: Samples | Linear) -> Samples:
        frame = av.AudioFrame(format=self._kind, layout="mono", samples=len(samples))
        frame.planes[0].update(samples.tobytes())
        frame.sample_rate = self._rate
        self._in.push(frame)
        return self._ready()

    def flush(self) -> Samples:
        self._in.push(None)
        return self._ready()

    def _ready(self) -> Samples:
        found: list[Samples] = []
        while True:
            try:
                frame = self._out.pull()
            except (av.BlockingIOError, av.EOFError):
                return found[0] if len(found) == 1 else np.concatenate([_NOTHING, *found])
            assert isinstance(frame, av.AudioFrame)
            found.append(np.frombuffer(bytes(frame.planes[0]), np.float32, frame.samples))


class _Soxr:
    def __init__(self, source_rate: int, target_rate: int) -> None:
        self._stream = soxr.ResampleStream(
            source_rate, target_rate, 1, dtype="float32", quality="HQ"
        )

    def feed(self, samples: Samples | Linear) -> Samples:
        return np.asarray(self._stream.resample_chunk(samples), dtype=np.float32)

    def flush(self) -> Samples:
        return np.asarray(self._stream.resample_chunk(_NOTHING, last=True), dtype=np.float32)


def resample(samples: Samples, source_rate: int, target_rate: int) -> Samples:
    """A whole recording: [n] mono at `source_rate` -> [m] at `target_rate`."""
    if source_rate == target_rate or not len(samples):
        return samples
    return np.asarray(soxr.resample(samples, source_rate, target_rate, quality="HQ"), np.float32)
