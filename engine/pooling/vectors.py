"""What becomes of hidden states: vectors, and how alike they are. Pure; float32 all along."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]  # [n, width]


def finished(hidden: Vectors, *, dimensions: int | None = None, normalise: bool = True) -> Vectors:
    """The first so many dimensions, which checkpoints that know of this have learnt to be the ones
    that say most (Matryoshka); then, if so, each of length 1."""
    vectors = hidden if dimensions is None else hidden[:, :dimensions]
    if normalise:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = vectors / np.maximum(lengths, 1e-12)
    return np.ascontiguousarray(vectors, np.float32)


def cosine(query: Vectors, document: Vectors) -> float:
    """-1 to 1, of one vector each."""
    assert query.shape == document.shape and len(query) == 1, (query.shape, document.shape)
    alike = float(finished(query)[0] @ finished(document)[0])
    return min(1.0, max(-1.0, alike))  # lengths are 1 but for rounding


def max_similarity(query: Vectors, document: Vectors) -> float:
    """Of a vector for each token: how alike each token of the query is to the one of the document
    that it is most alike to, added up (ColBERT's MaxSim)."""
    return float((finished(query) @ finished(document).T).max(axis=1).sum())


def probability(logit: float) -> float:
    """0 to 1."""
    return 1.0 / (1.0 + math.exp(-logit)) if logit > -700.0 else 0.0
