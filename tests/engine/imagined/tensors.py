"""Which tensors there are among arguments, and whose memory they have: asked a million times."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

PLAIN = {int, float, bool, str, type(None), torch.dtype, torch.device, slice}  # hold no tensor


def storage_of(tensor: Tensor) -> int:
    try:
        return torch._C._storage_id(tensor)  # type: ignore[attr-defined, no-any-return]
    except NotImplementedError:
        return -1  # the host's: nothing sparse is ever sent


@cache
def name_of(operation: Any) -> str:
    return str(operation.overloadpacket.__name__)


def tensors_in(tree: Any) -> list[Tensor]:
    found: list[Tensor] = []
    _gather((tree,), found)
    return found


def _gather(items: Any, found: list[Tensor]) -> None:
    for item in items:
        if type(item) is Tensor:  # most of them are that, or plain
            found.append(item)
        elif type(item) in PLAIN:
            pass
        elif isinstance(item, Tensor):
            found.append(item)
        elif isinstance(item, list | tuple):
            _gather(item, found)
        elif isinstance(item, dict):
            _gather(item.values(), found)
