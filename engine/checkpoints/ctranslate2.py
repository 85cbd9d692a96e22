"""Weights of a Whisper in CTranslate2's container, as faster-whisper's users have them.

The variables of `model.bin` get Hugging Face's names here, so that whoever reads a checkpoint need
not know. Weights that were quantised to 8 or 16 bits are multiplied out again.

Container (version 6, CTranslate2's `python/ctranslate2/specs/model_spec.py`), little-endian:
version u32, name of the kind, revision u32, number of variables u32; each: name, rank u8, sizes
u32, type u8, bytes u32, data; then aliases: number u32, each two names. A name is its length u16
and so many bytes, the last of them NUL.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

FILE = "model.bin"
_KIND = "WhisperSpec"
_VERSION = 6
_GELU = 3  # of CTranslate2's activation functions
_DTYPES = {
    0: torch.float32,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.float16,
    5: torch.bfloat16,
}


@dataclass(frozen=True, slots=True)
class _Variable:
    shape: tuple[int, ...]
    dtype: torch.dtype
    start: int  # of its data in the file, bytes
    num_bytes: int


class Ct2Whisper:
    """Tensors of one file by Hugging Face's names, read when they are asked for.

    Raises ValueError, saying what was expected, for a file that is none, is cut off, or holds
    another model; OSError if it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        if path.stat().st_size < 16:
            raise ValueError(
                f"{path}: expected a model of CTranslate2, got {path.stat().st_size} bytes"
            )
        self._path = path
        self._data = np.memmap(path, np.uint8, mode="r")
        self._variables = _index(self._data.data, path)
        self._sources = dict(self._named())

    @property
    def names(self) -> set[str]:
        """Hugging Face's names of all tensors."""
        return set(self._sources)

    def path_of(self, name: str) -> Path:
        """The file that holds the tensor."""
        return self._path

    def read(self, name: str) -> Tensor:
        """The tensor, in the precision of the file; float32 if it was quantised."""
        return self._sources[name]()

    @property
    def dims(self) -> dict[str, int]:
        """The geometry, by the names of Hugging Face's config.json."""
        width, mels, _ = self._shape("encoder/conv1/weight")
        return {
            "d_model": width,
            "num_mel_bins": mels,
            "vocab_size": self._shape("decoder/embeddings/weight")[0],
            "max_source_positions": self._shape("encoder/position_encodings/encodings")[0],
            "max_target_positions": self._shape("decoder/position_encodings/encodings")[0],
            "encoder_layers": self._layers("encoder"),
            "decoder_layers": self._layers("decoder"),
            "encoder_attention_heads": self._number("encoder/num_heads"),
            "decoder_attention_heads": self._number("decoder/num_heads"),
            "encoder_ffn_dim": self._shape("encoder/layer_0/ffn/linear_0/weight")[0],
            "decoder_ffn_dim": self._shape("decoder/layer_0/ffn/linear_0/weight")[0],
        }

    def _named(self) -> Iterator[tuple[str, Callable[[], Tensor]]]:
        activation = self._number("decoder/activation", _GELU)
        if activation != _GELU:
            raise ValueError(f"{self._path}: activation: expected {_GELU} (GELU), got {activation}")
        width = self._shape("encoder/conv1/weight")[0]
        for conv in ("conv1", "conv2"):
            yield from self._linear(f"model.encoder.{conv}", f"encoder/{conv}")
        yield "model.decoder.embed_tokens.weight", self._weights("decoder/embeddings")
        for side in ("encoder", "decoder"):
            to = f"model.{side}"
            yield (
                f"{to}.embed_positions.weight",
                self._plain(f"{side}/position_encodings/encodings"),
            )
            yield from self._norm(f"{to}.layer_norm", f"{side}/layer_norm")
            for i in range(self._layers(side)):
                yield from self._layer(f"{to}.layers.{i}", f"{side}/layer_{i}", width)

    def _layer(
        self, to: str, source: str, width: int
    ) -> Iterator[tuple[str, Callable[[], Tensor]]]:
        fused = f"{source}/self_attention/linear_0"
        for i, part in enumerate(("q_proj", "k_proj", "v_proj")):
            yield from self._linear(f"{to}.self_attn.{part}", fused, i, width)
        yield from self._linear(f"{to}.self_attn.out_proj", f"{source}/self_attention/linear_1")
        yield from self._norm(f"{to}.self_attn_layer_norm", f"{source}/self_attention/layer_norm")
        if f"{source}/attention/linear_0/weight" in self._variables:
            cross = f"{source}/attention"
            yield from self._linear(f"{to}.encoder_attn.q_proj", f"{cross}/linear_0")
            for i, part in enumerate(("k_proj", "v_proj")):
                yield from self._linear(f"{to}.encoder_attn.{part}", f"{cross}/linear_1", i, width)
            yield from self._linear(f"{to}.encoder_attn.out_proj", f"{cross}/linear_2")
            yield from self._norm(f"{to}.encoder_attn_layer_norm", f"{cross}/layer_norm")
        yield from self._linear(f"{to}.fc1", f"{source}/ffn/linear_0")
        yield from self._linear(f"{to}.fc2", f"{source}/ffn/linear_1")
        yield from self._norm(f"{to}.final_layer_norm", f"{source}/ffn/layer_norm")

    def _linear(
        self, to: str, source: str, part: int | None = None, width: int = 0
    ) -> Iterator[tuple[str, Callable[[], Tensor]]]:
        """part: of a fused matrix, its rows part * width and so many on."""
        rows = slice(None) if part is None else slice(part * width, (part + 1) * width)
        yield f"{to}.weight", self._weights(source, rows)
        if not to.endswith("k_proj"):  # keys have no bias; the fused one holds zeros for them
            yield f"{to}.bias", self._plain(f"{source}/bias", rows)

    def _norm(self, to: str, source: str) -> Iterator[tuple[str, Callable[[], Tensor]]]:
        yield f"{to}.weight", self._plain(f"{source}/gamma")
        yield f"{to}.bias", self._plain(f"{source}/beta")

    def _plain(self, name: str, rows: slice = slice(None)) -> Callable[[], Tensor]:
        self._variable(name)
        return lambda: self._data_of(name)[rows]

    def _weights(self, name: str, rows: slice = slice(None)) -> Callable[[], Tensor]:
        self._variable(f"{name}/weight")

        def read() -> Tensor:
            weight = self._data_of(f"{name}/weight")[rows]
            if weight.is_floating_point():
                return weight
            # int8: a scale for each row; int16: one for all. Quantised is weight times scale.
            scale = self._data_of(f"{name}/weight_scale").float()
            scale = scale[rows] if scale.numel() > 1 else scale
            return weight.float() / scale.view(-1, *[1] * (weight.ndim - 1))

        return read

    def _data_of(self, name: str) -> Tensor:
        variable = self._variable(name)
        data = self._data[variable.start : variable.start + variable.num_bytes]
        return torch.frombuffer(bytearray(data), dtype=variable.dtype).view(variable.shape)

    def _number(self, name: str, default: int | None = None) -> int:
        if default is not None and name not in self._variables:
            return default
        return int(self._data_of(name).item())

    def _shape(self, name: str) -> tuple[int, ...]:
        return self._variable(name).shape

    def _layers(self, side: str) -> int:
        count = 0
        while f"{side}/layer_{count}/ffn/linear_0/weight" in self._variables:
            count += 1
        return count

    def _variable(self, name: str) -> _Variable:
        try:
            return self._variables[name]
        except KeyError:
            raise ValueError(
                f"{self._path}: expected the variable {name}, found none "
                f"among {len(self._variables)}"
            ) from None


def _index(data: memoryview, path: Path) -> dict[str, _Variable]:
    at = 0

    def take(kind: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(f"<{kind}", data, at)
        at += struct.calcsize(f"<{kind}")
        return int(value)

    def text() -> str:
        nonlocal at
        length = take("H")
        at += length
        return bytes(data[at - length : at - 1]).decode("utf-8")

    try:
        version = take("I")
        if version != _VERSION:
            raise ValueError(f"{path}: expected a model of CTranslate2, version 6, got {version}")
        if (kind := text()) != _KIND:
            raise ValueError(f"{path}: expected a Whisper ({_KIND}), got {kind!r}")
        take("I")  # the revision of the kind
        variables = {}
        for _ in range(take("I")):
            name = text()
            shape = tuple(take("I") for _ in range(take("B")))
            dtype, num_bytes = _DTYPES[take("B")], take("I")
            variables[name] = _Variable(shape, dtype, at, num_bytes)
            at += num_bytes
            if at > len(data) or num_bytes != dtype.itemsize * math.prod(shape):
                raise ValueError(
                    f"{path}: {name}: expected {list(shape)} numbers of {dtype}; the file is cut "
                    "off or damaged"
                )
        for _ in range(take("I")):
            alias = text()
            variables[alias] = variables[text()]
    except (struct.error, KeyError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path}: expected a model of CTranslate2, got {len(data)} bytes that break off or are "
            f"none ({error!r})"
        ) from error
    return variables
