"""A Whisper in OpenAI's own file, as `whisper.load_model` downloads it to `~/.cache/whisper`.

The file is a pickle of `dims` (numbers by name) and `model_state_dict` (tensors by name). It is
read by torch with `weights_only`: numbers, text and tensors are made of it, nothing is executed.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from torch import Tensor

from lookhear.engine.checkpoints.torch_file import load_file

# openai/whisper's names of the numbers, and those of Hugging Face's config.json.
_DIMS = {
    "n_mels": "num_mel_bins",
    "n_vocab": "vocab_size",
    "n_audio_ctx": "max_source_positions",
    "n_text_ctx": "max_target_positions",
    "n_audio_layer": "encoder_layers",
    "n_text_layer": "decoder_layers",
    "n_audio_head": "encoder_attention_heads",
    "n_text_head": "decoder_attention_heads",
    "n_audio_state": "d_model",
    "n_text_state": "d_model",
}
# The same of tensors, whose names are translated part by part.
_PARTS = (
    (r"^", "model."),
    (r"\.blocks\.", ".layers."),
    (r"\.mlp\.0\.", ".fc1."),
    (r"\.mlp\.2\.", ".fc2."),
    (r"\.mlp_ln\.", ".final_layer_norm."),
    (r"\.cross_attn_ln\.", ".encoder_attn_layer_norm."),
    (r"\.attn_ln\.", ".self_attn_layer_norm."),
    (r"\.cross_attn\.", ".encoder_attn."),
    (r"\.attn\.", ".self_attn."),
    (r"\.query\.", ".q_proj."),
    (r"\.key\.", ".k_proj."),
    (r"\.value\.", ".v_proj."),
    (r"_attn\.out\.", "_attn.out_proj."),
    (r"\.token_embedding\.", ".embed_tokens."),
    (r"\.positional_embedding$", ".embed_positions.weight"),
    (r"coder\.ln(_post)?\.", "coder.layer_norm."),
)


class OpenAiWhisper:
    """Tensors of one file by Hugging Face's names.

    Raises ValueError, saying what was expected, for a file that is none, is cut off, or holds
    anything but numbers and tensors; OSError if it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        held = load_file(path)
        dims, tensors = held.get("dims"), held.get("model_state_dict")
        if not isinstance(dims, dict) or not isinstance(tensors, dict):
            raise ValueError(
                f"{path}: expected dims and model_state_dict, as openai/whisper writes them, got "
                f"{', '.join(map(str, held)) or 'nothing'}"
            )
        if not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
            raise ValueError(f"{path}: model_state_dict: expected tensors alone")
        self._dims = dims
        self._tensors: dict[str, Tensor] = {_renamed(str(n)): t for n, t in tensors.items()}

    @property
    def names(self) -> Collection[str]:
        """Hugging Face's names of all tensors."""
        return self._tensors.keys()

    def path_of(self, name: str) -> Path:
        """The file that holds the tensor."""
        return self._path

    def read(self, name: str) -> Tensor:
        """The tensor, in the precision of the file."""
        return self._tensors[name]

    @property
    def dims(self) -> dict[str, int]:
        """The geometry, by the names of Hugging Face's config.json."""
        dims: dict[str, int] = {}
        for theirs, name in _DIMS.items():
            value = self._dims.get(theirs)
            if type(value) is not int or value < 1:
                raise ValueError(f"{self._path}: dims: {theirs}: expected 1 or more, got {value!r}")
            dims[name] = value
        dims["encoder_ffn_dim"] = dims["decoder_ffn_dim"] = 4 * dims["d_model"]
        return dims


def _renamed(name: str) -> str:
    for theirs, ours in _PARTS:
        name = re.sub(theirs, ours, name)
    return name
