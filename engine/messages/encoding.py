"""Encoders apart: media on their way from an engine without a tower to one that is a tower.

An engine that needs a medium's embeddings says `EncodeMedium`, which its gateway hands on to an
encoder of the model; what that says of it, `MediumEncoded` or `EncodingFailed`, goes back to all
engines that asked for it. So each of these is an event of one kind of engine and a message to the
other. They are of no session: a medium is named by the digest of its features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class EncodeMedium:
    """features: what the encoder reads, [frames, channels, height, width] of pixels. num_tokens:
    placeholders that its embeddings stand behind."""

    digest: bytes
    num_tokens: int
    features: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class MediumEncoded:
    """rows: [num_tokens, width], or several times the width of the decoder."""

    digest: bytes
    rows: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EncodingFailed:
    """code: machine word. message: for whoever asked about the medium."""

    digest: bytes
    code: str
    message: str
