"""Our transducer and transformers' on the same random checkpoints, float32: whole and in chunks,
alone and beside others."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.transducer.encoder import Piece
from lookhear.engine.transducer.model import TransducerModel
from tests.engine.transducer.driving import (
    SOUND,
    a_runner,
    close,
    in_pieces,
    run,
    sound,
    text,
    times,
    whole,
)
from tools.random_checkpoints.transducer import HEARING, build_random_transducer

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "no_biases": {
        "encoder": {"attention_bias": False, "convolution_bias": False, "scale_input": False},
        "seed": 1,
    },
    # Chunks of four do not fill what it sees behind them; places of four frames.
    "other_numbers": {
        "encoder": {
            "sliding_window": 12, "subsampling_factor": 4, "num_mel_bins": 24,
            "conv_kernel_size": 9, "num_hidden_layers": 2,
        },
        "num_decoder_layers": 1, "max_symbols_per_step": 1, "seed": 2,
    },
    "blank_first": {"blank_token_id": 0, "max_symbols_per_step": 10, "seed": 3},
}  # fmt: skip
LOOKAHEADS = (3, 1, 0)
FRAMES = (1, 8, 9, 40, 57, 203)
SAMPLES = (400, 5000, 33_333, 64_000)


@dataclasses.dataclass(frozen=True)
class Pair:
    ours: TransducerModel
    theirs: Any

    @property
    def sounds(self) -> Any:
        return dataclasses.replace(SOUND, stack=self.ours.dims.encoder.stack)

    def their_features(self, samples: np.ndarray) -> dict[str, Tensor]:
        from transformers import NemotronAsrStreamingFeatureExtractor

        kind: Any = NemotronAsrStreamingFeatureExtractor
        extractor = kind(feature_size=self.ours.dims.encoder.num_mels)
        heard = extractor(samples, sampling_rate=16_000, return_tensors="pt")
        return {key: heard[key] for key in ("input_features", "attention_mask")}

    def their_text(self, samples: np.ndarray, ahead: int) -> tuple[list[int], list[int]]:
        """Tokens, and the place of each."""
        told = self.theirs.generate(
            **self.their_features(samples), num_lookahead_tokens=ahead, max_new_tokens=5000
        )
        blank = self.ours.dims.blank
        tokens, steps = told.sequences[0, 1:].tolist(), told.durations[0].tolist()
        at = np.cumsum(steps)[:-1]
        said = [(token, int(place)) for token, place in zip(tokens, at, strict=True)]
        kept = [(token, place) for token, place in said if token != blank]
        return [token for token, _ in kept], [place for _, place in kept]


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp(request.param) / "model"
    theirs = build_random_transducer(folder, **SHAPES[request.param])
    return Pair(TransducerModel.from_folder(folder), theirs)


def drawn(pair: Pair, count: int) -> Tensor:
    generator = torch.Generator().manual_seed(count)
    return torch.randn(count, pair.ours.dims.encoder.num_mels, generator=generator) * 0.5 - 4.3


def our_places(pair: Pair, frames: Tensor, ahead: int, cuts: list[int]) -> Tensor:
    model, chunk = pair.ours, ahead + 1
    state, found = model.encoder.begin(chunk), []
    parts = frames.tensor_split(cuts)
    for index, part in enumerate(parts):
        piece = Piece(state, part, is_last=index == len(parts) - 1)
        places, (state,) = model.encode([piece], chunk)
        found += places
    return torch.cat(found)


@pytest.mark.parametrize("ahead", LOOKAHEADS)
def test_places_whole_and_in_chunks(pair: Pair, ahead: int) -> None:
    """Frames come in chunks of the model's size, or several at once."""
    stack = pair.ours.dims.encoder.stack
    chunk = stack * (ahead + 1)
    for count in FRAMES:
        frames = drawn(pair, count)
        with torch.inference_mode():
            theirs = pair.theirs.get_audio_features(frames[None], num_lookahead_tokens=ahead)
        first = 1 + chunk - stack
        every = [cut for cut in range(first, count, chunk)]
        for cuts in ([], every, every[::3], every[1:2]):
            close(our_places(pair, frames, ahead, cuts), theirs.pooler_output[0])


def test_as_their_caches_have_it(pair: Pair) -> None:
    """Where they keep what they heard, too. They see as far back as there is room for; we, as both
    do on the whole, as whole chunks go."""
    ahead = 0 if pair.ours.dims.encoder.left % 4 else 3
    stack = pair.ours.dims.encoder.stack
    chunk = stack * (ahead + 1)
    first = 1 + chunk - stack
    frames = drawn(pair, first + 6 * chunk)
    cuts = [first + i * chunk for i in range(6)]
    cache, padding, theirs = None, None, []
    with torch.inference_mode():
        for part in frames.tensor_split(cuts):
            told = pair.theirs.get_audio_features(
                part[None], cache=cache, padding_cache=padding, use_cache=True,
                num_lookahead_tokens=ahead,
            )  # fmt: skip
            cache, padding = told.cache, told.padding_cache
            theirs.append(told.pooler_output[0])
    close(our_places(pair, frames, ahead, cuts), torch.cat(theirs))


def test_logits(pair: Pair) -> None:
    """Of each place behind each of some tokens."""
    ours, frames = pair.ours, drawn(pair, 90)
    tokens = torch.randint(1, 280, (12,), generator=torch.Generator().manual_seed(4)).tolist()
    with torch.inference_mode():
        theirs = pair.theirs(
            frames[None],
            decoder_input_ids=torch.tensor([[ours.dims.blank, *tokens]]),
            num_lookahead_tokens=1,
        ).logits[0]
    (places,), _ = ours.encode([Piece(ours.encoder.begin(2), frames, is_last=True)], 2)
    state, outs = ours.predictor.begin(), []
    outs.append(state.out)
    for token in tokens:
        hidden, cells, out = ours.predictor.read([token], state.hidden[None], state.cells[None])
        state = dataclasses.replace(state, hidden=hidden[0], cells=cells[0], out=out[0])
        outs.append(state.out)
    close(ours.predictor.logits(places[:, None], torch.stack(outs)), theirs)


@pytest.mark.parametrize("ahead", LOOKAHEADS)
def test_greedy_tokens_of_samples(pair: Pair, ahead: int) -> None:
    """Their log-mel, their text, and the place of each token; ours whole, in pieces of any size,
    alone and beside others of other lookaheads."""
    audio = [sound(20 + i, count) for i, count in enumerate(SAMPLES)]
    theirs = [pair.their_text(samples, ahead) for samples in audio]
    assert any(tokens for tokens, _ in theirs)
    runner, place = a_runner(pair.ours), pair.sounds.place
    others = [[whole("x", sound(1, 20_000), 2, pair.sounds)]]
    asked = [[whole(f"{i}", samples, ahead, pair.sounds)] for i, samples in enumerate(audio)]
    pieces = [
        in_pieces(f"{i}", samples, ahead, sizes, pair.sounds)
        for i, samples in enumerate(audio)
        for sizes in ((4000,), (170, 9000))[i % 2 :][:1]
    ]
    for recordings in (asked, pieces, [*asked, *others], [*pieces, *others]):
        for before in (False, True):
            together = run(runner, *recordings, ahead=before)[: len(audio)]
            assert [text(results) for results in together] == [tokens for tokens, _ in theirs]
            for results, (_, places) in zip(together, theirs, strict=True):
                assert [start for start, _ in times(results)] == pytest.approx(
                    [place * at for at in places]
                )
    alone = [text(run(runner, requests)[0]) for requests in asked]
    assert alone == [tokens for tokens, _ in theirs]
    assert runner.stats()["transducer_memories"] == 0


def change(folder: Path, inner: dict[str, Any], **changes: Any) -> None:
    path = folder / "config.json"
    told = json.loads(path.read_text())
    told["encoder_config"].update(inner)
    path.write_text(json.dumps({**told, **changes}))


@pytest.mark.parametrize(
    ("inner", "changes", "named"),
    [
        ({"hidden_act": "gelu"}, {}, "hidden_act"),
        ({"subsampling_factor": 6}, {}, "subsampling_factor"),
        ({"num_attention_heads": 5}, {}, "hidden_size"),
        ({"default_num_lookahead_tokens": -1}, {}, "default_num_lookahead_tokens"),
        ({}, {"blank_token_id": 290}, "blank_token_id"),
        ({}, {"hidden_act": "silu"}, "hidden_act"),
        ({}, {"encoder_config": 3}, "encoder_config"),
        ({"num_hidden_layers": HEARING["num_hidden_layers"] - 1}, {}, "unexpected tensors"),
    ],
)
def test_what_cannot_be_served_is_named(
    tmp_path: Path, inner: dict[str, Any], changes: dict[str, Any], named: str
) -> None:
    build_random_transducer(tmp_path)
    change(tmp_path, inner, **changes)
    with pytest.raises(CheckpointError, match=named):
        TransducerModel.from_folder(tmp_path)
