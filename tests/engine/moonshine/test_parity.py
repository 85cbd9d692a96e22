"""Our Moonshine and transformers' on the same random checkpoints, float32: the same numbers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lookhear.engine.check.parity import compare
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.core.request import StopReason, is_looping
from lookhear.engine.moonshine.model import SHORTEST, MoonshineModel
from lookhear.engine.moonshine.runner import MoonshineRunner
from tests.engine.moonshine.driving import NEW, asked, close, run, sound
from tools.random_checkpoints.moonshine import MOONSHINE, build_random_moonshine

VOCAB = MOONSHINE["vocab_size"]
LENGTHS = (1600, 5000, 16_000, 40_321)
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "untied_head": {"tie_word_embeddings": False, "seed": 1},
    "attention_bias": {"attention_bias": True, "decoder_num_hidden_layers": 3, "seed": 2},
    "odd_rest": {
        "hidden_size": 36, "encoder_num_attention_heads": 2, "decoder_num_attention_heads": 2,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.7,
        },
        "seed": 3,
    },
    "all_is_turned": {
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 1e3, "partial_rotary_factor": 1.0,
        },
        "encoder_num_hidden_layers": 1, "seed": 4,
    },
    "padded_heads": {"pad_head_dim_to_multiple_of": 16, "seed": 5},
    "packed": {"hidden_size": 640, "intermediate_size": 700, "seed": 6},
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Pair:
    ours: MoonshineModel
    theirs: Any

    def encoded(self, samples: Tensor) -> Tensor:
        with torch.inference_mode():
            found: Tensor = self.theirs.model.encoder(samples[None]).last_hidden_state[0]
        return found

    def their_logits(self, samples: Tensor, tokens: list[int]) -> Tensor:
        """[tokens, vocab], no cache."""
        with torch.inference_mode():
            logits: Tensor = self.theirs(
                input_values=samples[None],
                decoder_input_ids=torch.tensor([tokens]),
                use_cache=False,
            ).logits[0]
        return logits

    def their_text(self, samples: Tensor, prefix: tuple[int, ...] = ()) -> list[int]:
        """Greedily, without the end, until it says one thing over and over."""
        dims, text = self.ours.dims, list(prefix)
        while len(text) < len(prefix) + NEW:
            token = int(self.their_logits(samples, [dims.start, *text])[-1].argmax())
            if token in dims.end_tokens:
                break
            text.append(token)
            if is_looping(text[len(prefix) :]):
                break
        return text[len(prefix) :]


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp(request.param) / "model"
    theirs = build_random_moonshine(folder, **SHAPES[request.param])
    return Pair(MoonshineModel.from_folder(folder), theirs)


@pytest.mark.parametrize("count", LENGTHS)
def test_encoder(pair: Pair, count: int) -> None:
    samples = sound(0, count)
    ours = pair.ours.encode(samples)
    assert len(ours) == pair.ours.num_positions(count)
    close(ours, pair.encoded(samples))


def test_what_is_too_short_is_padded(pair: Pair) -> None:
    samples = sound(1, 300)
    padded = torch.nn.functional.pad(samples, (0, SHORTEST - 300))
    close(pair.ours.encode(samples), pair.encoded(padded))
    assert (
        pair.ours.num_positions(300)
        == pair.ours.num_positions(SHORTEST)
        == len(pair.ours.encode(samples))
    )


@pytest.mark.parametrize("cut", [1, 7, 20])
def test_logits_whole_and_in_pieces(pair: Pair, cut: int) -> None:
    """Several rows of different texts and audio, padded to each other; poison behind them."""
    model, generator = pair.ours, torch.Generator().manual_seed(2)
    audio = [sound(10 + i, count) for i, count in enumerate(LENGTHS)]
    texts = [
        [model.dims.start, *torch.randint(VOCAB, (n,), generator=generator).tolist()]
        for n in (20, 5, 1, 11)
    ]
    own = model.new_self_cache(4)
    cross = model.new_cross_cache(4, model.num_positions(max(LENGTHS)))
    own.data.fill_(torch.nan)
    cross.data.fill_(torch.nan)
    rows = [own.allocate() or 0 for _ in audio]
    slots = [cross.allocate() or 0 for _ in audio][::-1]
    for samples, slot in zip(audio, slots, strict=True):
        encoded = model.encode(samples)
        cross.write([slot], model.project_cross(encoded), [len(encoded)])
    got: list[list[Tensor]] = [[] for _ in texts]
    for first, last in ((0, cut), (cut, 21)):
        parts = [text[first:last] for text in texts]
        lengths = torch.tensor([len(part) for part in parts])
        tokens = torch.zeros(4, int(lengths.max()), dtype=torch.int64)
        for i, part in enumerate(parts):
            tokens[i, : len(part)] = torch.tensor(part, dtype=torch.int64)
        past = torch.tensor([min(first, len(text)) for text in texts])
        hidden = model.decode(
            tokens, torch.tensor(rows), past, lengths, torch.tensor(slots), own, cross
        )
        for i, part in enumerate(parts):
            got[i].append(model.logits(hidden[i, : len(part)]))
    for samples, text, parts_of in zip(audio, texts, got, strict=True):
        theirs = pair.their_logits(samples, text)
        ours = torch.cat(parts_of)
        close(ours, theirs)
        assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


# --- through the runner --------------------------------------------------------------------------


def test_greedy_tokens_batched_and_alone(pair: Pair) -> None:
    audio = [sound(20 + i, count) for i, count in enumerate(LENGTHS)]
    theirs = [pair.their_text(samples) for samples in audio]
    assert any(theirs)
    runner = MoonshineRunner(pair.ours, 4, max(LENGTHS))
    requests = [asked(f"{i}", samples) for i, samples in enumerate(audio)]
    for ahead in (False, True):
        together = run(runner, *requests, ahead=ahead)
        assert [list(result.tokens) for result in together] == theirs
    alone = [run(runner, request)[0] for request in requests]
    for one, other in zip(alone, together, strict=True):
        assert one.tokens == other.tokens and one.stop is other.stop
        assert np.allclose(one.logprobs, other.logprobs, atol=1e-4)


def test_settled_text_is_forced_and_drafts_change_nothing(pair: Pair) -> None:
    samples = sound(30, 20_000)
    theirs = tuple(pair.their_text(samples, (9, 40)))
    runner = MoonshineRunner(pair.ours, 3, 20_000)
    (plain,) = run(runner, asked("a", samples, prefix=(9, 40)))
    assert plain.tokens == theirs
    wrong = (*theirs[:3], 7, 8, 9)
    for draft in (theirs, theirs[:4], wrong, (1, 1, 1)):
        (found,) = run(runner, asked("a", samples, prefix=(9, 40), draft=draft))
        assert found.tokens == theirs and found.stop is plain.stop
        assert np.allclose(found.logprobs, plain.logprobs, atol=1e-4)
    if len(theirs) > 3:
        (found,) = run(runner, asked("a", samples, prefix=(9, 40), draft=theirs))
        assert found.num_accepted >= 3 and found.num_passes < plain.num_passes


def test_a_text_that_is_known_to_go_on_does_not_end(pair: Pair) -> None:
    samples, ends = sound(31, 9000), pair.ours.dims.end_tokens
    runner = MoonshineRunner(pair.ours, 2, 9000)
    (found,) = run(runner, asked("a", samples, at_least=NEW))
    assert len(found.tokens) == NEW or found.stop is StopReason.REPETITION
    assert not ends & set(found.tokens)


def test_what_is_drawn_depends_on_nobody_else(pair: Pair) -> None:
    samples = [sound(40 + i, 8000 + 999 * i) for i in range(3)]
    runner = MoonshineRunner(pair.ours, 3, 12_000)
    requests = [asked(f"{i}", each, temperature=1.0) for i, each in enumerate(samples)]
    together = run(runner, *requests)
    assert [run(runner, request)[0].tokens for request in requests] == [r.tokens for r in together]


# --- checkpoints ---------------------------------------------------------------------------------


def test_check_compares_it(tmp_path: Path) -> None:
    build_random_moonshine(tmp_path)
    found = compare(tmp_path, "MoonshineForConditionalGeneration", sound(50, 30_000).numpy())
    assert found.agrees and found.tokens > 0


def test_other_precisions_stay_close(tmp_path: Path) -> None:
    theirs = build_random_moonshine(tmp_path)
    exact = MoonshineModel.from_folder(tmp_path)
    short = MoonshineModel.from_folder(tmp_path, dtype=torch.bfloat16)
    assert exact.num_parameters == sum(p.numel() for p in theirs.parameters())
    rows = [model.encode(sound(51, 20_000)).float() for model in (exact, short)]
    assert (rows[1] - rows[0]).norm() <= 0.05 * rows[0].norm()
    (result,) = run(MoonshineRunner(short, 1, 20_000), asked("a", sound(51, 20_000)))
    assert result.tokens


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder_num_attention_heads": 2}, "as many as of the decoder"),
        ({"decoder_num_key_value_heads": 2}, "as many as of the decoder"),
        ({"encoder_hidden_act": "relu"}, "encoder_hidden_act: expected 'gelu'"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_type: expected 'default'"),
        ({"rope_scaling": {"type": "linear"}}, "rope_type: expected 'default', got 'linear'"),
        ({"rope_parameters": {"partial_rotary_factor": 0.4}}, "partial_rotary_factor: expected"),
        ({"eos_token_id": "x"}, "eos_token_id: expected token ids"),
        (
            {"decoder_start_token_id": None, "bos_token_id": None},
            "decoder_start_token_id: expected a token id",
        ),
        ({"hidden_size": 34}, "hidden_size: expected a multiple of 8"),
        ({"vocab_size": 301}, "embed_tokens.weight: expected shape"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    build_random_moonshine(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CheckpointError, match=message):
        MoonshineModel.from_folder(tmp_path)
