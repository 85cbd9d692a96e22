"""Ranks: processes of one thread each that train one network together, on one clock.

Small matrices scale better so than with several threads an operation. A run is a folder, and goes
on from the state that lies in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


def launch(worker: Callable[..., None], plan: Any, *more: object) -> None:
    """worker(rank, plan, *more) in every rank; returns when all are done. plan: a dataclass with
    the fields out (the run's folder), seed and ranks; it is written there."""
    out = Path(plan.out)
    (out / "plan.json").write_text(json.dumps(asdict(plan)))
    (out / "rendezvous").unlink(missing_ok=True)
    if plan.ranks == 1:
        _work(0, worker, plan, more)
        return
    multiprocessing: Any = torch.multiprocessing
    multiprocessing.spawn(_work, args=(worker, plan, more), nprocs=plan.ranks)


def _work(rank: int, worker: Callable[..., None], plan: Any, more: tuple[object, ...]) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(plan.seed)
    if plan.ranks > 1:
        store = f"file://{plan.out}/rendezvous"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=plan.ranks)
    worker(rank, plan, *more)
    if plan.ranks > 1:
        dist.barrier()
        dist.destroy_process_group()


def average_gradients(net: torch.nn.Module, world: int, progress: float) -> float:
    """Average gradients over ranks in one message, with the clock, so that all ranks agree."""
    grads = [p.grad for p in net.parameters() if p.grad is not None]
    flat = torch.cat([torch.tensor([progress]), *[g.flatten() for g in grads]])
    if world > 1:
        dist.all_reduce(flat)
        flat /= world
    at = 1
    for g in grads:
        g.copy_(flat[at : at + g.numel()].view_as(g))
        at += g.numel()
    return float(flat[0])


def learning_rate(plan: Any, step: int, progress: float) -> float:
    """Linear warm-up to plan.rate by steps, then linear decay by elapsed time to 2 %."""
    return float(plan.rate * min(1.0, (step + 1) / plan.warmup) * max(0.02, 1.0 - progress))


def save_state(
    out: Path,
    net: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    step: int,
    spent: float,
    **more: object,
) -> None:
    """spent: seconds of the run so far. more: what `load_state` is to give back besides."""
    state = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**state, "step": step, "spent": spent, **more}, out / "state.tmp")
    os.replace(out / "state.tmp", out / "state.pt")


def load_state(out: Path, net: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """step, spent, and what was saved with them; 0 of a run that has just begun."""
    if not (out / "state.pt").exists():
        return {"step": 0, "spent": 0.0}
    state: dict[str, Any] = torch.load(out / "state.pt", weights_only=True)
    net.load_state_dict(state.pop("net"))
    optimizer.load_state_dict(state.pop("optimizer"))
    return state
