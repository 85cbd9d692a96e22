"""Capture of CUDA graphs, as `engine.graphs` wants it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass

import torch

from engine.graphs import Output

WARM_UPS = 2  # compile kernels, and give libraries the memory they keep


@dataclass(frozen=True, slots=True)
class CudaGraph:
    graph: torch.cuda.CUDAGraph
    output: Output

    def replay(self) -> None:
        """On the current stream, behind whatever is in it."""
        self.graph.replay()


class CudaBackend:
    """One pool for all graphs: replays follow each other in one stream, so what one leaves in it
    the next may overwrite; outputs, which are held here, are not given to another."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._num_bytes = 0

    @property
    def num_bytes(self) -> int:
        return self._num_bytes

    def capture(self, region: Callable[[], Output]) -> CudaGraph:
        with torch.inference_mode():
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(self._stream):
                for _ in range(WARM_UPS):
                    region()
            torch.cuda.synchronize(self._device)
            gc.collect()
            gc.freeze()  # the capture collects again, and a finaliser must not run within it
            gc.disable()
            torch.cuda.empty_cache()  # as the capture does: only what it takes shall count
            before = torch.cuda.mem_get_info(self._device)[0]
            graph = torch.cuda.CUDAGraph()
            try:
                # Of this thread alone: another's pinned allocation would end a global capture.
                with torch.cuda.graph(
                    graph,
                    pool=self._pool,
                    stream=self._stream,
                    capture_error_mode="thread_local",
                ):
                    output = region()
            finally:
                gc.enable()
                gc.unfreeze()
            torch.cuda.synchronize(self._device)
            self._num_bytes += max(0, before - torch.cuda.mem_get_info(self._device)[0])
        return CudaGraph(graph, output)
