"""A transducer and transformers': what each writes of a recording, and thinks of every place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookhear.engine.check.parity import SECONDS, Parity, transformers_class
from lookhear.engine.families.parts.sound import read_sound
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.models import frames
from lookhear.engine.transducer.encoder import Piece
from lookhear.engine.transducer.model import TransducerModel

PLACES = 160  # of which logits are compared, one by one


@torch.inference_mode()
def compare_transducer(folder: Path, architecture: str, samples: NDArray[np.float32]) -> Parity:
    """Tokens, with "nothing" among them, that either writes of the first places while it is told
    what transformers' wrote. Ours hears the recording chunk by chunk. Raises NotCompared,
    CheckpointError."""
    kind = transformers_class(architecture)
    samples = samples[: SECONDS * SAMPLE_RATE]
    emphasis, rounding = read_sound(folder)
    count = frames.num_frames(len(samples))
    stretch = torch.from_numpy(frames.stretch(samples, 0, count, emphasis=emphasis))
    model = TransducerModel.from_folder(folder)
    dims = model.dims
    filters = frames.frame_filters(dims.encoder.num_mels, rounding, model.device)
    mel = frames.log_mel_frames(stretch, filters)
    places = _heard(model, mel)[:PLACES]
    del model  # room for theirs, and then for ours again
    written, theirs = _their_logits(folder, kind, mel, dims.lookahead, dims.blank)
    ours = _our_logits(TransducerModel.from_folder(folder), places, written)
    same = int((theirs.argmax(1) == ours.argmax(1)).sum())
    return Parity(len(written), same, float((theirs - ours).abs().max()), "places' tokens")


def _heard(model: TransducerModel, mel: Tensor) -> Tensor:
    chunk, stack = model.dims.lookahead + 1, model.dims.encoder.stack
    state, found = model.encoder.begin(chunk), []
    cuts = [*range(1 + (chunk - 1) * stack, len(mel), chunk * stack)]
    parts = mel.tensor_split(cuts)
    for index, part in enumerate(parts):
        piece = Piece(state, part, is_last=index == len(parts) - 1)
        own, (state,) = model.encode([piece], chunk)
        found += own
    return torch.cat(found)


def _their_logits(
    folder: Path, kind: Any, mel: Tensor, ahead: int, blank: int
) -> tuple[list[int], Tensor]:
    """What it wrote of each place, at most one token; and thought of it, [places, vocab]."""
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    places = model.get_audio_features(mel[None], num_lookahead_tokens=ahead).pooler_output[0]
    written, found, out, state = list[int](), list[Tensor](), None, None
    token = blank
    for place in places[:PLACES]:
        if out is None or token != blank:
            read = model.decoder.embedding(torch.tensor([[token]]))
            hidden, state = model.decoder.lstm(read, state)
            out = model.decoder.decoder_projector(hidden)[0, 0]
        logits = model.joint(encoder_hidden_states=place, decoder_hidden_states=out)
        token = int(logits.argmax())
        written.append(token)
        found.append(logits)
    return written, torch.stack(found)


def _our_logits(model: TransducerModel, places: Tensor, written: list[int]) -> Tensor:
    """Of each place, behind what theirs wrote before."""
    state, outs = model.predictor.begin(), list[Tensor]()
    hidden, cells, out = state.hidden[None], state.cells[None], state.out
    for token in written:
        outs.append(out)
        if token != model.dims.blank:
            hidden, cells, read = model.predictor.read([token], hidden, cells)
            out = read[0]
    return model.predictor.logits(places, torch.stack(outs))
