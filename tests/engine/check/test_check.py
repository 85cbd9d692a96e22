"""`lookhear check`: it agrees with transformers where the two are the same, and says where not."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file, save_file

from lookhear.engine.check import command, parity
from lookhear.engine.check.command import check
from lookhear.engine.check.parity import NotCompared, compare
from lookhear.engine.check.trial import Lived, capacity, hear
from lookhear.engine.checkpoints.hub import resolve_checkpoint
from lookhear.engine.families.registry import family_of
from lookhear.engine.messages import FileTranscribed
from lookhear.engine.whisper.model import WhisperModel
from tests.engine.checkpoints.ctranslate2_folders import write
from tests.engine.models.test_int4 import AWQ, GPTQ, SIZES, stored
from tools.random_checkpoints.diarisation import build_random_diariser
from tools.random_checkpoints.moonshine import build_random_moonshine
from tools.random_checkpoints.parakeet import KINDS, build_random_parakeet
from tools.random_checkpoints.pooling import build_embedder, build_reranker
from tools.random_checkpoints.qwen3 import EXPERTS, build_served_qwen3_asr
from tools.random_checkpoints.qwen3_omni import build_served_qwen3_omni, make_whole
from tools.random_checkpoints.qwen3_vl import build_served_qwen3_vl
from tools.random_checkpoints.smolvlm import build_served_smolvlm
from tools.random_checkpoints.transducer import (
    build_random_multilingual,
    build_random_transducer,
)
from tools.random_checkpoints.voxtral import build_random_voxtral
from tools.random_checkpoints.voxtral_chat import build_random_voxtral_chat
from tools.random_checkpoints.whisper import build_random_whisper


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_random_whisper(tmp_path_factory.mktemp("whisper") / "model", context=96)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seconds of noise."""
    path = tmp_path_factory.mktemp("sound") / "noise.wav"
    soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, 88_200), 44_100)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def noise() -> np.ndarray:
    return np.random.default_rng(0).normal(0, 0.1, 32_000).astype(np.float32)


def test_a_diariser(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = build_random_diariser(tmp_path / "who")
    path = tmp_path / "noise.wav"
    loud = np.repeat(np.random.default_rng(1).uniform(0, 0.3, 20), 8000)
    soundfile.write(path, np.random.default_rng(0).normal(size=160_000) * loud, 16_000)
    assert check([str(folder), "--audio", str(path), "--threads", "1"]) == 0
    out = capsys.readouterr().out
    heads = [line.split(maxsplit=1)[0] for line in out.splitlines()]
    assert heads == ["model", "loaded", "speakers", "file", "memory", "transformers"]
    assert "agrees: 3968 of 3968 answers" in out and "DOES NOT" not in out


def test_one_command(whisper: Path, sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check([str(whisper), "--audio", str(sound), "--threads", "1"]) == 0
    out = capsys.readouterr().out
    heads = [line.split(maxsplit=1)[0] for line in out.splitlines()]
    assert heads == [
        "model", "loaded", "hears", "file", "live", "live", "sessions", "memory", "transformers",
    ]  # fmt: skip
    assert "2.0 s of audio" in out and "agrees: " in out and "DOES NOT" not in out


def test_a_moonshine(tmp_path: Path, sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build_random_moonshine(tmp_path / "model", max_position_embeddings=300)
    assert check([str(tmp_path / "model"), "--audio", str(sound), "--threads", "1"]) == 0
    out = capsys.readouterr().out
    heads = [line.split(maxsplit=1)[0] for line in out.splitlines()]
    assert heads == [
        "model", "loaded", "hears", "file", "live", "live", "sessions", "memory", "transformers",
    ]  # fmt: skip
    assert "(one language)" in out and "agrees: " in out and "DOES NOT" not in out


@pytest.mark.parametrize(
    "build",
    [
        build_random_transducer,
        build_random_multilingual,
        build_random_voxtral,
        *(partial(build_random_parakeet, kind=kind) for kind in KINDS),
    ],
    ids=["transducer", "multilingual", "voxtral", *KINDS],
)
def test_those_with_places_and_steps(
    tmp_path: Path, sound: Path, capsys: pytest.CaptureFixture[str], build: Callable[[Path], object]
) -> None:
    build(tmp_path / "model")
    assert check([str(tmp_path / "model"), "--audio", str(sound), "--threads", "1"]) == 0
    out = capsys.readouterr().out
    heads = [line.split(maxsplit=1)[0] for line in out.splitlines()]
    assert heads == [
        "model", "loaded", "hears", "file", "live", "live", "sessions", "memory", "transformers",
    ]  # fmt: skip
    assert "agrees: " in out and "DOES NOT" not in out


@pytest.mark.parametrize("form", ["huggingface", "ct2"])
def test_every_format_is_compared(whisper: Path, tmp_path: Path, form: str) -> None:
    folder = (
        whisper if form == "huggingface" else resolve_checkpoint(write(tmp_path / "c", whisper))
    )
    found = compare(folder, "WhisperForConditionalGeneration", noise())
    assert found.agrees and found.same == found.tokens > 0


@pytest.mark.parametrize(
    "build",
    [
        build_served_qwen3_asr,
        build_served_qwen3_vl,
        partial(build_served_qwen3_vl, text=EXPERTS),
        partial(build_reranker, **EXPERTS),
        build_served_smolvlm,
    ],
    ids=["asr", "vl", "vl of experts", "experts", "smolvlm"],
)
def test_decoders_are_compared_by_text(tmp_path: Path, build: Callable[[Path], object]) -> None:
    folder = tmp_path / "model"
    build(folder)
    found = compare(folder, family_of(folder)[1], noise())
    assert found.agrees and found.tokens == parity.TOKENS


@pytest.mark.parametrize("settings", [GPTQ, AWQ], ids=["gptq", "awq"])
def test_weights_in_fewer_bits_are_multiplied_out_for_both(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """Without the packages of those who make them."""
    build_reranker(tmp_path, **SIZES)
    drawn = stored(tmp_path, settings)
    assert len(drawn) == 14
    found = compare(tmp_path, "Qwen3ForCausalLM", noise())
    assert found.agrees and found.tokens == parity.TOKENS


def test_an_aligner_is_tried_beside_its_model(
    served_asr: Path, served_aligner: Path, sound: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = ["--audio", str(sound), "--threads", "1", "--aligner", str(served_aligner)]
    assert check([str(served_asr), *usual]) == 0
    lines = {line.split(maxsplit=1)[0]: line for line in capsys.readouterr().out.splitlines()}
    assert {"words", "transformers", "its"} <= lines.keys()
    assert "agrees" in lines["its"] and "times the same" in lines["its"]


def test_times_of_an_aligner_are_compared(served_aligner: Path, tmp_path: Path) -> None:
    for samples in (noise(), noise()[:9_000], noise()[:20_123]):
        found = parity.compare_aligner(served_aligner, samples)
        assert found.agrees and found.same == found.tokens > 20
    config = json.loads((served_aligner / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({"thinker_config": config}))
    with pytest.raises(NotCompared, match="original form"):
        parity.compare_aligner(tmp_path, noise())


def test_an_aligner_is_no_model_and_a_model_no_aligner(
    served_asr: Path,
    served_aligner: Path,
    whisper: Path,
    sound: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    usual = ["--audio", str(sound), "--threads", "1", "--aligner"]
    for argv, message in (
        ([str(served_aligner)], "expected a model that writes text, got an aligner"),
        ([str(served_asr), *usual, str(served_asr)], "expected a Qwen3-ForcedAligner"),
        ([str(whisper), *usual, str(served_aligner)], "expected a Qwen3-ASR beside it"),
    ):
        assert check(argv) == 2
        assert message in capsys.readouterr().err.splitlines()[-1]


def test_what_is_not_the_same_is_told(
    whisper: Path, sound: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that reads one matrix wrong."""
    load = WhisperModel.from_folder

    def spoilt(folder: Path, *, trim_head: bool) -> WhisperModel:
        model = load(folder, trim_head=trim_head)
        model.weights.decoder_positions.mul_(1.5)
        return model

    monkeypatch.setattr(WhisperModel, "from_folder", spoilt)
    found = compare(whisper, "WhisperForConditionalGeneration", noise())
    assert not found.agrees and found.gap > parity.TOLERANCE


def test_not_compared(whisper: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotCompared, match="has no SomethingNew"):
        compare(whisper, "SomethingNew", noise())
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NotCompared, match="not installed"):
        compare(whisper, "WhisperForConditionalGeneration", noise())


def test_exit_status(
    whisper: Path, sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = ["--audio", str(sound), "--threads", "1"]
    assert check([str(whisper), *usual, "--no-compare"]) == 3
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in whisper.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    weights = load_file(broken / "model.safetensors")
    weights["model.encoder.conv1.weight"][0] = torch.nan
    save_file(weights, broken / "model.safetensors")
    (tmp_path / "text.wav").write_text(json.dumps({}))
    odd = tmp_path / os.fsdecode(b"no text \xff.wav")
    odd.write_bytes(sound.read_bytes())
    capsys.readouterr()
    for argv, message in (
        ([str(broken), *usual], "expected finite numbers"),
        (["no/such", *usual[2:], "--audio", str(tmp_path / "text.wav")], "expected a recording"),
        (["no/such", *usual[2:], "--audio", str(tmp_path / "no.wav")], "no.wav, which is no file"),
        (["nothing", *usual[2:], "--audio", str(odd)], "model: expected"),
        ([str(whisper), *usual, "--device", "cuda:9"], "expected a CUDA device"),
    ):
        assert check(argv) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith("lookhear check: ") and message in error


def test_who_reads_no_more_of_it_hears_of_no_failure(
    whisper: Path, sound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def print(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(command, "print", print, raising=False)
    with pytest.raises(BrokenPipeError):  # of which the command makes no message
        check([str(whisper), "--audio", str(sound), "--threads", "1", "--no-compare"])


@pytest.mark.parametrize(("toy", "recording"), [(False, "kennedy.opus"), (True, "hello.opus")])
def test_a_toy_hears_a_synthesiser_and_others_a_person(
    whisper: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    toy: bool,
    recording: str,
) -> None:
    for path in whisper.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "lookhear.json").write_text(json.dumps({"toy": toy}))
    heard = []

    def noted(path: Path) -> np.ndarray:
        heard.append(path)
        return noise()

    monkeypatch.setattr(command, "_recording", noted)
    assert check([str(tmp_path), "--threads", "1", "--no-compare"]) == 3
    assert [path.name for path in heard] == [recording]
    assert heard[0].is_file()


def test_a_file_is_told_where_it_is_loud() -> None:
    class Deaf:
        """Notes what it is asked."""

        has_work = False

        def submit(self, message: object) -> None:
            self.asked = message

        def step(self) -> list[object]:
            return [FileTranscribed("check", "", None, 0.0, [], [], 0)]

    core = Deaf()
    samples = np.concatenate([np.zeros(32_000, np.float32), noise(), np.zeros(16_000, np.float32)])
    hear(core, "m", samples)  # type: ignore[arg-type]
    assert core.asked.speech == [(32_000, 64_000)]  # type: ignore[attr-defined]


def test_capacity_is_where_the_line_meets_the_second() -> None:
    assert capacity(Lived(1, [0.1]), Lived(4, [0.25])) == 19
    assert capacity(Lived(1, [0.1]), Lived(4, [0.1])) == 40
    assert capacity(Lived(1, [1.2]), Lived(4, [4.2])) == 0
    assert capacity(Lived(1, [1.0, 9.0, 1.0]), Lived(4, [4.0])) == 1


@pytest.mark.parametrize("whole", [False, True], ids=["thinker", "whole"])
def test_what_is_seen_and_heard_is_compared(
    tmp_path: Path, sound: Path, capsys: pytest.CaptureFixture[str], whole: bool
) -> None:
    build_served_qwen3_omni(tmp_path / "model", seed=4)
    if whole:
        make_whole(tmp_path / "model")
    assert check([str(tmp_path / "model"), "--audio", str(sound), "--threads", "1"]) == 0
    out = capsys.readouterr().out
    heads = [line.split(maxsplit=1)[0] for line in out.splitlines()]
    assert heads == ["model", "loaded", "asked", "answers", "speed", "memory", "transformers"]
    assert "What do you see and hear? (a red circle beside a blue square) (2.0 s)" in out
    assert "agrees: " in out and "DOES NOT" not in out


def test_what_is_heard_is_compared(
    tmp_path: Path, sound: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_random_voxtral_chat(tmp_path / "model", seed=4)
    assert check([str(tmp_path / "model"), "--audio", str(sound), "--threads", "1"]) == 0
    out = capsys.readouterr().out
    for head in ("model", "loaded", "asked", "answers", "speed", "memory", "transformers"):
        assert f"\n{head} " in f"\n{out}"
    assert "What do you hear? (2.0 s)" in out
    assert "agrees: " in out and "DOES NOT" not in out


def test_what_makes_vectors_and_scores(
    tmp_path: Path, sound: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_embedder(tmp_path / "vectors", seed=1)
    options = ["--audio", str(sound), "--threads", "1"]
    assert check([str(tmp_path / "vectors"), *options]) == 0
    out = capsys.readouterr().out
    assert "of 32 numbers" in out and "scores" in out and "agrees" in out
    build_reranker(tmp_path / "scores", seed=1, labels=1)
    assert check([str(tmp_path / "scores"), *options]) == command.NOT_COMPARED
    out = capsys.readouterr().out
    assert "not compared: it has no head that writes" in out and "scores" in out
