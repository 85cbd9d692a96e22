"""The streaming Moonshine and transformers' on the same random checkpoints, float32; whole, and in
pieces of which nothing is encoded twice that need not be."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lookhear.engine.check.parity import compare
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.core.request import Beginning, is_looping
from lookhear.engine.messages import TextCommitted, TurnCompleted
from lookhear.engine.moonshine.recognizer import MoonshineRecognizer
from lookhear.engine.moonshine.runner import MoonshineRunner
from lookhear.engine.moonshine.streaming import FRAME, HOP, SHORTEST, StreamingMoonshineModel
from lookhear.engine.tokenizers.pieces import PieceTokenizer
from tests.engine.moonshine.driving import NEW, asked, close, run, sound
from tests.engine.playing import file, make_core, outcome, play, turn
from tools.random_checkpoints.moonshine import STREAMING, build_random_streaming_moonshine

LENGTHS = (1600, 4880, 16_000, 40_320)
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one_width": {"encoder": {"hidden_size": 32}, "tie_word_embeddings": True, "seed": 1},
    "biases": {"attention_bias": True, "encoder": {"attention_bias": True}, "seed": 2},
    "as_published": {
        "encoder": {
            "num_hidden_layers": 6,
            "sliding_windows": [[16, 4], [16, 4], [16, 0], [16, 0], [16, 4], [16, 4]],
        },
        "seed": 3,
    },
    "sees_nothing_ahead": {
        "encoder": {"num_hidden_layers": 2, "sliding_windows": [[3, 0], [1, 1]]}, "seed": 4,
    },
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Pair:
    ours: StreamingMoonshineModel
    theirs: Any

    def their_logits(self, samples: Tensor, tokens: list[int]) -> Tensor:
        with torch.inference_mode():
            logits: Tensor = self.theirs(
                input_values=samples[None],
                attention_mask=torch.ones(1, len(samples), dtype=torch.int64),
                decoder_input_ids=torch.tensor([tokens]),
                use_cache=False,
            ).logits[0]
        return logits

    def their_text(self, samples: Tensor) -> list[int]:
        dims, text = self.ours.dims, list[int]()
        while len(text) < NEW and not is_looping(text):
            token = int(self.their_logits(samples, [dims.start, *text])[-1].argmax())
            if token in dims.end_tokens:
                break
            text.append(token)
        return text


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp(request.param) / "model"
    theirs = build_random_streaming_moonshine(folder, **SHAPES[request.param])
    return Pair(StreamingMoonshineModel.from_folder(folder), theirs)


def our_logits(pair: Pair, samples: Tensor, tokens: list[int]) -> Tensor:
    model = pair.ours
    encoded = model.encode(samples)
    assert len(encoded) == model.num_positions(len(samples))
    own, cross = model.new_self_cache(1), model.new_cross_cache(1, len(encoded))
    row, slot = own.allocate() or 0, cross.allocate() or 0
    cross.write([slot], model.project_cross(encoded), [len(encoded)])
    at = torch.tensor([[row], [0], [len(tokens)], [slot]])
    hidden = model.decode(torch.tensor([tokens]), at[0], at[1], at[2], at[3], own, cross)
    return model.logits(hidden[0])


def nearly(ours: Tensor, theirs: Tensor) -> None:
    """Products of other shapes: sums in another order, layer after layer; numbers of up to 10."""
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max().item() <= 1e-3


@pytest.mark.parametrize("count", LENGTHS)
def test_logits(pair: Pair, count: int) -> None:
    samples, generator = sound(0, count), torch.Generator().manual_seed(1)
    tokens = torch.randint(STREAMING["vocab_size"], (15,), generator=generator).tolist()
    ours, theirs = our_logits(pair, samples, tokens), pair.their_logits(samples, tokens)
    close(ours, theirs)
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


def test_greedy_tokens_batched_and_alone(pair: Pair) -> None:
    audio = [sound(20 + i, count) for i, count in enumerate(LENGTHS)]
    theirs = [pair.their_text(samples) for samples in audio]
    runner = MoonshineRunner(pair.ours, 4, max(LENGTHS))
    requests = [asked(f"{i}", samples) for i, samples in enumerate(audio)]
    for ahead in (False, True):
        together = run(runner, *requests, ahead=ahead)
        assert [list(result.tokens) for result in together] == theirs
    assert [run(runner, request)[0].tokens for request in requests] == [r.tokens for r in together]


def test_half_a_frame_is_not_heard_yet(pair: Pair) -> None:
    samples = sound(2, 8000 + FRAME - 1)
    assert torch.equal(pair.ours.encode(samples), pair.ours.encode(samples[:8000]))
    short = torch.nn.functional.pad(samples[:300], (0, SHORTEST - 300))
    assert torch.equal(pair.ours.encode(samples[:300]), pair.ours.encode(short))


@pytest.mark.parametrize("step", [1000, 3333, 16_000])
def test_a_growing_segment_is_encoded_as_a_whole_one(pair: Pair, step: int) -> None:
    """Whatever the steps; and after a cut, of fewer samples than before."""
    model, samples = pair.ours, sound(3, 60_000)
    settled: Tensor | None = None
    for end in [*range(step, 60_001, step), 31_111, 60_000]:
        encoded, settled = model.encode_more(samples[:end], settled)
        nearly(encoded, model.encode(samples[:end]))
    assert settled is not None
    assert len(settled) == model.num_positions(60_000) - model.encoder_dims.ahead


def test_what_is_settled_is_not_read_again(pair: Pair) -> None:
    """Nothing of it but what the next positions look back at."""
    model, samples = pair.ours, sound(4, 60_000)
    _, settled = model.encode_more(samples[:48_000], None)
    poisoned = samples.clone()
    poisoned[: 48_000 - model.reach - HOP] = torch.nan
    encoded, _ = model.encode_more(poisoned, settled)
    nearly(encoded, model.encode(samples))


def test_requests_of_one_beginning_share_it(pair: Pair) -> None:
    runner, beginning = MoonshineRunner(pair.ours, 2, 60_000), Beginning()
    samples = sound(5, 60_000)
    for end in (20_000, 40_000, 60_000):
        (kept,) = run(runner, asked("a", samples[:end], beginning=beginning))
        (plain,) = run(runner, asked("a", samples[:end]))
        assert kept.tokens == plain.tokens
    assert len(runner._settled) == 1
    del beginning, kept, plain
    assert len(runner._settled) == 0  # nobody holds it any more


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streaming")
    build_random_streaming_moonshine(folder, seed=7)
    return folder


def test_turns_and_files_side_by_side_as_alone(folder: Path) -> None:
    scripts = {"a": turn("a", 0, 9.0), "b": turn("b", 1, 4.0, piece=0.3), "f": file("f", 2, 25.0)}
    alone = {n: outcome(play(make_core(folder), script), n) for n, script in scripts.items()}
    events = play(make_core(folder), *scripts.values())
    assert outcome(events, "f") == alone["f"]
    for name in "ab":
        assert outcome(events, name)[-1] == alone[name][-1]
    assert any(isinstance(event, TextCommitted) for event in events)
    assert sum(isinstance(event, TurnCompleted) for event in events) == 2


def test_a_look_costs_what_is_new(folder: Path) -> None:
    model = StreamingMoonshineModel.from_folder(folder)
    recognizer = MoonshineRecognizer(PieceTokenizer.from_folder(folder, 300), reach=model.reach)
    first, later = (recognizer.cost(0, n, 0, num_heard=n - 4000).encoder for n in (80_000, 160_000))
    assert first == later == 4000 + model.reach
    assert recognizer.cost(0, 80_000, 0).encoder == 80_000


def test_check_compares_it(folder: Path) -> None:
    found = compare(folder, "MoonshineStreamingForConditionalGeneration", sound(50, 30_001).numpy())
    assert found.agrees and found.tokens > 0


@pytest.mark.parametrize(
    ("change", "encoder", "message"),
    [
        ({}, {"sliding_windows": [[5, 3]]}, "sliding_windows: expected two numbers for each"),
        ({}, {"frame_ms": 10.0}, "encoder_config.frame_ms: expected 5.0"),
        ({}, {"num_key_value_heads": 2}, "encoder_config.num_key_value_heads: expected 4"),
        ({"head_dim": 16}, {}, "head_dim: expected 8"),
        ({"num_key_value_heads": 2}, {}, "num_key_value_heads: expected as many as"),
        ({"max_position_embeddings": 699}, {}, "pos_emb.weight: expected shape"),
    ],
)
def test_what_is_wrong_is_named(
    folder: Path, tmp_path: Path, change: dict[str, Any], encoder: dict[str, Any], message: str
) -> None:
    told = json.loads((folder / "config.json").read_text())
    told["encoder_config"].update(encoder)
    (tmp_path / "config.json").write_text(json.dumps({**told, **change}))
    (tmp_path / "model.safetensors").symlink_to(folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=message):
        StreamingMoonshineModel.from_folder(tmp_path)


def test_one_with_places_for_a_moment_is_refused(tmp_path: Path) -> None:
    build_random_streaming_moonshine(tmp_path, max_position_embeddings=300)
    with pytest.raises(CheckpointError, match="expected places for 7 s of audio at least, got"):
        make_core(tmp_path)
