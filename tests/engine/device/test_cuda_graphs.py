"""Capture on a device that is none: what is left behind when it fails."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from lookhear.engine.device.cuda_graphs import WARM_UPS, CudaBackend


class Stream:
    def __init__(self, *_: object) -> None: ...

    def wait_stream(self, other: object) -> None:
        assert other is not self


class FakeCuda:
    """`torch.cuda` as far as captures need it. Like torch's, a capture that fails leaves its stream
    the current one, and its pool unusable."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.current: object = Stream()
        self.captures: list[tuple[object, object, object, str]] = []
        self.gc_enabled: list[bool] = []
        self.free = 1000
        changes: dict[str, Any] = {
            "Stream": Stream,
            "CUDAGraph": type("CUDAGraph", (), {"replay": lambda self: None}),
            "graph": self._graph,
            "stream": self._stream,
            "graph_pool_handle": object,
            "current_stream": lambda *_: self.current,
            "set_stream": lambda stream: setattr(self, "current", stream),
            "synchronize": lambda *_: None,
            "empty_cache": lambda: None,
            "mem_get_info": lambda *_: (self.free, 10**6),
        }
        for name, change in changes.items():
            monkeypatch.setattr(torch.cuda, name, change)

    @contextmanager
    def _stream(self, stream: object) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    @contextmanager
    def _graph(
        self, graph: object, pool: object, stream: object, capture_error_mode: str
    ) -> Iterator[None]:
        self.captures.append((graph, pool, stream, capture_error_mode))
        self.gc_enabled.append(gc.isenabled())
        before, self.current = self.current, stream
        yield  # an error goes on from here: what follows is not done
        self.free -= 100
        self.current = before


def test_captures_share_pool_and_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    main = cuda.current
    backend = CudaBackend(torch.device("cuda"))
    seen: list[object] = []
    graphs = [backend.capture(lambda: seen.append(cuda.current)) for _ in range(2)]
    (_, pool, stream, mode), (_, again, same, _) = cuda.captures
    assert (pool, stream, mode) == (again, same, "thread_local")
    assert stream is not main and cuda.current is main
    assert seen == [stream] * 2 * (WARM_UPS + 1), "warmed up where it is captured"
    assert cuda.gc_enabled == [False, False] and gc.isenabled()
    assert backend.num_bytes == 200 and graphs[0].graph is not graphs[1].graph


def test_after_a_failure_others_can_be_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    main = cuda.current
    backend = CudaBackend(torch.device("cuda"))
    calls: list[int] = []

    def fails_when_captured() -> None:
        calls.append(0)
        if len(calls) > WARM_UPS:
            raise RuntimeError("operation not permitted when stream is capturing")

    backend.capture(lambda: None)
    with pytest.raises(RuntimeError, match="not permitted"):
        backend.capture(fails_when_captured)
    assert cuda.current is main and gc.isenabled()
    failed = cuda.captures[1][0]
    assert any(failed is graph for graph in backend._failed), "its end would harm the others"
    backend.capture(lambda: None)
    (_, first_pool, first_stream, _), _, (_, pool, stream, _) = cuda.captures
    assert pool is not first_pool and stream is not first_stream
    assert backend.num_bytes == 200


def test_a_failure_of_the_warm_up_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    main = cuda.current
    backend = CudaBackend(torch.device("cuda"))

    def fails() -> None:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError):
        backend.capture(fails)
    assert cuda.current is main and not cuda.captures and not backend._failed
