"""Whole models on the kernels: torch's logits and torch's words, with graphs and overlap too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookhear.engine.checkpoints.hub import resolve_checkpoint
from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import AppendAudio, EndTurn, StartTurn, TranscribeFile
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.models.qwen3_omni import Qwen3OmniModel
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.moonshine.model import MoonshineModel
from lookhear.engine.paged.request import Medium
from lookhear.engine.transducer.encoder import Piece
from lookhear.engine.transducer.model import TransducerModel
from lookhear.engine.whisper.model import WhisperModel
from lookhear.kernels import log_mel, mel_filters
from tests.engine import playing
from tests.engine.batches import paged_batch
from tests.engine.chat import asking
from tools.random_checkpoints.moonshine import build_random_moonshine
from tools.random_checkpoints.qwen3 import EXPERTS, TEXT, build_random_qwen3
from tools.random_checkpoints.qwen3_omni import build_random_qwen3_omni
from tools.random_checkpoints.qwen3_vl import build_random_qwen3_vl
from tools.random_checkpoints.transducer import build_random_transducer
from tools.random_checkpoints.whisper import build_random_whisper

pytestmark = pytest.mark.gpu

Sized = Callable[[int, int], int]
Chooser = Callable[[bool], None]
SENTENCE = "Remind Alice to open the door in five minutes."
TOLERANCE = 2e-3  # float32, relative to logits above 1: sums in another order, layer after layer


def speech() -> NDArray[np.float32]:
    """SENTENCE, 16 kHz."""
    held = np.load(Path(__file__).parent / "hello.npz")["samples"]
    samples: NDArray[np.float32] = (held / 32_768).astype(np.float32)
    return samples


def compare(
    triton_is: Chooser, errors: Any, outcome: Callable[[], tuple[Sequence[Tensor], list[int]]]
) -> None:
    """outcome: numbers, and tokens chosen by them."""
    triton_is(False)
    theirs, their_tokens = outcome()
    triton_is(True)
    ours, our_tokens = outcome()
    for mine, exact in zip(ours, theirs, strict=True):
        errors.close(mine.float(), exact.float(), TOLERANCE)
    assert our_tokens == their_tokens


def continued(
    decoder: Qwen3Model,
    first: Tensor,
    steps: int,
    added: tuple[Tensor, Tensor] | None = None,
    positions: Tensor | None = None,
) -> tuple[list[Tensor], list[int]]:
    """Greedy decoding behind a prompt, beside another row that is a token ahead."""
    device, n = decoder.device, len(first)
    blocks = (n + steps) // 16 + 2
    cache = decoder.new_cache(2 * blocks + 1)
    tables = [list(range(1, blocks + 1)), list(range(2 * blocks, blocks, -1))]
    twice = torch.cat([first, first])
    if added is not None:
        added = (torch.cat([added[0], added[0] + n]), torch.cat([added[1], added[1]]))
    both = None if positions is None else torch.cat([positions, positions], dim=1)
    batch = paged_batch(tables, [0, 0], [n, n], positions=both, device=device)
    hidden = decoder.forward(twice, batch, cache, added)
    logits = [decoder.logits(hidden[[n - 1, 2 * n - 1]])]
    tokens: list[int] = []
    last = 0 if positions is None else int(positions.max()) + 1 - n
    for step in range(steps):
        chosen = logits[-1].argmax(-1)
        tokens += chosen.tolist()
        place = torch.full((2,), n + step + last, device=device)
        at = place if positions is None else place.expand(3, 2)
        batch = paged_batch(tables, [n + step] * 2, [1, 1], positions=at, device=device)
        logits.append(decoder.logits(decoder.forward(chosen, batch, cache)))
    return logits, tokens


def whisper_outcome(model: WhisperModel, mel: Tensor, steps: int) -> tuple[list[Tensor], list[int]]:
    encoded = model.encode(mel.to(model.dtype))
    own, audio = model.new_self_cache(len(mel)), model.new_cross_cache(len(mel))
    slots = [audio.allocate() or 0 for _ in mel]
    audio.write(slots, model.project_cross(encoded), [encoded.shape[1]] * len(mel))
    rows = torch.arange(1, len(mel) + 1, device=model.device)
    where = torch.tensor(slots, device=model.device)
    vocab = model.dims.vocab
    tokens = torch.tensor([[vocab - 1, vocab // 2, 1]], device=model.device).expand(len(mel), 3)
    past, numbers, chosen = torch.zeros_like(rows), [encoded], []
    for _ in range(steps):
        queries = tokens.shape[1]
        places = past[:, None] + torch.arange(queries, device=model.device)
        counts = torch.full_like(rows, queries)
        hidden = model.decode(tokens, places, rows, past, counts, where, own, audio)
        logits = model.logits(hidden[:, -1])
        # Ids that a small head leaves out are -inf in both.
        numbers.append(logits.clamp(min=-1e4))
        past = past + queries
        tokens = logits.argmax(-1)[:, None]
        chosen += tokens.flatten().tolist()
    return numbers, chosen


@pytest.mark.parametrize("name", ["demo-whisper", "random"])
def test_whisper(
    name: str,
    device: torch.device,
    sized: Sized,
    errors: Any,
    triton_is: Chooser,
    tmp_path: Path,
) -> None:
    if name == "random":
        build_random_whisper(
            tmp_path, layers=(2, 2), width=160, heads=2, mels=128, vocab=1000, tokenizer=False
        )
    folder = tmp_path if name == "random" else resolve_checkpoint(name)
    model = WhisperModel.from_folder(folder, device=device)
    window = np.zeros((2, sized(480_000, 16_000)), np.float32)
    clip = speech()[: window.shape[1]]
    window[0, : len(clip)], window[1, : len(clip)] = clip, clip[::-1] * 0.1
    filters = mel_filters(model.dims.num_mels).to(device)

    def outcome() -> tuple[list[Tensor], list[int]]:
        mel = log_mel(torch.from_numpy(window).to(device), filters)
        return whisper_outcome(model, mel, sized(24, 2))

    compare(triton_is, errors, outcome)


@pytest.mark.parametrize("experts", [{}, EXPERTS], ids=["dense", "experts"])
def test_qwen3(
    experts: dict[str, Any],
    device: torch.device,
    sized: Sized,
    errors: Any,
    triton_is: Chooser,
    tmp_path: Path,
) -> None:
    build_random_qwen3(tmp_path / "model", num_hidden_layers=2, **experts)
    model = Qwen3Model.from_folder(tmp_path / "model", device=device)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(TEXT["vocab_size"], (sized(123, 21),), generator=generator).to(device)
    compare(triton_is, errors, lambda: continued(model, tokens, sized(24, 2)))


def test_qwen3_asr(device: torch.device, sized: Sized, errors: Any, triton_is: Chooser) -> None:
    model = Qwen3AsrModel.from_folder(resolve_checkpoint("demo-qwen3-asr"), device=device)
    samples = torch.from_numpy(speech())[None]
    mel = log_mel(samples, mel_filters(model.encoder.dims.num_mels))[0].to(device)
    if device.type == "cpu":
        mel = mel[:, :150]

    def outcome() -> tuple[list[Tensor], list[int]]:
        one, two = model.encoder.encode_windows([mel, mel[:, :123]])
        head = torch.arange(9, device=device)
        inputs = torch.cat([model.decoder.embed(head), one])
        logits, tokens = continued(model.decoder, inputs, sized(24, 2))
        return [one, two, *logits], tokens

    compare(triton_is, errors, outcome)


@pytest.mark.parametrize("name", ["demo-qwen3-vl", "random"])
def test_qwen3_vl(
    name: str,
    device: torch.device,
    sized: Sized,
    errors: Any,
    triton_is: Chooser,
    tmp_path: Path,
) -> None:
    if name == "random":
        build_random_qwen3_vl(tmp_path)
    folder = tmp_path if name == "random" else resolve_checkpoint(name)
    model = Qwen3VLModel.from_folder(folder, device=device)
    factor = model.encoder.dims.factor
    generator = torch.Generator().manual_seed(0)
    high, wide = sized(7, 2) * factor, sized(5, 3) * factor
    pictures = [
        torch.randn(1, 3, *size, generator=generator)
        for size in ((high, wide), (factor, 2 * factor))
    ]

    def outcome() -> tuple[list[Tensor], list[int]]:
        rows = model.encoder.encode(pictures)
        medium = model.medium(pictures[0].numpy())
        head = torch.arange(5 + medium.num_tokens, device=device) % 50
        places = torch.arange(3, 3 + medium.num_tokens, device=device)
        inputs, added = model.embed(head, places, rows[0])
        at = torch.from_numpy(model.positions(len(head), [(3, medium)]).read(0, len(head)))
        logits, tokens = continued(model.decoder, inputs, sized(24, 2), added, at.to(device))
        return [*rows, *logits], tokens

    compare(triton_is, errors, outcome)


def test_qwen3_omni(
    device: torch.device, sized: Sized, errors: Any, triton_is: Chooser, tmp_path: Path
) -> None:
    """A picture, the slices of a video and a sound in one prompt."""
    build_random_qwen3_omni(tmp_path)
    model = Qwen3OmniModel.from_folder(tmp_path, device=device)
    sight, factor = model.sight, model.sight.encoder.dims.factor
    rng = np.random.default_rng(0)

    def seen(frames: int, height: int, width: int, time: int = 0) -> Medium:
        size = (frames, 3, height * factor, width * factor)
        return sight.medium(rng.normal(size=size).astype(np.float32))._replace(time=time)

    ears = model.ears.dims
    frames = sized(190, 60)
    mel = rng.normal(size=(ears.num_mels, frames)).astype(np.float32)
    media: list[tuple[int, Medium]] = []
    end = 3
    for medium, gap in (
        (seen(1, sized(7, 2), 3), 2),
        (seen(2, 2, 3), 0),
        (seen(2, 2, 3, time=13), 2),
        (Medium.of(mel, ears.num_tokens(frames)), 4),
    ):
        media.append((end, medium))
        end += medium.num_tokens + gap
    tokens = torch.arange(end, device=device) % 50
    places = torch.cat([torch.arange(a, a + m.num_tokens) for a, m in media]).to(device)

    def outcome() -> tuple[list[Tensor], list[int]]:
        rows = model.encode([medium for _, medium in media])
        inputs, added = sight.embed(tokens, places, torch.cat(rows))
        at = torch.from_numpy(model.positions(end, media).read(0, end)).to(device)
        logits, chosen = continued(model.decoder, inputs, sized(24, 2), added, at)
        return [*rows, *logits], chosen

    compare(triton_is, errors, outcome)


def test_moonshine(
    device: torch.device, sized: Sized, errors: Any, triton_is: Chooser, tmp_path: Path
) -> None:
    """Heads of 36, of which 32 are turned, as the published ones have them."""
    width = sized(288, 72)
    build_random_moonshine(
        tmp_path,
        hidden_size=width,
        encoder_num_attention_heads=width // 36,
        decoder_num_attention_heads=width // 36,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.9},
    )
    model = MoonshineModel.from_folder(tmp_path, device=device)
    samples = torch.from_numpy(speech()[: sized(160_000, 12_000)]).to(device)

    def outcome() -> tuple[list[Tensor], list[int]]:
        encoded = model.encode(samples)
        own, cross = model.new_self_cache(1), model.new_cross_cache(1, len(encoded))
        row, slot = (torch.tensor([c.allocate() or 0], device=device) for c in (own, cross))
        cross.write([int(slot)], model.project_cross(encoded), [len(encoded)])
        tokens = torch.tensor([[model.dims.start, 9, 40]], device=device)
        past, numbers, chosen = torch.zeros_like(row), [encoded], []
        for _ in range(sized(24, 3)):
            counts = torch.full_like(row, tokens.shape[1])
            hidden = model.decode(tokens, row, past, counts, slot, own, cross)
            numbers.append(model.logits(hidden[:, -1]))
            past = past + counts
            tokens = numbers[-1].argmax(-1)[:, None]
            chosen.append(int(tokens))
        return numbers, chosen

    compare(triton_is, errors, outcome)


def test_transducer(
    device: torch.device, sized: Sized, errors: Any, triton_is: Chooser, tmp_path: Path
) -> None:
    """In chunks of the published size, beside another recording that is at another chunk."""
    heads = sized(8, 2)
    build_random_transducer(
        tmp_path,
        encoder={"hidden_size": 64 * heads, "intermediate_size": 128 * heads,
                 "num_attention_heads": heads, "sliding_window": 71},
        decoder_hidden_size=sized(640, 48),
    )  # fmt: skip
    model = TransducerModel.from_folder(tmp_path, device=device)
    chunk, count = sized(14, 2), sized(10, 3)
    size = 8 * chunk
    drawn = torch.randn(2, count * size - 7, model.dims.encoder.num_mels)
    frames = (drawn * 0.5 - 4.3).to(device)

    def outcome() -> tuple[list[Tensor], list[int]]:
        states = [model.encoder.begin(chunk) for _ in frames]
        written = [model.predictor.begin() for _ in frames]
        numbers, chosen = [], []
        for turn in range(count + 1):
            here = [row for row in range(2) if 0 <= turn - row < count]
            pieces = []
            for row in here:
                index = turn - row
                first = max(0, index * size - 7)
                part = frames[row, first : (index + 1) * size - 7]
                pieces.append(Piece(states[row], part, is_last=index == count - 1))
            places, left = model.encode(pieces, chunk)
            for row, state in zip(here, left, strict=True):
                states[row] = state
            for text in model.predictor.write([written[row] for row in here], places):
                chosen += text.tokens
            numbers += places
        return numbers, chosen

    compare(triton_is, errors, outcome)


# --- whole engines -------------------------------------------------------------------------------


def heard(core: EngineCore) -> list[tuple[str, ...]]:
    """Three people at once, one of them with a file."""
    clip = speech()
    scripts = []
    for name, gain in (("a", 1.0), ("b", 0.5)):
        messages: list[Any] = [StartTurn(name, "t", playing.wanted(language="en"))]
        for start in range(0, len(clip), 16_000):
            part = clip[start : start + 16_000] * np.float32(gain)
            messages.append(AppendAudio(name, "t", part, start + len(part)))
        scripts.append([*messages, EndTurn(name, "t")])
    scripts.append([TranscribeFile("f", playing.wanted(language="en"), clip)])
    events = playing.play(core, *scripts)
    return [playing.outcome(events, name)[-1:] for name in ("a", "b", "f")]


def answered(core: EngineCore) -> list[tuple[str, ...]]:
    core.submit(asking.hold("p", 0, height=96, width=128))
    questions = ["What colour is it?", "How many things are there?", "Describe the picture."]
    for number, question in enumerate(questions):
        message = asking.user(asking.image("p"), question)
        core.submit(asking.ask(message, answer=f"a{number}", max_tokens=16))
    events = asking.rest(core)
    return [(asking.text(events, f"a{number}"),) for number in range(len(questions))]


WAYS: list[tuple[str, bool, dict[str, object]]] = [
    ("torch, eager", False, {"cuda_graphs": "off"}),
    ("Triton, eager", True, {"cuda_graphs": "off"}),
    ("Triton, overlapped", True, {"cuda_graphs": "off", "overlap": 1}),
    ("Triton, graphs", True, {}),
    ("Triton, graphs, overlapped", True, {"overlap": 1}),
]


@pytest.mark.parametrize(
    ("name", "ask"),
    [("demo-whisper", heard), ("demo-qwen3-asr", heard), ("demo-qwen3-vl", answered)],
)
def test_engines_say_the_same_whatever_carries_their_steps_out(
    name: str,
    ask: Callable[[EngineCore], list[tuple[str, ...]]],
    device: torch.device,
    triton_is: Chooser,
    record_property: Callable[[str, object], None],
) -> None:
    if device.type == "cpu":
        pytest.skip("minutes under the interpreter; `tests/engine` plays the same on torch")
    said: dict[str, list[tuple[str, ...]]] = {}
    for way, has_triton, changes in WAYS:
        triton_is(has_triton)
        core = playing.make_core(
            Path(name), device="cuda", dtype="float32", served_name="m", **changes
        )
        said[way] = ask(core)
        graphs = {k: v for k, v in core.stats().items() if "graph" in k or "eager" in k}
        record_property(f"{way}: passes", str(graphs))
        del core
    record_property("said", " | ".join(text for (text,) in said["torch, eager"]))
    for way, texts in said.items():
        assert texts == said["torch, eager"], way
    if name != "demo-qwen3-vl":
        assert said["torch, eager"][0][0].strip() == SENTENCE
