"""How soon an answer begins: from its request to its first token."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu.load import Client, text_request
from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.request import Priority
from lookhear.engine.paged.request import PagedRequest

LONG = 340  # tokens of an answer that goes on for as long as others are measured
COUNT = 20  # answers of which each begins alone or among others

Make = Callable[[int, int], PagedRequest]  # seed, tokens of the answer


def text_prompts(vocab: int, prompt: int) -> Make:
    """Prompts of so many tokens that nobody else has."""
    return lambda seed, new: text_request(f"f{seed}", 7_000_000 + seed, prompt, new, vocab)


def picture_prompts(model: Any, vocab: int, prompt: int, side: int) -> Make:
    """The same with a picture of side * side tokens in front, another one each time."""
    pixels = side * model.encoder.dims.factor

    def make(seed: int, new: int) -> PagedRequest:
        drawn = np.random.default_rng(seed)
        seen = model.medium(drawn.normal(size=(1, 3, pixels, pixels)).astype(np.float32))
        text = drawn.integers(0, vocab, prompt).tolist()
        tokens = (*text[:4], *[model.image_token] * seen.num_tokens, *text[4:])
        return PagedRequest(
            f"p{seed}", Priority.LIVE, tokens, ((4, seen),), max_new_tokens=new,
            loop_room=None, model_ends=False,
        )  # fmt: skip

    return make


def first_tokens(
    core: EngineCore, make: Make, *, others: int = 0, at_once: int = 1, times: int = COUNT
) -> list[float]:
    """Seconds until the first token, of at_once requests that come together, so many times.
    others: rows that decode beside them all the while. RuntimeError if one fails."""
    requests = [make(1_000_000 + number, LONG) for number in range(others)]
    beside = [_client(request) for request in requests]
    for client in beside:
        core.add(client.key, Priority.LIVE, client)
    running: dict[str, Any] = core._running
    while len(running) < others or any(len(s.generated.tokens) < 2 for s in running.values()):
        core.step()
        _raise_failure(beside)
    found: list[float] = []
    # The first two warm up: what was not captured is compiled.
    for turn in range(times + 2):
        clients = [_client(make(at_once * turn + number, 1)) for number in range(at_once)]
        began = time.perf_counter()
        for client in clients:
            client.due = began
            core.add(client.key, Priority.LIVE, client)
        while any(client.due is not None for client in clients):
            core.step()
            _raise_failure([*beside, *clients])
        if turn >= 2:
            found += [latency for client in clients for latency in client.latencies]
        for client in clients:
            core.drop(client.key)
    assert len(running) == others, "expected answers longer than the measurement"
    for client in beside:
        core.drop(client.key)
    while core.has_work:
        core.step()
    return found


def _client(request: PagedRequest) -> Client:
    client = Client(request.key, partial(_itself, request), tokens=request.reserved_tokens)
    client.due = time.perf_counter()
    return client


def _itself(request: PagedRequest) -> PagedRequest:
    return request


def _raise_failure(clients: list[Client]) -> None:
    failed = next((client.failure for client in clients if client.failure), "")
    if failed:
        raise RuntimeError(failed)
