"""A Parakeet and transformers': what each thinks of every place of a recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookhear.engine.check.parity import SECONDS, Parity, transformers_class
from lookhear.engine.families.parts.sound import read_sound
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.models import frames
from lookhear.engine.parakeet.encoder import normalised
from lookhear.engine.parakeet.model import ParakeetModel
from lookhear.engine.parakeet.writing import CtcWriter, DurationWriter
from lookhear.engine.transducer.encoder import Piece
from lookhear.engine.transducer.predictor import Predictor
from lookhear.kernels import linear

PLACES = 160  # of which logits are compared, one by one


@torch.inference_mode()
def compare_parakeet(folder: Path, architecture: str, samples: NDArray[np.float32]) -> Parity:
    """Tokens of places, "nothing" among them: of each place behind what was written before, which
    either is told. Raises NotCompared, CheckpointError."""
    kind = transformers_class(architecture)
    samples = samples[: SECONDS * SAMPLE_RATE]
    emphasis, rounding = read_sound(folder)
    count = frames.num_frames(len(samples))
    stretch = torch.from_numpy(frames.stretch(samples, 0, count, emphasis=emphasis))
    ours = ParakeetModel.from_folder(folder)
    filters = frames.frame_filters(ours.dims.encoder.num_mels, rounding, ours.device)
    mel = frames.log_mel_frames(stretch, filters)
    (places,), _ = ours.encode([Piece(ours.encoder.begin(1), mel, is_last=True)], 1)
    (written,) = ours.predictor.write([ours.predictor.begin()], [places])  # type: ignore[list-item]
    places = places[:PLACES]
    pairs = list(zip(written.tokens, written.places, strict=True))
    tokens = [[token for token, at in pairs if at < place] for place in range(len(places))]
    found = places
    if not isinstance(ours.predictor, CtcWriter):
        found = _logits(ours.predictor, places, tokens)
    del ours  # room for theirs
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    if hasattr(model, "ctc_head"):
        theirs = model(normalised(mel)[None]).logits[0, : len(places)]
    else:
        heard = model.get_audio_features(normalised(mel)[None]).pooler_output[0]
        blank, known = model.config.blank_token_id, dict[int, Tensor]()
        for said in tokens:
            if len(said) not in known:
                known[len(said)] = model.decoder(torch.tensor([[blank, *said]]))[0, -1]
        outs = [known[len(said)] for said in tokens]
        theirs = model.joint(torch.stack(outs), heard[: len(places)])
    same = int((theirs.argmax(1) == found.argmax(1)).sum())
    return Parity(len(found), same, float((theirs - found).abs().max()), "places' tokens")


def _logits(writer: DurationWriter | Predictor, places: Tensor, tokens: list[list[int]]) -> Tensor:
    """Of each place, behind the tokens that were written in front of it."""
    predictor = writer.predictor if isinstance(writer, DurationWriter) else writer
    state, outs, said = predictor.begin(), list[Tensor](), 0
    hidden, cells, out = state.hidden[None], state.cells[None], state.out
    for before in tokens:
        for token in before[said:]:
            hidden, cells, read = predictor.read([token], hidden, cells)
            out = read[0]
        said = len(before)
        outs.append(out)
    return linear((places + torch.stack(outs)).relu(), predictor.weights.head)
