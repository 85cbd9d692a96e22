"""Our Parakeets and transformers' on the same random checkpoints: the same numbers, and the same
tokens at the same places; whatever is heard beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.core.request import Priority
from lookhear.engine.models.frames import frame_filters
from lookhear.engine.parakeet.model import ParakeetModel
from lookhear.engine.parakeet.sound import WholeSound
from lookhear.engine.transducer.encoder import Piece
from lookhear.engine.transducer.request import TransducerRequest
from lookhear.engine.transducer.runner import TransducerRunner
from tests.engine.transducer.driving import close, run, sound, text, times
from tools.random_checkpoints.parakeet import HEARING, KINDS, build_random_parakeet

SAMPLES = (1700, 20_000, 41_333, 96_000)
SOUND = WholeSound(0.97, 480_000)
MELS = HEARING["num_mel_bins"]
BLANK = 289


@dataclass(frozen=True)
class Pair:
    kind: str
    ours: ParakeetModel
    theirs: Any

    def features(self, samples: np.ndarray) -> Any:
        from transformers import ParakeetFeatureExtractor

        extractor: Any = ParakeetFeatureExtractor(feature_size=MELS)
        return extractor(samples, sampling_rate=16_000, return_tensors="pt")

    def their_text(self, samples: np.ndarray) -> tuple[list[int], list[int]]:
        """Tokens, and the place of each."""
        features = self.features(samples)
        if self.kind == "CTC":
            tokens, at, found = self.theirs.generate(**features)[0].tolist(), 0, []
            for token, group in groupby(tokens):
                found.append((token, at))
                at += len(list(group))
        else:
            steps = 4 * features.input_features.shape[1]
            told = self.theirs.generate(**features, max_new_tokens=steps)
            ends = told.durations[0].cumsum(0).tolist()
            found = list(zip(told.sequences[0].tolist()[1:], ends[:-1], strict=True))
        kept = [(token, place) for token, place in found if token != BLANK]
        return [token for token, _ in kept], [place for _, place in kept]

    def runner(self) -> TransducerRunner:
        return TransducerRunner(self.ours, frame_filters(MELS, torch.float32, self.ours.device))


@pytest.fixture(
    scope="module",
    params=[
        *((kind, {}) for kind in KINDS),
        ("TDT", {"durations": [0, 1, 2], "num_decoder_layers": 1, "max_symbols_per_step": 40}),
        ("RNNT", {"encoder_config": {**HEARING, "attention_bias": False, "convolution_bias": False,
                                     "scale_input": False, "subsampling_factor": 4}}),
    ],
    ids=[*KINDS, "one layer", "no bias"],
)  # fmt: skip
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("parakeet")
    kind, changes = request.param
    theirs = build_random_parakeet(folder, kind=kind, seed=2, **changes)
    return Pair(kind, ParakeetModel.from_folder(folder), theirs)


def whole(key: str, samples: np.ndarray) -> TransducerRequest:
    return SOUND.whole(key, Priority.BATCH, samples, None)


def test_places_and_logits(pair: Pair) -> None:
    samples = sound(3, 33_333)
    features, request = pair.features(samples), whole("a", samples)
    frames = pair.runner()._frames(request)
    with torch.inference_mode():
        told = pair.theirs.encoder(features.input_features, features.attention_mask)
        theirs = told.last_hidden_state[0]
        ours = pair.ours.encoder.encode(frames)
        count = int(told.attention_mask.sum()) if told.attention_mask is not None else len(ours)
        assert len(ours) == count
        close(ours, theirs[:count])
        if pair.kind == "CTC":
            logits = pair.theirs.ctc_head(theirs[None])[0]
            (places,) = pair.ours.encode([_piece(frames)], 1)[0]
            close(places, logits[:count])


def _piece(frames: torch.Tensor) -> Any:
    nothing: Any = None
    return Piece(nothing, frames, is_last=True)


def test_greedy_tokens_of_samples(pair: Pair) -> None:
    """Alone, and all side by side."""
    audio = [sound(40 + i, count) for i, count in enumerate(SAMPLES)]
    theirs = [pair.their_text(samples) for samples in audio]
    assert sum(len(tokens) for tokens, _ in theirs) > 15
    runner = pair.runner()
    asked = [[whole(f"{i}", samples)] for i, samples in enumerate(audio)]
    for ahead in (False, True):
        together = run(runner, *asked, ahead=ahead)
        assert [text(results) for results in together] == [tokens for tokens, _ in theirs]
        for results, (_, places) in zip(together, theirs, strict=True):
            starts = [start for start, _ in times(results)]
            assert starts == pytest.approx([0.08 * at for at in places])
    alone = [text(run(runner, requests)[0]) for requests in asked]
    assert alone == [tokens for tokens, _ in theirs]
    assert runner.stats()["transducer_memories"] == 0


def test_what_never_moves_on_ends(tmp_path: Path) -> None:
    """As many tokens at one place as may be: transformers' would go on until its text is full."""
    build_random_parakeet(tmp_path, durations=[0, 0], max_symbols_per_step=2)
    model = ParakeetModel.from_folder(tmp_path)
    runner = TransducerRunner(model, frame_filters(MELS, torch.float32, model.device))
    (results,) = run(runner, [whole("a", sound(1, 40_000))])
    starts = [start for start, _ in times(results)]
    assert starts and max(starts.count(start) for start in starts) <= 2


@pytest.mark.parametrize(
    ("inner", "changes", "named"),
    [
        ({"conv_kernel_size": 4}, {}, "conv_kernel_size"),
        ({"hidden_act": "gelu"}, {}, "hidden_act"),
        ({"num_hidden_layers": 2}, {}, "unexpected tensors"),
        ({}, {"blank_token_id": 290}, "blank_token_id"),
        ({}, {"durations": [0, -1]}, "durations"),
        ({}, {"hidden_act": "silu"}, "hidden_act"),
        ({}, {"encoder_config": 3}, "encoder_config"),
    ],
)
def test_what_cannot_be_served_is_named(
    tmp_path: Path, inner: dict[str, Any], changes: dict[str, Any], named: str
) -> None:
    build_random_parakeet(tmp_path)
    path = tmp_path / "config.json"
    told = json.loads(path.read_text())
    told["encoder_config"].update(inner)
    path.write_text(json.dumps({**told, **changes}))
    with pytest.raises(CheckpointError, match=named):
        ParakeetModel.from_folder(tmp_path)
