"""Checkpoints whose matrices are stored in fewer bits: multiplied out as they are read, or, where
they are served in the same bits, as they are.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from lookhear.engine.checkpoints.bitsandbytes import BitsAndBytes
from lookhear.engine.checkpoints.layout import IntegerMatrix, Layout, Stored
from lookhear.engine.checkpoints.packed_integers import Awq, Gptq, PackQuantized
from lookhear.engine.checkpoints.scaled import Scaled

log = logging.getLogger(__name__)


def _layouts(stored: Stored, settings: Mapping[str, Any]) -> Sequence[Layout]:
    method = settings["quant_method"]
    if method == "gptq":
        return [Gptq(stored, settings)]
    if method == "awq":
        return [Awq(stored, settings)]
    if method == "bitsandbytes":
        return [BitsAndBytes(stored, settings)]
    return [PackQuantized(stored, settings), Scaled(stored, settings)]


class Quantised:
    """A container whose matrices have scales beside them, by the names that they would have if they
    were whole. Raises ValueError for what does not belong together."""

    def __init__(self, stored: Stored, config: Mapping[str, Any]) -> None:
        settings = config["quantization_config"]
        layouts = _layouts(stored, settings)
        beside = tuple(end for layout in layouts for end in layout.beside)
        self._stored = stored
        # By name: the tensor that holds it, and the layout of which it is; None: whole.
        self._held: dict[str, tuple[str, Layout | None]] = {}
        for name in stored.names:
            if name.endswith(beside):
                continue
            layout = next((each for each in layouts if name.endswith(each.mark)), None)
            known = name if layout is None else f"{name.removesuffix(layout.mark)}.weight"
            self._held[known] = (name, layout)
        log.info("weights are stored in %s", settings["quant_method"])

    @property
    def names(self) -> Collection[str]:
        """Of all tensors but those that stand beside others."""
        return self._held.keys()

    def path_of(self, name: str) -> Path:
        """The file that holds a tensor."""
        return self._stored.path_of(self._held[name][0])

    def num_elements(self, name: str) -> int:
        """Of a tensor when it is whole, by headers."""
        held, layout = self._held[name]
        if layout is None:
            return math.prod(self._stored.shape(held))
        return layout.num_elements(held)

    def read(self, name: str) -> Tensor:
        """A tensor, multiplied out."""
        held, layout = self._held[name]
        if layout is not None:
            return layout.read(held)
        tensor = self._stored.read(held)
        if tensor.is_floating_point() and tensor.element_size() == 1:
            raise ValueError("expected one scale beside it, got that of no single matrix")
        return tensor

    def adds_nothing(self, name: str) -> bool:
        """Whether it is a bias of zeros, as AutoGPTQ gave every matrix, whatever the model has."""
        matrix = self._held.get(f"{name.removesuffix('.bias')}.weight")
        is_given = name.endswith(".bias") and matrix is not None and isinstance(matrix[1], Gptq)
        return is_given and not self.read(name).any()

    def rows(self, name: str) -> tuple[Tensor, Tensor] | None:
        """A matrix as `Layout.rows` has it."""
        held, layout = self._held[name]
        return None if layout is None else layout.rows(held)

    def integers(self, name: str) -> IntegerMatrix | None:
        """A matrix as `Layout.integers` has it."""
        held, layout = self._held[name]
        return None if layout is None else layout.integers(held)
