"""Capture of CUDA graphs, as `engine.device.graphs` wants it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from lookhear.engine.device.graphs import Output

WARM_UPS = 2  # compile kernels, and give libraries the memory they keep


@dataclass(frozen=True, slots=True)
class CudaGraph:
    """See `Captured`."""

    graph: torch.cuda.CUDAGraph
    output: Output

    def replay(self) -> None:
        """On the current stream, behind whatever is in it."""
        self.graph.replay()


class CudaBackend:
    """One pool for all graphs: replays follow each other in one stream, so what one leaves in it
    the next may overwrite; outputs, which are held here, are not given to another.

    One stream for all captures and their warm-ups: cuBLAS keeps its workspace by stream, outside of
    the pool, and every graph knows its address. It is never the stream of a replay or of eager
    work, which has a workspace of its own.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.num_bytes = 0
        self._failed: list[torch.cuda.CUDAGraph] = []
        self._begin()

    def _begin(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]

    def capture(self, region: Callable[[], Output]) -> CudaGraph:
        """See `Backend`."""
        with torch.inference_mode():
            current = torch.cuda.current_stream(self._device)
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                for _ in range(WARM_UPS):
                    region()
            torch.cuda.synchronize(self._device)
            torch.cuda.empty_cache()  # as the capture does: only what it takes shall count
            before = torch.cuda.mem_get_info(self._device)[0]
            graph = torch.cuda.CUDAGraph()
            try:
                with _no_finalisers(), self._capturing(graph):
                    output = region()
            except Exception:
                # torch does not leave the stream of a capture that failed, and may go on giving out
                # memory of its pool; a graph that goes takes cuBLAS's workspace of the stream with
                # it (pytorch issues 190308, 193402), which those that succeeded know.
                torch.cuda.set_stream(current)
                self._failed.append(graph)
                self._begin()
                raise
            torch.cuda.synchronize(self._device)
            self.num_bytes += max(0, before - torch.cuda.mem_get_info(self._device)[0])
        return CudaGraph(graph, output)

    def _capturing(self, graph: torch.cuda.CUDAGraph) -> torch.cuda.graph:
        # Of this thread alone: another's pinned allocation would end a global capture.
        return torch.cuda.graph(
            graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
        )


@contextmanager
def _no_finalisers() -> Iterator[None]:
    """What a finaliser asks of the device, to unload a module say, would end a capture."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
