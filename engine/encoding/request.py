"""One medium that is encoded for an engine elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from lookhear.engine.paged.request import Medium


@dataclass(frozen=True, slots=True)
class EncodingRequest:
    """key: of its owner. Its rows: see `MediumEncoded`."""

    key: str
    medium: Medium
    draft: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Media are bounded by the encoder's budget, not by the decoder's."""
        return 1
