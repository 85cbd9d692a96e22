"""Our Voxtral Realtime and transformers' on the same random checkpoints: the same numbers, and the
same tokens, whatever is heard at once and beside whom."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.voxtral.model import VoxtralModel
from lookhear.engine.voxtral.stack import Delays
from tests.engine.voxtral.driving import (
    MARKS,
    Lane,
    a_runner,
    close,
    in_pieces,
    run,
    silent,
    sound,
    text,
    their_mel,
    their_tokens,
    times,
    whole,
)
from tools.random_checkpoints.voxtral import DELAY, LEFT, build_random_voxtral

SAMPLES = (700, 20_000, 41_333, 96_000)


@dataclass(frozen=True)
class Pair:
    folder: Path
    ours: VoxtralModel
    theirs: Any


@pytest.fixture(
    scope="module",
    params=[
        {},
        {"audio": {"sliding_window": 3, "num_attention_heads": 2}, "text": {"sliding_window": 5}},
        {"text": {"num_key_value_heads": 4, "tie_word_embeddings": False},
         "tie_word_embeddings": False, "downsample_factor": 4},
    ],
    ids=["windows", "short windows", "own head"],
)  # fmt: skip
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("voxtral")
    theirs = build_random_voxtral(folder, seed=1, **request.param)
    return Pair(folder, VoxtralModel.from_folder(folder), theirs)


def our_steps(pair: Pair, frames: Tensor, counts: list[int]) -> Tensor:
    """frames: [n, mels], in pieces of so many steps."""
    encoder = pair.ours.encoder
    lane, state, found = Lane(pair.ours.dims.audio.window), encoder.begin(), []
    cache = encoder.stack.new_cache(60)
    for part in torch.split(frames, [8 * count for count in counts]):
        (places,), (state,) = encoder.join([state], part[None])
        found.append(encoder.encode([places], lane.batch(len(places)), cache))
        lane.move(len(places))
    return torch.cat(found)


@pytest.mark.parametrize("counts", [[40], [1] * 40, [3, 30, 7]])
def test_steps_of_frames(pair: Pair, counts: list[int]) -> None:
    frames = torch.randn(1, pair.ours.dims.num_mels, 320, generator=torch.manual_seed(3))
    with torch.inference_mode():
        theirs = pair.theirs.get_audio_features(frames).pooler_output[0]
    close(our_steps(pair, frames[0].t(), counts), theirs)


@pytest.mark.parametrize("delay", [1, 6, 30])
@pytest.mark.parametrize("counts", [[50], [1] * 50, [20, *[1] * 13, 17]])
def test_logits(pair: Pair, delay: int, counts: list[int]) -> None:
    """Behind each of some tokens, more than the window holds."""
    decoder = pair.ours.decoder
    drawn = torch.Generator().manual_seed(5)
    frames = torch.randn(1, pair.ours.dims.num_mels, 400, generator=drawn)
    tokens = torch.randint(0, pair.ours.dims.vocab, (50,), generator=drawn)
    with torch.inference_mode():
        theirs = pair.theirs(
            input_ids=tokens[None], input_features=frames, num_delay_tokens=delay, use_cache=False
        ).logits[0]
    steps, lane, found = our_steps(pair, frames[0].t(), [50]), Lane(decoder.stack.dims.window), []
    cache, scales = decoder.stack.new_cache(60), decoder.scales(delay)[None]
    parts = torch.split(tokens, counts), torch.split(steps, counts)
    for own, heard in zip(*parts, strict=True):
        delays = Delays(scales, torch.zeros(len(own), dtype=torch.int64))
        hidden = decoder.forward(own, heard, delays, lane.batch(len(own)), cache)
        found.append(decoder.logits(hidden))
        lane.move(len(own))
    close(torch.cat(found), theirs)


def test_greedy_tokens_of_samples(pair: Pair) -> None:
    """As `generate` writes them; ours whole, in chunks, in pieces of any size, alone and beside
    others of other delays, and with steps that are launched before the last one was read."""
    audio = [sound(20 + i, count) for i, count in enumerate(SAMPLES)]
    theirs = [their_tokens(pair.theirs, samples, DELAY) for samples in audio]
    assert all(MARKS.end not in tokens for tokens in theirs)
    assert sum(not silent(token) for tokens in theirs for token in tokens) > 40
    runner = a_runner(pair.ours)
    asked = [[whole(f"{i}", samples)] for i, samples in enumerate(audio)]
    pieces = [
        in_pieces(f"{i}", samples, ((4000,), (170, 9000))[i % 2]) for i, samples in enumerate(audio)
    ]
    others = [[whole("x", sound(1, 20_000), 2)], in_pieces("y", sound(2, 30_000), [1280], 30)]
    told: list[list[list[tuple[float, float]]]] = []
    for recordings, ahead, chunk in (
        (asked, False, 1000), (asked, True, 3), (pieces, False, 1000),
        ([*asked, *others], True, 1000), ([*pieces, *others], True, 2),
    ):  # fmt: skip
        written: list[list[int]] = [[] for _ in recordings]
        heard = run(runner, *recordings, ahead=ahead, chunk=chunk, written=written)
        assert written[: len(audio)] == theirs
        kept = [[token for token in tokens if not silent(token)] for tokens in theirs]
        assert [text(results) for results in heard[: len(audio)]] == kept
        told.append([times(results) for results in heard[: len(audio)]])
    assert all(one == told[0] for one in told)
    for spans, samples in zip(told[0], audio, strict=True):
        assert all(0 <= a <= b <= len(samples) / 16_000 + 1.0 for a, b in spans)
        assert spans == sorted(spans)
    for requests, tokens in zip(asked, theirs, strict=True):
        alone: list[list[int]] = [[]]
        run(runner, requests, written=alone)
        assert alone == [tokens]
    assert runner.stats()["voxtral_memories"] == runner.stats()["voxtral_blocks"] == 0


@pytest.mark.parametrize("delay", [2, 12])
def test_who_waits_longer(pair: Pair, delay: int) -> None:
    samples, written = sound(9, 50_000), [list[int]()]
    run(a_runner(pair.ours), in_pieces("a", samples, [3000], delay), written=written)
    assert written == [their_tokens(pair.theirs, samples, delay)]


def test_an_end_is_one_only_where_no_more_comes(tmp_path: Path) -> None:
    """A recording that is all there ends as `generate` does; one that goes on does not."""
    theirs = build_random_voxtral(tmp_path, seed=1)
    samples = sound(22, 41_333)
    tokens = their_tokens(theirs, samples, DELAY)
    end = next(token for token in tokens[8:] if not silent(token))
    theirs.generation_config.eos_token_id = end
    ended = their_tokens(theirs, samples, DELAY)
    assert ended == tokens[: tokens.index(end) + 1] and len(ended) < len(tokens)
    runner = a_runner(VoxtralModel.from_folder(tmp_path))
    runner._marks = type(MARKS)(MARKS.begin, MARKS.pad, MARKS.word, end)
    written = [list[int]()]
    run(runner, [whole("a", samples)], written=written)
    assert written == [ended]
    written = [list[int]()]
    pieces = in_pieces("a", samples, [1280])
    run(runner, pieces, written=written)
    certain = sum(piece.steps for piece in pieces[:-1]) - LEFT - DELAY
    assert end not in written[0][:certain] and len(written[0]) > len(ended)


def test_the_mel_is_theirs(pair: Pair) -> None:
    samples, runner = sound(4, 33_333), a_runner(pair.ours)
    mel = their_mel(samples, DELAY, pair.ours.dims.num_mels)[0].t()
    ours = torch.cat(
        [runner._frames([piece])[0] for piece in in_pieces("a", samples, [1000, 5000])]
    )
    close(ours, mel[: len(ours)])
    assert len(mel) == len(ours) + 8  # of the last step nothing would be read


@pytest.mark.parametrize("body", ["language_model.model.", "language_model.model.model."])
def test_names_of_other_versions(tmp_path: Path, pair: Pair, body: str) -> None:
    """As transformers 5.24 writes them, and 5.17."""
    for path in pair.folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    head, new_head = "language_model.lm_head", f"{body}lm_head".replace("model.lm_head", "lm_head")
    renamed = {
        name.replace("language_model.model.", body).replace(head, new_head): tensor
        for name, tensor in weights.items()
    }
    save_file(renamed, tmp_path / "model.safetensors")
    assert VoxtralModel.from_folder(tmp_path).dims == pair.ours.dims


def test_names_of_newer_checkpoints(tmp_path: Path, pair: Pair) -> None:
    """The model's own, where it has a part without a head."""
    for path in pair.folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    renamed = {}
    for name, tensor in weights.items():
        new = name.replace("language_model.lm_head", "lm_head")
        new = new.replace("language_model.model", "model.language_model")
        if not new.startswith(("model.", "lm_head")):
            new = f"model.{new}"
        renamed[new] = tensor
    assert renamed.keys() == {name for name, _ in pair.theirs.named_parameters()} | (
        renamed.keys() & {"lm_head.weight"}
    )
    save_file(renamed, tmp_path / "model.safetensors")
    samples, written = sound(5, 20_000), [list[int]()]
    run(a_runner(VoxtralModel.from_folder(tmp_path)), [whole("a", samples)], written=written)
    assert written == [their_tokens(pair.theirs, samples, DELAY)]


@pytest.mark.parametrize(
    ("part", "changes", "named"),
    [
        ("audio_config", {"hidden_act": "gelu"}, "hidden_act"),
        ("audio_config", {"head_dim": 7}, "head_dim"),
        ("text_config", {"num_key_value_heads": 3}, "num_key_value_heads"),
        ("text_config", {"rope_parameters": {"rope_type": "yarn"}}, "rope_type"),
        ("text_config", {"rope_scaling": {"type": "linear"}}, "rope_type"),
        ("text_config", {"num_hidden_layers": 2}, "unexpected tensors"),
        ("", {"downsample_factor": 2}, "audio_length_per_tok"),
        ("", {"projector_hidden_act": "silu"}, "projector_hidden_act"),
        ("", {"text_config": 3}, "text_config"),
    ],
)
def test_what_cannot_be_served_is_named(
    tmp_path: Path, part: str, changes: dict[str, Any], named: str
) -> None:
    build_random_voxtral(tmp_path)
    path = tmp_path / "config.json"
    told = json.loads(path.read_text())
    (told[part] if part else told).update(changes)
    path.write_text(json.dumps(told))
    with pytest.raises(CheckpointError, match=named):
        VoxtralModel.from_folder(tmp_path)
