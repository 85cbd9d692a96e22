"""How a runner's steps are carried out on a device: with graphs or without, overlapped or not."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch

from lookhear.engine.device.cuda_graphs import CudaBackend
from lookhear.engine.device.graphs import Backend, Graphs
from lookhear.engine.device.staging import CudaMemory, DeviceMemory, PinnedStaging, SharedStaging
from lookhear.kernels.choice import mode

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Acceleration:
    """overlaps: steps are launched before the last one was read, see `EngineCore`. memory: of the
    device; None: a CPU. backend: None runs every pass eager. graph_bytes: as in `Graphs`."""

    overlaps: bool = False
    memory: DeviceMemory | None = None
    backend: Backend | None = None
    graph_bytes: int = 2 * 2**30

    @classmethod
    def on(
        cls,
        device: torch.device | str,
        *,
        graphs: bool = True,
        overlaps: bool = False,
        graph_bytes: int = 2 * 2**30,
    ) -> Acceleration:
        """What a device allows: a CPU has no graphs, nor do operations that torch carries out,
        which read back how long rows are."""
        device = torch.device(device)
        if device.type != "cuda":
            return cls(overlaps)
        if graphs and mode() == "off":
            log.warning("graphs: expected Triton's kernels, they are absent or off: all is eager")
            graphs = False
        backend = CudaBackend(device) if graphs else None
        return cls(overlaps, CudaMemory(device), backend, graph_bytes)

    def new_graphs(self, capacity: int) -> Graphs:
        """capacity: integers of the largest step that is captured."""
        if self.memory is None:
            return Graphs(SharedStaging())
        return Graphs(PinnedStaging(self.memory, capacity), self.backend, self.graph_bytes)


CPU = Acceleration()
