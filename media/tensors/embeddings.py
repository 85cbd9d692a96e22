"""Embeddings that a client made itself: [tokens, width] numbers, in a file of safetensors with one
tensor, or as `torch.save` writes a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from lookhear.media.base import MediaError, MediaIO, MediaWithBytes, check_bytes
from lookhear.media.signatures import describe
from lookhear.media.tensors.torch_file import KINDS, read_torch_file

__all__ = ["EmbeddingsMediaIO", "Rows"]

Rows = NDArray[np.float32]

ZIP = b"PK\x03\x04"
EXPECTED = "expected embeddings, as safetensors or as torch.save writes a tensor"
# safetensors' names of types.
SAFE = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


class EmbeddingsMediaIO(MediaIO[Rows]):
    """Files -> [tokens, width] float32, all of them finite. max_bytes: of a file."""

    def __init__(self, *, max_bytes: int | None) -> None:
        self.max_bytes = max_bytes

    def load_bytes(self, data: bytes) -> MediaWithBytes[Rows]:
        """See `MediaIO`. One dimension of size 1 in front, as a batch has it, may be there."""
        check_bytes(len(data), self.max_bytes)
        if not data:
            raise MediaError("empty", f"{EXPECTED}; got nothing")
        if data.startswith(ZIP):
            held, kind = read_torch_file(data, self.max_bytes)
        elif len(data) > 8 and data[8:9] == b"{":
            held, kind = _safe(data)
        else:
            raise MediaError("not_embeddings", f"{EXPECTED}; got {describe(data[:512])[0]}")
        if held.ndim == 3 and held.shape[0] == 1:
            held = held[0]
        if held.ndim != 2 or 0 in held.shape:
            shape = "expected a tensor of shape [tokens, width], with a token at least"
            raise MediaError("not_embeddings", f"{shape}; got {list(held.shape)}")
        return MediaWithBytes(_finite(_widened(held, kind)), data)


def _safe(data: bytes) -> tuple[NDArray[Any], str]:
    """The one tensor of a file of safetensors."""
    try:
        tensors = deserialize(data)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise MediaError(
            "not_embeddings", f"{EXPECTED}; got damaged safetensors ({error})"
        ) from None
    if len(tensors) != 1:
        raise MediaError(
            "not_embeddings", f"expected safetensors of one tensor; got {len(tensors)}"
        )
    told = tensors[0][1]
    kind = SAFE.get(told["dtype"])
    if kind is None:
        known = ", ".join(KINDS)
        raise MediaError("unsupported", f"expected numbers of {known}; got {told['dtype']}")
    return np.frombuffer(bytes(told["data"]), KINDS[kind]).reshape(told["shape"]), kind


def _widened(held: NDArray[Any], kind: str) -> Rows:
    """float32, without loss. bfloat16 is the upper half of it."""
    if kind == "bfloat16":
        return (held.astype(np.uint32) << 16).view(np.float32)
    return held.astype(np.float32)


def _finite(rows: Rows) -> Rows:
    found = np.isfinite(rows)
    if not found.all():
        row, column = (int(at) for at in np.argwhere(~found)[0])
        got = f"{rows[row, column]} at [{row}, {column}]"
        raise MediaError("not_finite", f"expected finite numbers; got {got}")
    return rows
