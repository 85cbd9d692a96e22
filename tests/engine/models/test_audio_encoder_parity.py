"""Our audio encoder and transformers' Qwen3-ASR's on the same random checkpoints, float32."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from lookhear.engine.models.audio_encoder import AudioEncoder
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.kernels import pack_conv
from tools.random_checkpoints.qwen3 import build_random_qwen3_asr

TOLERANCE = 1e-4
WINDOW = 200

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "mels_128": {"num_mel_bins": 128, "downsample_hidden_size": 3},
    "odd_mels": {"num_mel_bins": 21, "encoder_layers": 1},
    "one_chunk_windows": {"n_window_infer": 100, "encoder_attention_heads": 4},
    "long_windows": {"n_window_infer": 800, "d_model": 16, "encoder_ffn_dim": 64},
}


@dataclasses.dataclass(frozen=True)
class Pair:
    ours: AudioEncoder
    theirs: Any

    def draw(self, frames: int, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(self.ours.dims.num_mels, frames, generator=generator)

    def their_tokens(self, mel: Tensor) -> Tensor:
        frames = mel.shape[1]
        padded = torch.nn.functional.pad(mel, (0, -frames % self.ours.dims.chunk_frames))
        mask = (torch.arange(padded.shape[1]) < frames).long()
        with torch.inference_mode():
            out = self.theirs.get_audio_features(padded[None], mask[None]).pooler_output
        tokens: Tensor = out
        return tokens


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp(request.param) / "model"
    theirs = build_random_qwen3_asr(folder, audio=SHAPES[request.param])
    return Pair(Qwen3AsrModel.from_folder(folder).encoder, theirs)


@pytest.mark.parametrize("frames", [1, 8, 9, 50, 99, 100, 101, 199, 200, 201, 437, 1000])
def test_whole_audio(pair: Pair, frames: int) -> None:
    mel = pair.draw(frames, frames)
    ours, theirs = pair.ours.encode(mel), pair.their_tokens(mel)
    assert ours.shape == theirs.shape == (pair.ours.dims.num_tokens(frames), 32)
    assert (ours - theirs).abs().max().item() <= TOLERANCE


def test_convolutions_as_on_a_gpu(pair: Pair) -> None:
    mel, weights = pair.draw(150, 0), pair.ours.weights
    convs = tuple((pack_conv(w, channels_last=True), bias) for w, bias in weights.convs)
    turned = AudioEncoder(pair.ours.dims, dataclasses.replace(weights, convs=convs))
    assert (turned.encode(mel) - pair.their_tokens(mel)).abs().max().item() <= TOLERANCE


def test_windows_of_several_sessions_in_one_batch(pair: Pair) -> None:
    longest = pair.ours.dims.window_frames
    windows = [pair.draw(n, n) for n in (longest, 3, 57, 100, longest, 99)]
    batched = pair.ours.encode_windows(windows)
    for window, tokens in zip(windows, batched, strict=True):
        assert (tokens - pair.ours.encode_windows([window])[0]).abs().max().item() <= TOLERANCE
        assert (tokens - pair.their_tokens(window)).abs().max().item() <= TOLERANCE


def test_no_windows_no_tokens(pair: Pair) -> None:
    assert pair.ours.encode_windows([]) == []


@pytest.mark.parametrize("frames", [0, 1])
def test_a_window_of_the_wrong_length_is_our_bug(pair: Pair, frames: int) -> None:
    longest = pair.ours.dims.window_frames
    with pytest.raises(AssertionError):
        pair.ours.encode_windows([pair.draw((longest + 1) * frames, 0)])


def test_tokens_of_closed_windows_are_final(pair: Pair) -> None:
    dims = pair.ours.dims
    closed_frames, closed_tokens = 2 * dims.window_frames, 2 * dims.num_tokens(dims.window_frames)
    mel = pair.draw(closed_frames + 330, 9)
    closed = [pair.ours.encode_windows([w])[0] for w in pair.ours.split(mel)[:2]]
    # A session encodes a window alone when it closes: the same to the last bit, whenever.
    for window, tokens in zip(pair.ours.split(mel), closed, strict=False):
        assert torch.equal(pair.ours.encode_windows([window.clone()])[0], tokens)
    # Other sounds behind them change nothing, to the last bit.
    other = mel.clone()
    other[:, closed_frames:] = pair.draw(330, 10)
    assert torch.equal(
        pair.ours.encode(other)[:closed_tokens], pair.ours.encode(mel)[:closed_tokens]
    )
    # More of them does not either, but for the rounding of a batch of another shape.
    frozen = torch.cat(closed)
    for frames in (0, 1, 90, 250, 330):
        grown = mel[:, : closed_frames + frames]
        tokens = pair.ours.encode(grown)
        assert tokens.shape[0] == dims.num_tokens(grown.shape[1])
        assert (tokens[:closed_tokens] - frozen).abs().max().item() <= 1e-5
        theirs = pair.their_tokens(grown)[:closed_tokens]
        assert (theirs - frozen).abs().max().item() <= TOLERANCE


def test_an_open_window_changes_as_it_grows(pair: Pair) -> None:
    """Why it may not be frozen: even tokens whose frames are all there see what comes later."""
    mel = pair.draw(90, 3)
    early = pair.ours.encode(mel[:, :60])[:5]
    assert (pair.ours.encode(mel)[:5] - early).abs().max().item() > 1e-3


@pytest.mark.parametrize("frames", [0, 1, 7, 8, 9, 99, 100, 101, 799, 800, 801, 6000])
def test_number_of_tokens(pair: Pair, frames: int) -> None:
    from transformers.models.qwen3_asr.modeling_qwen3_asr import _get_feat_extract_output_lengths

    theirs: Any = _get_feat_extract_output_lengths
    assert pair.ours.dims.num_tokens(frames) == int(theirs(torch.tensor(frames)))
