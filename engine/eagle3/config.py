"""What the config.json of an EAGLE3 head says, in either of the forms that are published.

EAGLE's, as SafeAILab, AngelSlim and SGLang's trainer write it: that of a Llama of one layer,
with draft_vocab_size; layers of the model that are read may be named in eagle_config, by what
comes out of them
speculators': that of the layer in transformer_layer_config; layers are named at the top, by
what goes into them
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookhear.engine.checkpoints.loader import CheckpointError, read_json, section, whole_number
from lookhear.engine.models.qwen3_weights import Qwen3Dims

LAYERS = "eagle_aux_hidden_state_layer_ids"
# Of a model of fewer layers the usual three would not be three.
LEAST_LAYERS = 7


@dataclass(frozen=True, slots=True)
class LargeModel:
    """What a head has to fit. architectures: as its config.json names them."""

    folder: Path
    architectures: tuple[str, ...]
    dims: Qwen3Dims
    vocab: int


def is_head(folder: Path) -> bool:
    """Whether a folder is, or would be, a head on a model instead of a model of its own."""
    config = read_json(folder / "config.json", required=False)
    kinds = ("speculators_model_type", "draft_vocab_size", "eagle_config")
    return any(name in config for name in kinds) or "eagle" in " ".join(_named(config)).lower()


def _named(config: Mapping[str, Any]) -> list[str]:
    named = config.get("architectures")
    return [str(name) for name in named] if isinstance(named, list) else []


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """dims: of its layer; vocab is the large model's. vocab: tokens that it can say. layers: of the
    large model, whose inputs it reads, ascending. norms_first: whether its residual stream begins
    with the normalised feature. norms_inputs: whether what it reads of the layers is normalised
    before it is made a feature."""

    source: Path
    dims: Qwen3Dims
    vocab: int
    layers: tuple[int, ...]
    norms_first: bool
    norms_inputs: bool

    @classmethod
    def from_folder(cls, folder: Path, large: LargeModel, *, qk_norm: bool) -> HeadConfig:
        """Raises `CheckpointError` where it is no EAGLE3 head, or not one for that model. qk_norm:
        whether its weights have norms of queries and keys."""
        source = folder / "config.json"
        config = read_json(source)
        _check_kind(config, source)
        layer = config
        if "speculators_model_type" in config:
            layer = section(config, "transformer_layer_config", source)
            _check_verifier(config, source, large)
        if (
            count := whole_number({"num_hidden_layers": 1, **layer}, source, "num_hidden_layers")
        ) > 1:
            raise CheckpointError.of(source, "num_hidden_layers", "1, as EAGLE3 heads have", count)
        dims = Qwen3Dims.from_config(
            {**layer, "num_hidden_layers": 1}, source, tied_head=False, qk_norm=qk_norm
        )
        if dims.vocab != large.vocab:
            expected = f"{large.vocab}, as {large.folder} has"
            raise CheckpointError.of(source, "vocab_size", expected, dims.vocab)
        width, key = dims.width, "hidden_size"
        if config.get("target_hidden_size") is not None:
            key = "target_hidden_size"
            width = whole_number(config, source, key)
        if width != large.dims.width:
            expected = f"{large.dims.width}, as {large.folder} has"
            raise CheckpointError.of(source, key, expected, width)
        vocab = dims.vocab
        if config.get("draft_vocab_size") is not None:
            vocab = whole_number(config, source, "draft_vocab_size")
            if vocab > dims.vocab:
                expected = f"at most vocab_size ({dims.vocab})"
                raise CheckpointError.of(source, "draft_vocab_size", expected, vocab)
        return cls(
            source,
            dims,
            vocab,
            _layers(config, source, large),
            norms_first=bool(config.get("norm_before_residual", False)),
            norms_inputs=bool(config.get("norm_before_fc", False)),
        )


def _check_kind(config: Mapping[str, Any], source: Path) -> None:
    kind = config.get("speculators_model_type")
    if kind is not None:
        if kind != "eagle3":
            raise CheckpointError.of(source, "speculators_model_type", "'eagle3'", kind)
        return
    named = _named(config)
    eagles = [name for name in named if "eagle" in name.lower()]
    if eagles and not any("eagle3" in name.lower() for name in eagles):
        expected = "an EAGLE3 head, as LlamaForCausalLMEagle3"
        raise CheckpointError.of(source, "architectures", expected, ", ".join(named))
    if config.get("draft_vocab_size") is None and not eagles:
        expected = "a number, as EAGLE3 heads have"
        raise CheckpointError.of(source, "draft_vocab_size", expected, None)


def _check_verifier(config: Mapping[str, Any], source: Path, large: LargeModel) -> None:
    """Speculators says which kind of model a head was made for."""
    about = config.get("speculators_config")
    verifier = about.get("verifier") if isinstance(about, dict) else None
    named = _named(verifier) if isinstance(verifier, dict) else []
    if named and not set(named) & set(large.architectures):
        expected = f"{', '.join(large.architectures)}, as {large.folder} is"
        raise CheckpointError.of(source, "verifier", expected, ", ".join(named))


def _layers(config: Mapping[str, Any], source: Path, large: LargeModel) -> tuple[int, ...]:
    count = large.dims.layers
    inner = config.get("eagle_config")
    found, behind = config.get(LAYERS), 0
    if not found and isinstance(inner, dict):
        found, behind = inner.get(LAYERS), 1
    if not found:
        if count < LEAST_LAYERS:
            expected = f"the layers that it reads, as {large.folder} has {count} alone"
            raise CheckpointError.of(source, LAYERS, expected, found)
        return 2, count // 2, count - 3
    expected = f"ascending numbers of layers below {count - behind}, as {large.folder} has {count}"
    if not isinstance(found, list) or not all(type(layer) is int for layer in found):
        raise CheckpointError.of(source, LAYERS, expected, found)
    layers = tuple(layer + behind for layer in found)
    if sorted(set(layers)) != list(layers) or not 0 <= layers[0] <= layers[-1] < count:
        raise CheckpointError.of(source, LAYERS, expected, found)
    return layers
