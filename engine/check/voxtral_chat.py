"""A Voxtral and transformers': what each writes about a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookhear.engine.check.parity import (
    Parity,
    decoder_logits,
    generate,
    parity_of,
    transformers_class,
)
from lookhear.engine.families.voxtral import read_words
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.voxtral_chat.model import VoxtralChatModel
from lookhear.engine.voxtral_chat.sound import PaddedEars
from lookhear.engine.voxtral_chat.template import BEGIN

SECONDS = 10  # of the recording


@torch.inference_mode()
def compare_voxtral_chat(folder: Path, architecture: str, samples: NDArray[np.float32]) -> Parity:
    """samples: [n] of speech, 16 kHz. Raises NotCompared, CheckpointError."""
    kind = transformers_class(architecture)
    model = VoxtralChatModel.from_folder(folder)
    words = read_words(folder, model)
    windows = PaddedEars(model.dims).windows(samples[: SECONDS * SAMPLE_RATE])
    prompt = [words.token("<s>"), words.token("[INST]"), words.token(BEGIN)]
    first = len(prompt)
    prompt += [model.audio_token] * sum(window.num_tokens for window in windows)
    last = len(prompt)
    prompt += [*words.encode("What is that?"), words.token("[/INST]")]
    features = torch.stack([torch.from_numpy(window.features) for window in windows])
    pad = model.audio_token
    del model  # room for theirs, and then for ours again
    generated, theirs = _their_answer(folder, kind, prompt, features, pad)
    model = VoxtralChatModel.from_folder(folder)
    inputs = model.decoder.embed(torch.tensor([*prompt, *generated[:-1]])).clone()
    inputs[first:last] = torch.cat(model.encode(windows))
    return parity_of(theirs, decoder_logits(model.decoder, inputs), generated)


def _their_answer(
    folder: Path, kind: Any, prompt: list[int], features: Tensor, pad: int
) -> tuple[list[int], Tensor]:
    """What it wrote, and thought of every token. It is gone from memory then."""
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()

    def step(tokens: list[int]) -> Tensor:
        ids = torch.tensor([tokens])
        logits: Tensor = model(input_ids=ids, input_features=features, use_cache=False).logits[0]
        return logits

    return generate(step, prompt, [pad])  # of a recording that it would write itself it has none
