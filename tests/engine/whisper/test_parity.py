"""Our Whisper and transformers' on the same random checkpoints, float32: the same numbers."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from lookhear.engine.whisper.model import WhisperModel
from lookhear.engine.whisper.silence import SILENT_LOG_MEL
from lookhear.kernels import pack_conv
from tools.random_checkpoints.whisper import build_random_whisper

TOLERANCE = 1e-4
FRAMES = 200
VOCAB = 300

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "mels_128": {"mels": 128, "seed": 1},
    "deep_encoder": {"layers": (3, 1), "heads": (4, 1), "seed": 2},
    "turbo_like": {"layers": (4, 2), "width": 48, "heads": (3, 6), "mels": 128, "seed": 3},
    "untied_head": {"tied_head": False, "seed": 4},
    "odd_head_dim": {"width": 36, "heads": 4, "ffn": 50, "seed": 5},
    # transformers reads this flag and never uses it, and no published checkpoint sets it.
    "scaled_embedding": {"config": {"scale_embedding": True}, "seed": 6},
    "packed_head": {"width": 64, "vocab": 7000, "layers": 1, "seed": 7},
}


@dataclasses.dataclass(frozen=True)
class Pair:
    ours: WhisperModel
    theirs: Any
    mel: Tensor  # [batch, mels, frames]
    encoded: Tensor  # theirs, [batch, positions, width]
    vocab: int

    def their_logits(self, row: int, tokens: Tensor) -> Tensor:
        """tokens: [queries]. Returns [queries, vocab], no cache."""
        from transformers.modeling_outputs import BaseModelOutput

        with torch.inference_mode():
            out = self.theirs(
                decoder_input_ids=tokens[None],
                encoder_outputs=BaseModelOutput(self.encoded[row : row + 1]),
                use_cache=False,
            )
        logits: Tensor = out.logits[0]
        return logits


@pytest.fixture(scope="module", params=SHAPES)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    from transformers import WhisperForConditionalGeneration

    options = {
        "vocab": VOCAB, "audio_positions": FRAMES // 2, "context": 40, "tokenizer": False,
        **SHAPES[request.param],
    }  # fmt: skip
    folder = build_random_whisper(tmp_path_factory.mktemp(request.param) / "model", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' own deprecations are not our bugs
        theirs: Any = WhisperForConditionalGeneration.from_pretrained(folder)
    theirs.eval()
    ours = WhisperModel.from_folder(folder)
    generator = torch.Generator().manual_seed(11)
    mel = torch.randn(3, ours.dims.num_mels, FRAMES, generator=generator)
    with torch.inference_mode():
        encoded = theirs.model.encoder(mel).last_hidden_state
    yield Pair(ours, theirs, mel, encoded, ours.dims.vocab)


class Decoder:
    """Drives the model the way an engine does: rows, slots, lengths; poison wherever it may be."""

    def __init__(self, pair: Pair, sequences: int, *, shuffle: int = 0) -> None:
        model = pair.ours
        generator = torch.Generator().manual_seed(shuffle)
        self.model = model
        self.own = model.new_self_cache(sequences + 2)
        self.audio = model.new_cross_cache(sequences + 2)
        self.own.data.fill_(torch.nan)
        self.audio.data.fill_(torch.nan)
        rows = [self.own.allocate() for _ in range(sequences + 2)]
        slots = [self.audio.allocate() for _ in range(sequences + 2)]
        assert None not in rows and None not in slots
        order = torch.randperm(sequences + 2, generator=generator).tolist()
        self.rows = [rows[i] for i in order][:sequences]
        self.slots = [slots[i] for i in reversed(order)][:sequences]
        self.lengths = [0] * sequences

    def hear(self, encoded: Tensor, windows: list[int]) -> None:
        projected = self.model.project_cross(encoded[windows])
        self.audio.write(self.slots, projected, [encoded.shape[1]] * len(windows))

    def step(self, which: list[int], tokens: list[Tensor]) -> list[Tensor]:
        """Feeds tokens[i] to sequence which[i], all in one batch; returns logits of each."""
        counts = [len(t) for t in tokens]
        width = max(counts)
        ids = torch.zeros(len(which), width, dtype=torch.int64)
        positions = torch.zeros_like(ids)
        for i, (sequence, t) in enumerate(zip(which, tokens, strict=True)):
            ids[i, : len(t)] = t
            positions[i, : len(t)] = self.lengths[sequence] + torch.arange(len(t))
        hidden = self.model.decode(
            ids,
            positions,
            torch.tensor([self.rows[s] for s in which]),
            torch.tensor([self.lengths[s] for s in which]),
            torch.tensor(counts),
            torch.tensor([self.slots[s] for s in which]),
            self.own,
            self.audio,
        )
        for sequence, count in zip(which, counts, strict=True):
            self.lengths[sequence] += count
        return [self.model.logits(hidden[i, :n]) for i, n in enumerate(counts)]


def draw_tokens(pair: Pair, count: int, seed: int) -> Tensor:
    return torch.randint(pair.vocab, (count,), generator=torch.Generator().manual_seed(seed))


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max().item() <= TOLERANCE
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


def test_encoder(pair: Pair) -> None:
    ours = pair.ours.encode(pair.mel)
    assert (ours - pair.encoded).abs().max().item() <= TOLERANCE
    alone = torch.cat([pair.ours.encode(pair.mel[i : i + 1]) for i in range(3)])
    assert (alone - pair.encoded).abs().max().item() <= TOLERANCE


def test_encoder_with_convolutions_as_on_a_gpu(pair: Pair) -> None:
    model = pair.ours
    encoder = model.weights.encoder
    convs = (encoder.conv1, encoder.conv2)
    conv1, conv2 = ((pack_conv(w, channels_last=True), bias) for w, bias in convs)
    encoder = dataclasses.replace(encoder, conv1=conv1, conv2=conv2)
    turned = WhisperModel(model.dims, dataclasses.replace(model.weights, encoder=encoder))
    assert (turned.encode(pair.mel) - pair.encoded).abs().max().item() <= TOLERANCE


def test_short_window_takes_the_first_positions(pair: Pair) -> None:
    ours = pair.ours.encode(pair.mel[:, :, :60])
    assert ours.shape == (3, 30, pair.ours.dims.width)
    assert ours.isfinite().all()
    with torch.inference_mode():
        encoder, short = pair.theirs.model.encoder, pair.mel[:, :, :60]
        x = torch.nn.functional.gelu(encoder.conv1(short))
        x = torch.nn.functional.gelu(encoder.conv2(x)).transpose(1, 2)
        x = x + encoder.embed_positions.weight[:30]
        for layer in encoder.layers:
            y = layer(x, None)
            x = y[0] if isinstance(y, tuple) else y
        theirs = encoder.layer_norm(x)
    assert (ours - theirs).abs().max().item() <= TOLERANCE


def test_silence_that_was_read_once_stands_for_silence(pair: Pair) -> None:
    model = pair.ours
    silence = model.encode_silence()
    mel = torch.full((2, model.dims.num_mels, 60), SILENT_LOG_MEL)
    projected = model.project_cross(model.encode(mel, silence))
    for ours, whole in zip(projected, silence.cross, strict=True):
        assert (ours - whole[:, :, :, :30]).abs().max().item() <= TOLERANCE
    for ours, whole in zip(silence.cross_behind(projected), silence.cross, strict=True):
        assert (ours - whole).abs().max().item() <= TOLERANCE


def test_a_full_window_has_no_silence_behind_it(pair: Pair) -> None:
    whole = pair.ours.encode(pair.mel, pair.ours.encode_silence())
    assert torch.equal(whole, pair.ours.encode(pair.mel))


def test_whole_prompt_at_once(pair: Pair) -> None:
    tokens = draw_tokens(pair, 12, 0)
    decoder = Decoder(pair, 1)
    decoder.hear(pair.encoded, [0])
    close(decoder.step([0], [tokens])[0], pair.their_logits(0, tokens))


def test_prefill_cut_at_every_place(pair: Pair) -> None:
    tokens = draw_tokens(pair, 9, 1)
    theirs = pair.their_logits(1, tokens)
    for cut in range(1, 9):
        decoder = Decoder(pair, 1)
        decoder.hear(pair.encoded, [1])
        parts = [decoder.step([0], [part])[0] for part in (tokens[:cut], tokens[cut:])]
        close(torch.cat(parts), theirs)


def test_token_by_token(pair: Pair) -> None:
    tokens = draw_tokens(pair, 10, 2)
    decoder = Decoder(pair, 1)
    decoder.hear(pair.encoded, [2])
    parts = [decoder.step([0], [tokens[i : i + 1]])[0] for i in range(10)]
    close(torch.cat(parts), pair.their_logits(2, tokens))


@pytest.mark.parametrize("shuffle", [0, 1, 2])
def test_batch_of_different_lengths_rows_and_slots(pair: Pair, shuffle: int) -> None:
    texts = [draw_tokens(pair, n, 10 + n) for n in (11, 3, 7, 5)]
    windows = [0, 2, 1, 2]
    theirs = [pair.their_logits(w, t) for w, t in zip(windows, texts, strict=True)]
    decoder = Decoder(pair, 4, shuffle=shuffle)
    decoder.hear(pair.encoded, windows)
    # Sequences join and leave the batch; each step feeds them unequal numbers of tokens.
    got: list[list[Tensor]] = [[] for _ in texts]
    for which, counts in (
        ([0, 2], [4, 1]),
        ([3, 1, 2, 0], [5, 1, 6, 1]),
        ([1, 0], [2, 6]),
    ):
        parts = [
            texts[s][decoder.lengths[s] : decoder.lengths[s] + n]
            for s, n in zip(which, counts, strict=True)
        ]
        for s, logits in zip(which, decoder.step(which, parts), strict=True):
            got[s].append(logits)
    for mine, reference in zip(got, theirs, strict=True):
        close(torch.cat(mine), reference)


def test_greedy_tokens_batched_and_alone(pair: Pair) -> None:
    prompts = [draw_tokens(pair, n, 30 + n) for n in (2, 5, 1)]
    decoder = Decoder(pair, 3)
    decoder.hear(pair.encoded, [0, 1, 2])
    mine = [p.tolist() for p in prompts]
    feed = prompts
    for _ in range(12):
        for s, logits in enumerate(decoder.step([0, 1, 2], feed)):
            mine[s].append(int(logits[-1].argmax()))
        feed = [torch.tensor(text[-1:]) for text in mine]
    for s, prompt in enumerate(prompts):
        text = prompt.tolist()
        for _ in range(12):
            text.append(int(pair.their_logits(s, torch.tensor(text))[-1].argmax()))
        assert mine[s] == text


def test_a_row_that_is_used_again_remembers_nothing(pair: Pair) -> None:
    decoder = Decoder(pair, 1)
    decoder.hear(pair.encoded, [0])
    decoder.step([0], [draw_tokens(pair, 20, 3)])
    decoder.lengths[0] = 0
    decoder.hear(pair.encoded, [1])
    tokens = draw_tokens(pair, 6, 4)
    close(decoder.step([0], [tokens])[0], pair.their_logits(1, tokens))


def test_alignment_weights(pair: Pair) -> None:
    texts = [draw_tokens(pair, n, 50 + n) for n in (8, 5)]
    last = pair.ours.dims.decoder_layers - 1
    heads = [(last, pair.ours.dims.decoder_heads - 1), (0, 0)]
    decoder = Decoder(pair, 2)
    decoder.hear(pair.encoded, [2, 0])
    tokens = torch.zeros(2, 8, dtype=torch.int64)
    for i, text in enumerate(texts):
        tokens[i, : len(text)] = text
    weights = pair.ours.align(
        tokens, torch.tensor([8, 5]), torch.tensor(decoder.slots), decoder.audio, heads=heads
    )
    assert weights.shape == (2, 2, 8, FRAMES // 2)
    pair.theirs.set_attn_implementation("eager")
    for i, window in enumerate([2, 0]):
        with torch.inference_mode():
            out = pair.theirs.model.decoder(
                texts[i][None],
                encoder_hidden_states=pair.encoded[window : window + 1],
                output_attentions=True,
                use_cache=False,
            )
        for j, (layer, head) in enumerate(heads):
            theirs = out.cross_attentions[layer][0, head]
            assert (weights[i, j, : len(texts[i])] - theirs).abs().max().item() <= TOLERANCE
    pair.theirs.set_attn_implementation("sdpa")
