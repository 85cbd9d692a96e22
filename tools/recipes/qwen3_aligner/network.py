"""Qwen3-ForcedAligner as it is trained here: demo-qwen3-asr's network with another head.

The head, `score`, tells of each marker which step of 80 ms it stands for. Hidden states of a layer
in the middle go through it, too, in training alone: there each place of the audio says which step
it is, so that a marker that looks at a place finds its time there.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tools.recipes.qwen3_asr.network import Network, Size, sinusoids

LABELS = 375
STEP_SECONDS = 0.08
PLACE_LAYER = 1
"""Behind which each place of the audio knows its own time."""
_SCALE = 0.1


class AlignerNetwork(Network):
    """Without the phoneme classifier, which is not used."""

    def __init__(self, size: Size, vocabulary: int, labels: int = LABELS) -> None:
        super().__init__(size, vocabulary, 1)
        del self.phonemes
        self.labels = labels
        self.score = nn.Linear(size.width, labels, bias=False)
        with torch.no_grad():  # labels that are near each other begin alike
            self.score.weight.copy_(_SCALE * sinusoids(labels, size.width))

    def read(
        self, mel: Tensor, counts: Tensor, tokens: Tensor, starts: Tensor
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """As `forward`. Returns hidden states `[batch, n, width]`, those behind PLACE_LAYER with
        the last norm, and attention weights of each layer."""
        decoder = self.model.language_model
        middle: list[Tensor] = []
        hook = decoder.layers[PLACE_LAYER].register_forward_hook(
            lambda _module, _inputs, output: middle.append(output[0])
        )
        try:
            hidden, attended, _ = self(mel, counts, tokens, starts)
        finally:
            hook.remove()
        return hidden, decoder.norm(middle[0]), attended
