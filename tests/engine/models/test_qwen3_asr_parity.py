"""Our Qwen3-ASR and transformers' on the same random checkpoints, float32: the same numbers."""

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
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.paged.digests import MediaSpan, block_digests
from lookhear.kernels import log_mel, mel_filters
from tests.engine.models.driving import Decoder
from tools.random_checkpoints.qwen3 import AUDIO_TOKEN, END_TOKENS, build_random_qwen3_asr

TOLERANCE = 1e-4
START = 5  # tokens before the audio

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "untied_head": {"tied_head": False, "seed": 1},
    "other_geometry": {
        "text": {"hidden_size": 40, "num_key_value_heads": 1, "num_hidden_layers": 3},
        "audio": {"output_dim": 40, "n_window_infer": 100, "num_mel_bins": 32},
        "seed": 2,
    },
}


@dataclasses.dataclass(frozen=True)
class Clip:
    """A prompt with audio in it."""

    tokens: Tensor  # [n], placeholders included
    mel: Tensor  # [mels, frames]
    audio: Tensor  # ours, [placeholders, width]


@dataclasses.dataclass(frozen=True)
class Pair:
    ours: Qwen3AsrModel
    theirs: Any

    def clip(self, frames: int, seed: int, tail: int = 7) -> Clip:
        generator = torch.Generator().manual_seed(seed)
        mel = torch.randn(self.ours.encoder.dims.num_mels, frames, generator=generator)
        audio = self.ours.encoder.encode(mel)
        text = torch.randint(140, (START + tail,), generator=torch.Generator().manual_seed(seed))
        placeholders = torch.full((len(audio),), AUDIO_TOKEN)
        return Clip(torch.cat([text[:START], placeholders, text[START:]]), mel, audio)

    def embeddings(self, clip: Clip, first: int, last: int) -> Tensor:
        """Of the prompt's tokens [first, last), as a chunk of it would be embedded."""
        places = (clip.tokens[first:last] == AUDIO_TOKEN).nonzero().squeeze(1)
        rows = places + first - START
        return self.ours.embed(clip.tokens[first:last], places, clip.audio[rows])

    def their_logits(self, clip: Clip, more: list[int] | None = None) -> Tensor:
        """[prompt and more, vocab], no cache."""
        frames = clip.mel.shape[1]
        padded = torch.nn.functional.pad(clip.mel, (0, -frames % 100))
        mask = (torch.arange(padded.shape[1]) < frames).long()
        tokens = torch.cat([clip.tokens, torch.tensor(more or [], dtype=torch.int64)])
        with torch.inference_mode():
            logits: Tensor = self.theirs(
                input_ids=tokens[None],
                input_features=padded[None],
                input_features_mask=mask[None],
                use_cache=False,
            ).logits[0]
        return logits


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp(request.param) / "model"
    theirs = build_random_qwen3_asr(folder, **SHAPES[request.param])
    return Pair(Qwen3AsrModel.from_folder(folder), theirs)


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max().item() <= TOLERANCE
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


@pytest.mark.parametrize("frames", [30, 100, 200, 333])
def test_whole_prompt_at_once(pair: Pair, frames: int) -> None:
    clip = pair.clip(frames, frames)
    whole = pair.embeddings(clip, 0, len(clip.tokens))
    close(Decoder(pair.ours.decoder).step({"a": whole})["a"], pair.their_logits(clip))


def test_prefill_cut_at_every_place_also_inside_audio(pair: Pair) -> None:
    clip = pair.clip(230, 0)
    total = len(clip.tokens)
    theirs = pair.their_logits(clip)
    for cut in range(1, total):
        decoder = Decoder(pair.ours.decoder, shuffle=cut)
        parts = [pair.embeddings(clip, 0, cut), pair.embeddings(clip, cut, total)]
        close(torch.cat([decoder.step({"a": part})["a"] for part in parts]), theirs)


def test_token_by_token(pair: Pair) -> None:
    clip = pair.clip(130, 1)
    decoder = Decoder(pair.ours.decoder)
    parts = [
        decoder.step({"a": pair.embeddings(clip, i, i + 1)})["a"] for i in range(len(clip.tokens))
    ]
    close(torch.cat(parts), pair.their_logits(clip))


def test_greedy_tokens_batched_and_alone(pair: Pair) -> None:
    clips = {"a": pair.clip(210, 3), "b": pair.clip(45, 4, tail=2), "c": pair.clip(100, 5)}
    decoder = Decoder(pair.ours.decoder, shuffle=1)
    feed = {name: pair.embeddings(clip, 0, len(clip.tokens)) for name, clip in clips.items()}
    mine: dict[str, list[int]] = {name: [] for name in clips}
    for _ in range(10):
        for name, logits in decoder.step(feed, padding=3).items():
            mine[name].append(int(logits[-1].argmax()))
        feed = {n: pair.ours.decoder.embed(torch.tensor(t[-1:])) for n, t in mine.items()}
    for name, clip in clips.items():
        alone = Decoder(pair.ours.decoder)
        part, text = pair.embeddings(clip, 0, len(clip.tokens)), list[int]()
        for _ in range(10):
            text.append(int(alone.step({"a": part})["a"][-1].argmax()))
            part = pair.ours.decoder.embed(torch.tensor(text[-1:]))
        assert mine[name] == text
        if AUDIO_TOKEN not in text:  # transformers would take it for a placeholder without audio
            theirs = pair.their_logits(clip, text[:-1])[len(clip.tokens) - 1 :]
            assert theirs.argmax(-1).tolist() == text


def test_a_grown_clip_finds_the_blocks_of_its_closed_windows(pair: Pair) -> None:
    """A live tick: closed windows' audio and keys are those of the tick before, byte for byte."""
    window = pair.ours.encoder.dims.window_frames
    whole = pair.clip(window + 90, 6)
    frozen = pair.ours.encoder.encode_windows([whole.mel[:, :window]])[0]
    closed = len(frozen)

    def tick(open_frames: int) -> Clip:
        mel = whole.mel[:, : window + open_frames]
        audio = torch.cat([frozen, pair.ours.encoder.encode_windows([mel[:, window:]])[0]])
        tail = whole.tokens[START + len(whole.audio) :]
        tokens = torch.cat([whole.tokens[:START], torch.full((len(audio),), AUDIO_TOKEN), tail])
        return Clip(tokens, mel, audio)

    early, late = tick(40), tick(90)

    def digests(clip: Clip, open_window: bytes) -> list[bytes]:
        spans = [
            MediaSpan(b"window 0", START, closed),
            MediaSpan(open_window, START + closed, len(clip.audio) - closed),
        ]
        return block_digests(clip.tokens.tolist(), spans)

    decoder = Decoder(pair.ours.decoder, shuffle=2)
    first = digests(early, b"early")
    decoder.start("early")
    decoder.step({"early": pair.embeddings(early, 0, len(early.tokens))})
    decoder.commit("early", first)
    cached = decoder.start("late", digests(late, b"late"), len(late.tokens))
    assert cached == (START + closed) // 16 * 16
    got = decoder.step({"late": pair.embeddings(late, cached, len(late.tokens))})["late"]
    close(got, pair.their_logits(late)[cached:])
    decoder.finish()


@pytest.mark.parametrize("samples", [16_000, 33_333, 8_000 + 159])
def test_from_samples_to_logits(pair: Pair, samples: int) -> None:
    """Log-mel, number of placeholders and embeddings of the checkpoint's own feature extractor."""
    from transformers import Qwen3ASRFeatureExtractor

    mels = pair.ours.encoder.dims.num_mels
    wave = torch.randn(samples, generator=torch.Generator().manual_seed(samples)) * 0.1
    extractor: Any = Qwen3ASRFeatureExtractor
    inputs = extractor(feature_size=mels)(
        [wave.numpy()], sampling_rate=16_000, padding="longest", return_attention_mask=True
    )
    with torch.inference_mode():
        theirs = pair.theirs.get_audio_features(
            inputs["input_features"], inputs["attention_mask"]
        ).pooler_output
    ours = pair.ours.encoder.encode(log_mel(wave[None], mel_filters(mels))[0])
    assert len(ours) == pair.ours.encoder.dims.num_tokens(samples // 160)
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max().item() <= TOLERANCE


def test_a_placeholder_id_that_was_generated_is_an_ordinary_token(pair: Pair) -> None:
    tokens = torch.tensor([3, AUDIO_TOKEN, 4])
    none = torch.empty(0, pair.ours.decoder.dims.width)
    embedded = pair.ours.embed(tokens, torch.empty(0, dtype=torch.int64), none)
    assert torch.equal(embedded, pair.ours.decoder.weights.tokens[tokens])


def test_audio_that_does_not_fit_its_placeholders_is_our_bug(pair: Pair) -> None:
    with pytest.raises(AssertionError):
        pair.ours.embed(torch.tensor([AUDIO_TOKEN]), torch.tensor([0]), torch.zeros(2, 32))


def test_bfloat16_stays_close(tmp_path: Path) -> None:
    build_random_qwen3_asr(tmp_path)
    exact = Qwen3AsrModel.from_folder(tmp_path)
    short = Qwen3AsrModel.from_folder(tmp_path, dtype=torch.bfloat16)
    mel = torch.randn(20, 250, generator=torch.Generator().manual_seed(0))
    audio = [model.encoder.encode(mel) for model in (exact, short)]
    assert audio[1].dtype == torch.bfloat16
    assert (audio[1].float() - audio[0]).norm() <= 0.05 * audio[0].norm()
    logits = [
        Decoder(model.decoder).step({"a": rows})["a"]
        for model, rows in zip((exact, short), audio, strict=True)
    ]
    assert logits[1].dtype == torch.float32
    assert (logits[1] - logits[0]).norm() <= 0.1 * logits[0].norm()


def test_the_original_form_of_a_checkpoint_loads_too(tmp_path: Path) -> None:
    build_random_qwen3_asr(tmp_path / "new")
    new, old = tmp_path / "new", tmp_path / "old"
    old.mkdir()
    config = json.loads((new / "config.json").read_text())
    text = dict(config["text_config"])
    theta = text.pop("rope_parameters")["rope_theta"]
    text["rope_theta"] = theta
    text["rope_scaling"] = {
        "mrope_interleaved": True, "interleaved": True, "mrope_section": [2, 2, 2],
        "rope_type": "default", "type": "default",
    }  # fmt: skip
    thinker = {
        "audio_config": config["audio_config"],
        "text_config": text,
        "audio_token_id": AUDIO_TOKEN,
    }
    outer = {"architectures": ["Qwen3ASRForConditionalGeneration"], "thinker_config": thinker}
    (old / "config.json").write_text(json.dumps(outer))
    renamed = {}
    for name, tensor in load_file(new / "model.safetensors").items():
        name = name.replace("model.language_model.", "thinker.model.")
        name = name.replace("model.audio_tower.", "thinker.audio_tower.")
        name = name.replace("model.multi_modal_projector.linear_", "thinker.audio_tower.proj")
        renamed[name] = tensor
    save_file(
        {**renamed, "thinker.lm_head.weight": torch.zeros(160, 32)}, old / "model.safetensors"
    )
    models = Qwen3AsrModel.from_folder(new), Qwen3AsrModel.from_folder(old)
    assert models[0].end_tokens == END_TOKENS
    assert models[1].end_tokens == (151_643, 151_645)
    assert models[0].num_parameters == models[1].num_parameters
    assert models[1].decoder.dims.rope_sections == (2, 2, 2)
    mel = torch.randn(20, 130, generator=torch.Generator().manual_seed(0))
    rows = [model.encoder.encode(mel) for model in models]
    assert torch.equal(*rows)
    logits = [Decoder(m.decoder).step({"a": r})["a"] for m, r in zip(models, rows, strict=True)]
    assert torch.equal(*logits)


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        (None, {"audio_config": None}, "audio_config: expected an object"),
        (None, {"audio_token_id": 160}, "audio_token_id: expected less than vocab_size"),
        ("audio_config", {"output_dim": 31}, "output_dim: expected the decoder's hidden_size"),
        ("audio_config", {"n_window_infer": 150}, "n_window_infer: expected a multiple"),
        ("audio_config", {"activation_function": "relu"}, "activation_function: expected 'gelu'"),
        ("text_config", {"hidden_act": "gelu"}, "hidden_act: expected 'silu'"),
        ("text_config", {"use_sliding_window": True}, "use_sliding_window: expected false"),
        ("text_config", {"num_key_value_heads": 3}, "num_key_value_heads: expected a divisor"),
        ("text_config", {"num_hidden_layers": 0}, "num_hidden_layers: expected a whole number"),
        ("text_config", {"num_hidden_layers": 1}, "unexpected tensors"),
        ("text_config", {"num_hidden_layers": 3}, "expected a tensor"),
        ("text_config", {"rope_parameters": {"rope_type": "yarn"}}, "rope_type: expected"),
        (
            "text_config",
            {"rope_parameters": {"mrope_section": [2, 2, 2], "rope_type": "default"}},
            "mrope_interleaved: expected true",
        ),
        (
            "text_config",
            {"rope_parameters": {"mrope_section": [9, 2, 2], "interleaved": True}},
            "mrope_section: expected three numbers of sum 6",
        ),
    ],
)
def test_checkpoints_that_cannot_be_served(
    tmp_path: Path, section: str | None, change: dict[str, Any], message: str
) -> None:
    build_random_qwen3_asr(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    (config if section is None else config[section]).update(change)
    path.write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=message):
        Qwen3AsrModel.from_folder(tmp_path)
