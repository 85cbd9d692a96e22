"""A Qwen3-Omni's thinker and transformers': what each writes about a picture and a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookhear.engine.chat.pixels import PixelRules
from lookhear.engine.check.parity import (
    Parity,
    decoder_logits,
    generate,
    parity_of,
    transformers_class,
)
from lookhear.engine.check.trial import picture
from lookhear.engine.families.qwen3_omni import WindowedEars
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.models.qwen3_omni import Qwen3OmniModel
from lookhear.engine.models.vision_encoder import patchify
from lookhear.engine.paged.request import Medium
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.kernels import log_mel, mel_filters

SECONDS = 10  # of the recording
_AROUND = ("<|vision_start|>", "<|vision_end|>", "<|audio_start|>", "<|audio_end|>")


@torch.inference_mode()
def compare_omni(folder: Path, samples: NDArray[np.float32]) -> Parity:
    """samples: [n] of speech, 16 kHz. Of the whole model its thinker is compared. Raises
    NotCompared, CheckpointError."""
    kind = transformers_class("Qwen3OmniMoeThinkerForConditionalGeneration")
    heard = samples[: SECONDS * SAMPLE_RATE]
    model = Qwen3OmniModel.from_folder(folder)
    dims, ears = model.sight.encoder.dims, model.ears.dims
    rules = PixelRules.from_folder(folder, dims).limited(64)
    seen = picture()
    pixels = rules.prepare(seen[None], rules.image_size((seen.shape[0], seen.shape[1])))
    tokenizer = QwenTokenizer.from_folder(folder)
    looks, looked, hears, stops = map(tokenizer.token, _AROUND)
    tokens = [*tokenizer.encode("Look:"), looks]
    media = [(len(tokens), model.sight.medium(pixels))]
    tokens += [model.sight.image_token] * media[0][1].num_tokens + [looked, hears]
    for window in WindowedEars(ears).windows(heard):
        media.append((len(tokens), window))
        tokens += [model.audio_token] * window.num_tokens
    tokens += [stops, *tokenizer.encode("What is that?")]
    mel = log_mel(torch.from_numpy(heard)[None], mel_filters(ears.num_mels))
    inputs = {
        "pixel_values": patchify(torch.from_numpy(pixels), dims),
        "image_grid_thw": torch.tensor([[1, *(side // dims.patch for side in pixels.shape[2:])]]),
        "input_features": mel,
        "feature_attention_mask": torch.ones(1, mel.shape[2], dtype=torch.int64),
    }
    del model  # room for theirs, and then for ours again
    generated, theirs = _their_answer(folder, kind, tokens, inputs)
    ours = _our_logits(Qwen3OmniModel.from_folder(folder), tokens, generated, media)
    return parity_of(theirs, ours, generated)


def _their_answer(
    folder: Path, kind: Any, prompt: list[int], inputs: dict[str, Tensor]
) -> tuple[list[int], Tensor]:
    """What it wrote, and thought of every token. It is gone from memory then."""
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    config = model.config
    pads = (config.audio_token_id, config.image_token_id, config.video_token_id)
    # Of media that it would write itself it has none.
    starts = (config.audio_start_token_id, config.vision_start_token_id)

    def step(tokens: list[int]) -> Tensor:
        model.model.rope_deltas = None
        ids = torch.tensor([tokens])
        mask = torch.ones_like(ids)
        logits: Tensor = model(input_ids=ids, attention_mask=mask, **inputs, use_cache=False).logits
        return logits[0]

    return generate(step, prompt, [*pads, *starts])


def _our_logits(
    model: Qwen3OmniModel,
    prompt: list[int],
    generated: list[int],
    media: list[tuple[int, Medium]],
) -> Tensor:
    tokens = torch.tensor([*prompt, *generated[:-1]])
    places = [torch.arange(start, start + medium.num_tokens) for start, medium in media]
    rows = torch.cat(model.encode([medium for _, medium in media]))
    inputs, added = model.sight.embed(tokens, torch.cat(places), rows)
    positions = torch.from_numpy(model.positions(len(prompt), media).read(0, len(tokens)))
    return decoder_logits(model.decoder, inputs, positions, added)
