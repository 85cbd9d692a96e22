"""Whole runs on an imagined card: they give a CPU's tokens, nothing waits for the device while a
step is launched, nothing of the host is handed to it, and captured regions can be captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from lookhear.engine.eagle3.config import LargeModel
from lookhear.engine.eagle3.head import Eagle3Head
from lookhear.engine.eagle3.passes import HeadPasses
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.models.qwen3_omni import Qwen3OmniModel
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.paged.draft_model import DraftNetwork, ModelDrafter, SmallModel
from lookhear.engine.paged.media import PagedModel
from lookhear.engine.paged.request import Medium
from lookhear.engine.smolvlm.model import SmolVlmModel
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.voxtral_chat.model import VoxtralChatModel
from lookhear.engine.whisper.model import WhisperModel
from lookhear.engine.whisper.runner import WhisperRunner
from tests.engine.imagined.card import Card
from tests.engine.imagined.launches import Launches, imagine, present
from tests.engine.imagined.regions import imagined, serving
from tests.engine.runners import ROWS, paged_runner, whisper_runner
from tests.engine.traces import (
    Played,
    Visit,
    assert_same,
    crop,
    once,
    paged_request,
    paged_trace,
    picture,
    play,
    whisper_trace,
    whole_window,
    window,
)
from tools.random_checkpoints.eagle3 import build_random_eagle3
from tools.random_checkpoints.qwen3 import EXPERTS
from tools.random_checkpoints.qwen3_omni import build_random_qwen3_omni
from tools.random_checkpoints.qwen3_vl import build_random_qwen3_vl
from tools.random_checkpoints.smolvlm import build_random_smolvlm
from tools.random_checkpoints.voxtral_chat import build_random_voxtral_chat
from tools.random_checkpoints.whisper import build_random_whisper

WAYS = [(False, 1), (True, 0), (True, 1)]
IDS = [f"{'graphs' if graphs else 'eager'}, overlap {overlap}" for graphs, overlap in WAYS]


class Device(NamedTuple):
    card: Card
    launches: Launches
    graphs: bool
    overlap: int


@pytest.fixture(params=WAYS, ids=IDS)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    graphs, overlap = request.param
    card, launches = imagine(monkeypatch, in_flight=overlap)
    yield Device(card, launches, graphs, overlap)


def assert_all_compiled(device: Device) -> None:
    """Where there are graphs, no kernel is compiled for somebody who waits for his answer."""
    if device.graphs:
        assert device.launches.late == []


def compiled(device: Device) -> set[str]:
    return {str(variant[0]) for variant in device.launches.variants}


# --- Qwen3-ASR -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asr_on_a_cpu(served_asr: Path) -> Played:
    model = Qwen3AsrModel.from_folder(served_asr)
    return play(paged_runner(model), paged_trace(model), max_rows=ROWS)


def test_speech_of_qwen3(device: Device, served_asr: Path, asr_on_a_cpu: Played) -> None:
    with present(device.card):
        model = Qwen3AsrModel.from_folder(served_asr, device="cuda")
        acceleration = imagined(device.card, graphs=device.graphs, overlap=device.overlap)
        runner = serving(device.card, paged_runner(model, acceleration))
        played = play(runner, paged_trace(model), max_rows=ROWS, overlap=device.overlap)
    assert_same(played, asr_on_a_cpu)
    assert device.launches.num > 1000
    assert (device.card.num["replays"] > 100) == device.graphs
    assert {"_allow_kernel", "_cut_kernel", "_add_kernel"} <= compiled(device)
    assert_all_compiled(device)


# --- Qwen3-VL ------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[{}, EXPERTS], ids=["dense", "experts"])
def vl_folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp("vl")
    build_random_qwen3_vl(folder, seed=5, text=request.param)
    return folder


def vl_trace(model: Qwen3VLModel) -> list[Visit]:
    visits = []
    for i, sizes in enumerate([[(3, 4)], [(5, 2), (2, 6)], [], [(1, 7)], [(4, 4)]]):
        media = [picture(model, 10 * i + j, *size) for j, size in enumerate(sizes)]
        request = paged_request(model, f"r{i}", i, before=4 + 9 * i, media=media)
        visits.append(Visit(f"r{i}", once(request), comes=2 * i))
    return visits


@pytest.fixture(scope="module")
def vl_on_a_cpu(vl_folder: Path) -> Played:
    model = Qwen3VLModel.from_folder(vl_folder)
    parts = 1 + len(model.encoder.dims.deepstack)
    return play(paged_runner(model, parts=parts), vl_trace(model), max_rows=ROWS)


def test_pictures(device: Device, vl_folder: Path, vl_on_a_cpu: Played) -> None:
    with present(device.card):
        model = Qwen3VLModel.from_folder(vl_folder, device="cuda")
        parts = 1 + len(model.encoder.dims.deepstack)
        acceleration = imagined(device.card, graphs=device.graphs, overlap=device.overlap)
        runner = serving(device.card, paged_runner(model, acceleration, parts=parts))
        for budget in (512, 21):  # the second cuts pictures in two
            played = play(
                runner, vl_trace(model), max_rows=ROWS, token_budget=budget, overlap=device.overlap
            )
            assert_same(played, vl_on_a_cpu)
    assert_all_compiled(device)


@pytest.fixture(scope="module")
def head_folder(vl_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("head")
    build_random_eagle3(folder, vl_folder, layers=(0, 1, 2), says=100)
    return folder


@pytest.mark.parametrize("kind", ["head", "small model"])
def test_drafts_by_a_network(
    device: Device, kind: str, vl_folder: Path, head_folder: Path, vl_on_a_cpu: Played
) -> None:
    """Of the same model, or of a head that reads what captured passes have written."""
    with present(device.card):
        model = Qwen3VLModel.from_folder(vl_folder, device="cuda")
        parts = 1 + len(model.encoder.dims.deepstack)
        acceleration = imagined(device.card, graphs=device.graphs, overlap=device.overlap)
        head: Eagle3Head | None = None
        if kind == "head":
            large = LargeModel(vl_folder, (), model.decoder.dims, model.decoder.vocab)
            head = Eagle3Head.from_folder(head_folder, large, model.decoder)
            model.decoder.tap = head.tap
        runner = paged_runner(model, acceleration, parts=parts)
        network: DraftNetwork
        if head is None:
            network = SmallModel(model.decoder, runner.rows, 160)
        else:
            network = HeadPasses(head, runner.cache, runner.rows)
        runner.drafter = ModelDrafter(network, 160)
        serving(device.card, runner)
        played = play(runner, vl_trace(model), max_rows=ROWS, overlap=device.overlap)
    assert_same(played, vl_on_a_cpu)
    stats = runner.stats()
    assert stats["draft_passes"] > 20
    assert (stats["graph_passes"] > 0) == device.graphs


# --- Qwen3-Omni ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def omni_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("omni")
    build_random_qwen3_omni(folder, seed=5)
    return folder


def omni_trace(model: Qwen3OmniModel) -> list[Visit]:
    """Sounds alone, pictures alone, and both."""
    sight = model.sight
    media = [
        [window(model, 1, 130)],
        [picture(sight, 2, 3, 4), window(model, 3, 200), window(model, 4, 30)],
        [picture(sight, 5, 2, 6)],
        [window(model, 6, 90), picture(sight, 7, 4, 4)],
    ]
    visits = []
    for i, held in enumerate(media):
        request = paged_request(model, f"r{i}", i, before=4 + 9 * i, media=held)
        visits.append(Visit(f"r{i}", once(request), comes=2 * i))
    return visits


@pytest.fixture(scope="module")
def omni_on_a_cpu(omni_folder: Path) -> Played:
    model = Qwen3OmniModel.from_folder(omni_folder)
    parts = 1 + len(model.sight.encoder.dims.deepstack)
    return play(paged_runner(model, parts=parts), omni_trace(model), max_rows=ROWS)


def test_pictures_and_sounds(device: Device, omni_folder: Path, omni_on_a_cpu: Played) -> None:
    with present(device.card):
        model = Qwen3OmniModel.from_folder(omni_folder, device="cuda")
        parts = 1 + len(model.sight.encoder.dims.deepstack)
        acceleration = imagined(device.card, graphs=device.graphs, overlap=device.overlap)
        runner = serving(device.card, paged_runner(model, acceleration, parts=parts))
        for budget in (512, 21):  # the second cuts media in two
            trace = omni_trace(model)
            played = play(runner, trace, max_rows=ROWS, token_budget=budget, overlap=device.overlap)
            assert_same(played, omni_on_a_cpu)
    assert_all_compiled(device)


# --- SmolVLM, Voxtral: media of one shape ---------------------------------------------------------


@pytest.fixture(scope="module")
def crops_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("smolvlm")
    build_random_smolvlm(folder, seed=5)
    return folder


@pytest.fixture(scope="module")
def windows_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("voxtral")
    build_random_voxtral_chat(folder, seed=5, audio={"max_source_positions": 20})
    return folder


def alike_trace(
    model: SmolVlmModel | VoxtralChatModel, one: Callable[[int], tuple[int, Medium]]
) -> list[Visit]:
    """More of them in one prompt than a pass takes, and none at all."""
    visits = []
    for i, count in enumerate((3, 0, 17, 1)):
        media = [one(20 * i + j) for j in range(count)]
        request = paged_request(model, f"r{i}", i, before=4 + 9 * i, media=media)
        visits.append(Visit(f"r{i}", once(request), comes=2 * i))
    return visits


# The model on a device, and its trace.
Load = Callable[[str], tuple[PagedModel, Callable[[], list[Visit]]]]


def played_on_a_cpu(load: Load) -> Played:
    model, trace = load("cpu")
    return play(paged_runner(model), trace(), max_rows=ROWS)


def played_alike(device: Device, load: Load, expected: Played) -> None:
    with present(device.card):
        model, trace = load("cuda")
        acceleration = imagined(device.card, graphs=device.graphs, overlap=device.overlap)
        runner = serving(device.card, paged_runner(model, acceleration))
        for budget in (512, 21):  # the second cuts media in two
            overlap = device.overlap
            played = play(runner, trace(), max_rows=ROWS, token_budget=budget, overlap=overlap)
            assert_same(played, expected)
    assert_all_compiled(device)


@pytest.fixture(scope="module")
def crops(crops_folder: Path) -> Load:
    def load(name: str) -> tuple[PagedModel, Callable[[], list[Visit]]]:
        model = SmolVlmModel.from_folder(crops_folder, device=name)
        return model, lambda: alike_trace(model, partial(crop, model))

    return load


@pytest.fixture(scope="module")
def crops_on_a_cpu(crops: Load) -> Played:
    return played_on_a_cpu(crops)


def test_crops(device: Device, crops: Load, crops_on_a_cpu: Played) -> None:
    played_alike(device, crops, crops_on_a_cpu)


@pytest.fixture(scope="module")
def whole_windows(windows_folder: Path) -> Load:
    def load(name: str) -> tuple[PagedModel, Callable[[], list[Visit]]]:
        model = VoxtralChatModel.from_folder(windows_folder, device=name)
        return model, lambda: alike_trace(model, partial(whole_window, model))

    return load


@pytest.fixture(scope="module")
def whole_windows_on_a_cpu(whole_windows: Load) -> Played:
    return played_on_a_cpu(whole_windows)


def test_whole_windows(device: Device, whole_windows: Load, whole_windows_on_a_cpu: Played) -> None:
    played_alike(device, whole_windows, whole_windows_on_a_cpu)


# --- Whisper -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whisper_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whisper")
    return build_random_whisper(folder, layers=2, width=32, heads=2, seed=3)


@pytest.fixture(scope="module")
def whisper_on_a_cpu(whisper_folder: Path) -> Played:
    model = WhisperModel.from_folder(whisper_folder)
    tokenizer = WhisperTokenizer.from_folder(whisper_folder)
    return play(WhisperRunner(model, tokenizer, ROWS), whisper_trace(tokenizer), max_rows=ROWS)


def test_whisper(device: Device, whisper_folder: Path, whisper_on_a_cpu: Played) -> None:
    tokenizer = WhisperTokenizer.from_folder(whisper_folder)
    with present(device.card):
        model = WhisperModel.from_folder(whisper_folder, device="cuda")
        acceleration = imagined(device.card, graphs=device.graphs, overlap=device.overlap)
        runner = serving(device.card, whisper_runner(model, tokenizer, acceleration))
        played = play(runner, whisper_trace(tokenizer), max_rows=ROWS, overlap=device.overlap)
    assert_same(played, whisper_on_a_cpu)
    for key, results in whisper_on_a_cpu.results.items():
        for ours, theirs in zip(played.results[key], results, strict=False):
            assert ours.token_times == theirs.token_times
    assert_all_compiled(device)
