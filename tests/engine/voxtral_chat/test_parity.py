"""Our Voxtral and transformers' on the same random checkpoints, float32: the same numbers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.digests import block_digests
from lookhear.engine.paged.request import Medium
from lookhear.engine.voxtral_chat.model import VoxtralChatModel
from tests.engine.models.driving import Decoder
from tools.random_checkpoints.voxtral_chat import RESERVED, SPECIAL, build_random_voxtral_chat

TOLERANCE = 1e-4
PAD = SPECIAL["[AUDIO]"]

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "other_geometry": {
        "audio": {
            "hidden_size": 24, "num_attention_heads": 2, "head_dim": 12, "intermediate_size": 48,
            "num_mel_bins": 13, "max_source_positions": 30, "num_hidden_layers": 1,
        },
        "text": {"hidden_size": 32, "num_key_value_heads": 4, "head_dim": 8},
        "seed": 2,
    },
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Scene:
    """A prompt with windows of sound in it."""

    tokens: list[int]
    media: list[tuple[int, Medium]]


@dataclasses.dataclass(frozen=True)
class Pair:
    ours: VoxtralChatModel
    theirs: Any

    def window(self, seed: int) -> Tensor:
        dims = self.ours.dims.audio
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(dims.num_mels, dims.max_frames, generator=generator)

    def scene(self, *texts: int, seed: int = 0) -> Scene:
        """texts: so many tokens each, a window between two of them."""
        generator = torch.Generator().manual_seed(seed)
        tokens: list[int] = []
        media: list[tuple[int, Medium]] = []
        for index, count in enumerate(texts):
            if index:
                medium = self.ours.medium(self.window(100 * seed + index).numpy())
                media.append((len(tokens), medium))
                tokens += [PAD] * medium.num_tokens
            tokens += (RESERVED + torch.randint(200, (count,), generator=generator)).tolist()
        return Scene(tokens, media)

    def embeddings(self, scene: Scene, first: int, last: int) -> Tensor:
        """Of the prompt's tokens [first, last), as a chunk of it would be embedded."""
        inputs = self.ours.decoder.embed(torch.tensor(scene.tokens)).clone()
        rows = self.ours.encode([medium for _, medium in scene.media])
        for (start, medium), own in zip(scene.media, rows, strict=True):
            inputs[start : start + medium.num_tokens] = own
        return inputs[first:last]

    def their_logits(self, scene: Scene, more: list[int] | None = None) -> Tensor:
        """[prompt and more, vocab], no cache."""
        heard = [torch.from_numpy(medium.features) for _, medium in scene.media]
        inputs = {"input_features": torch.stack(heard)} if heard else {}
        with torch.inference_mode():
            logits: Tensor = self.theirs(
                input_ids=torch.tensor([scene.tokens + (more or [])]), **inputs, use_cache=False
            ).logits[0]
        return logits


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp(request.param) / "model"
    theirs = build_random_voxtral_chat(folder, **SHAPES[request.param])
    return Pair(VoxtralChatModel.from_folder(folder), theirs)


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max().item() <= TOLERANCE
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


def test_the_encoder_alone_and_batched(pair: Pair) -> None:
    windows = torch.stack([pair.window(seed) for seed in range(3)])
    with torch.inference_mode():
        theirs = pair.theirs.get_audio_features(windows).pooler_output
    together = pair.ours.ears.encode(windows)
    assert (together.flatten(0, 1) - theirs).abs().max().item() <= TOLERANCE
    for window, rows in zip(windows, together, strict=True):
        medium = pair.ours.medium(window.numpy())
        (alone,) = pair.ours.encode([medium])
        assert alone.shape == (medium.num_tokens, pair.ours.decoder.dims.width)
        assert torch.allclose(alone, rows, atol=1e-5)
    assert pair.ours.encode([]) == []


@pytest.mark.parametrize("texts", [(9,), (3, 5), (2, 0, 1, 4)])
def test_whole_prompt_at_once(pair: Pair, texts: tuple[int, ...]) -> None:
    scene = pair.scene(*texts, seed=3)
    whole = pair.embeddings(scene, 0, len(scene.tokens))
    close(Decoder(pair.ours.decoder).step({"a": whole})["a"], pair.their_logits(scene))


def test_prefill_cut_at_every_place_also_inside_sounds(pair: Pair) -> None:
    scene = pair.scene(3, 1, 4, seed=1)
    total = len(scene.tokens)
    theirs, whole = pair.their_logits(scene), pair.embeddings(scene, 0, total)
    for cut in range(1, total):
        decoder = Decoder(pair.ours.decoder, shuffle=cut)
        parts = [whole[:cut], whole[cut:]]
        close(torch.cat([decoder.step({"a": part})["a"] for part in parts]), theirs)


def test_greedy_tokens_batched_and_alone(pair: Pair) -> None:
    scenes = {"a": pair.scene(4, 3), "b": pair.scene(7, seed=1), "c": pair.scene(1, 0, 5, seed=2)}
    texts: dict[str, list[int]] = {}
    for names in (list(scenes), *([name] for name in scenes)):
        decoder = Decoder(pair.ours.decoder, shuffle=1)
        feed = {n: pair.embeddings(scenes[n], 0, len(scenes[n].tokens)) for n in names}
        mine: dict[str, list[int]] = {name: [] for name in names}
        for _ in range(10):
            for name, logits in decoder.step(feed, padding=3).items():
                mine[name].append(int(logits[-1].argmax()))
            feed = {n: pair.ours.decoder.embed(torch.tensor(t[-1:])) for n, t in mine.items()}
        for name in names:
            assert texts.setdefault(name, mine[name]) == mine[name]
    for name, text in texts.items():
        assert PAD not in text  # transformers would look for another recording
        scene = scenes[name]
        theirs = pair.their_logits(scene, text[:-1])[len(scene.tokens) - 1 :]
        assert theirs.argmax(-1).tolist() == text


def test_cached_and_uncached(pair: Pair) -> None:
    first = pair.scene(5, 20, 6, seed=5)
    changed = dataclasses.replace(first, tokens=[*first.tokens[:-4], 9, 8, 7, 6])
    spans = [medium.span(start) for start, medium in first.media]
    decoder = Decoder(pair.ours.decoder, shuffle=3)
    decoder.step({"first": pair.embeddings(first, 0, len(first.tokens))})
    decoder.commit("first", block_digests(first.tokens, spans))
    total = len(changed.tokens)
    cached = decoder.start("second", block_digests(changed.tokens, spans), total)
    assert cached == (total - 4) // BLOCK_TOKENS * BLOCK_TOKENS > 0
    got = decoder.step({"second": pair.embeddings(changed, cached, total)})["second"]
    close(got, pair.their_logits(changed)[cached:])
    decoder.finish()


def test_bfloat16_stays_close(tmp_path: Path) -> None:
    theirs = build_random_voxtral_chat(tmp_path)
    exact = VoxtralChatModel.from_folder(tmp_path)
    short = VoxtralChatModel.from_folder(tmp_path, dtype=torch.bfloat16)
    assert exact.num_parameters == sum(p.numel() for p in theirs.parameters())
    assert (exact.audio_token, exact.end_tokens) == (PAD, (SPECIAL["</s>"],))
    medium = exact.medium(Pair(exact, None).window(1).numpy())
    (one,), (other,) = exact.encode([medium]), short.encode([medium])
    assert other.dtype == torch.bfloat16
    assert (other.float() - one).norm() <= 0.05 * one.norm()


def test_names_of_either_form_and_what_published_files_leave_out(tmp_path: Path) -> None:
    """As transformers 5 holds them; and what its configuration knows by itself."""
    build_random_voxtral_chat(tmp_path, text={"rope_parameters": None, "rope_theta": 1e8})
    before = VoxtralChatModel.from_folder(tmp_path)
    weights = {}
    for name, weight in load_file(tmp_path / "model.safetensors").items():
        inner = name.replace("language_model.lm_head", "lm_head").replace(
            "language_model.model.", "language_model."
        )
        weights[inner if inner.startswith("lm_head") else f"model.{inner}"] = weight
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    for name in ("rms_norm_eps", "rope_parameters", "eos_token_id"):
        config["text_config"].pop(name)
    (tmp_path / "generation_config.json").unlink(missing_ok=True)
    path.write_text(json.dumps(config))
    after = VoxtralChatModel.from_folder(tmp_path)
    assert after.end_tokens == before.end_tokens and after.dims == before.dims
    scene = Pair(before, None).scene(3, 4)
    logits = []
    for pair in (Pair(before, None), Pair(after, None)):
        whole = pair.embeddings(scene, 0, len(scene.tokens))
        logits.append(Decoder(pair.ours.decoder).step({"a": whole})["a"])
    assert torch.equal(*logits)


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        (None, {"audio_config": None}, "audio_config: expected an object"),
        (None, {"audio_token_id": 9999}, "audio_token_id: expected less than vocab_size"),
        (None, {"projector_hidden_act": "relu"}, "projector_hidden_act: expected 'gelu'"),
        ("audio_config", {"activation_function": "relu"}, "activation_function: expected 'gelu'"),
        ("audio_config", {"intermediate_size": 72}, "intermediate_size: expected hidden_size"),
        ("audio_config", {"num_attention_heads": 5}, "num_attention_heads: expected a divisor"),
        ("audio_config", {"num_hidden_layers": 3}, "expected a tensor audio_tower.layers.2"),
        ("text_config", {"model_type": "qwen2"}, "model_type: expected 'llama'"),
        ("text_config", {"attention_bias": True}, "text_config.attention_bias: expected false"),
    ],
)
def test_checkpoints_that_cannot_be_served(
    tmp_path: Path, section: str | None, change: dict[str, Any], message: str
) -> None:
    build_random_voxtral_chat(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (config if section is None else config[section]).update(change)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=message):
        VoxtralChatModel.from_folder(tmp_path)
