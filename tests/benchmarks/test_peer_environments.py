"""The recipes of the peers' environments, checkpoints in their formats, and our own engine."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers.checkpoints import (
    DEMO_WHISPER,
    FIRST_SPECIAL,
    alignment_heads,
    ctranslate2_folder,
    tiktoken_folder,
)
from benchmarks.peers.environments import (
    INGREDIENTS,
    Environment,
    Recipe,
    environment,
    main,
)
from benchmarks.peers.files import OFFLINE
from benchmarks.peers.lookhear_engine import load_reader
from benchmarks.peers.servers import PEERS
from benchmarks.peers.worker import Options, Read
from lookhear.bench.measures.trace import RATE
from lookhear.bench.recordings.dataset import DATA, Audio, held_out
from lookhear.bench.recordings.sounds import NOBODY
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.errors import NotInstalled, SourceError, UsageError
from lookhear.media.audio.resample import resample
from lookhear.wer import word_errors


def test_every_recipe_is_exact_and_every_peer_has_one() -> None:
    for name in INGREDIENTS:
        versions = environment(name).versions
        assert versions["faster-whisper"] == "1.2.1", name
    assert environment("whisperlivekit").versions["whisperlivekit"] == "0.2.26"
    assert environment("whisperlive").versions["whisper-live"] == "0.10.0"
    live = {peer.environment for peer in PEERS.values()}
    files = {peer.environment for peer in OFFLINE.values()}
    assert (live | files) - {None} == set(INGREDIENTS)


def test_recipes_name_one_version_of_what_they_share() -> None:
    pins: dict[str, set[str]] = {}
    for name in INGREDIENTS:
        for package, version in environment(name).versions.items():
            pins.setdefault(package, set()).add(version)
    assert {package: found for package, found in pins.items() if len(found) > 1} == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("torch>=2\n", "recipe.txt:1: expected NAME==VERSION, got 'torch>=2'"),
        ("# fine\na==1\n\nb\n", "recipe.txt:4: expected NAME==VERSION"),
        ("a==1\nA==2\n", "recipe.txt:2: A is there twice"),
    ],
)
def test_a_recipe_that_is_not_exact_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "recipe.txt").write_text(text)
    with pytest.raises(ValueError, match=problem):
        Recipe.read("recipe", tmp_path)


def test_comments_and_options_are_not_pins(tmp_path: Path) -> None:
    lines = "# why\n--extra-index-url https://example.org/whl\ntorch==2.13.0+cpu  # small\n"
    (tmp_path / "recipe.txt").write_text(lines)
    assert Recipe.read("recipe", tmp_path).pins == {"torch": "2.13.0+cpu"}


def test_an_environment_that_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(NotInstalled, match="peers install whisperlive"):
        environment("whisperlive", tmp_path).require()
    with pytest.raises(UsageError, match="'whisper'"):
        environment("whisper")


def test_the_command_says_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "whisperlive"]) == 0
    assert capsys.readouterr().out.startswith("whisperlive: ")
    with pytest.raises(UsageError, match="expected one of faster-whisper"):
        main(["list", "nobody"])


def test_a_changed_recipe_makes_an_environment_old(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("a==1\n")
    there = Environment("x", tmp_path, (Recipe.read("r", tmp_path),))
    assert not there.installed
    (tmp_path / "installed").write_text(there._digest())
    assert there.installed and there.require() is there
    (tmp_path / "r.txt").write_text("a==2\n")
    assert not there.installed


def test_alignment_heads_are_written_as_whisper_reads_them(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"decoder_layers": 2, "decoder_attention_heads": 3})
    )
    generation = tmp_path / "generation_config.json"
    generation.write_text(json.dumps({"alignment_heads": [[0, 2], [1, 0]]}))
    dump = alignment_heads(tmp_path)
    assert dump is not None
    mask = np.frombuffer(gzip.decompress(base64.b85decode(dump)), dtype=bool).reshape(2, 3)
    assert mask.tolist() == [[False, False, True], [True, False, False]]
    generation.write_text("{}")
    assert alignment_heads(tmp_path) is None


def test_the_demo_names_its_heads() -> None:
    assert alignment_heads(DEMO_WHISPER) is not None


def test_the_vocabulary_is_written_as_openai_whisper_reads_it(tmp_path: Path) -> None:
    folder = tiktoken_folder(DEMO_WHISPER, tmp_path)
    lines = (folder / "assets" / "multilingual.tiktoken").read_text("ascii").splitlines()
    pieces = [base64.b64decode(line.split()[0]) for line in lines]
    assert [int(line.split()[1]) for line in lines] == list(range(FIRST_SPECIAL))
    assert len(set(pieces)) == FIRST_SPECIAL
    assert {bytes([byte]) for byte in range(256)} <= set(pieces)
    tokenizer = WhisperTokenizer.from_folder(DEMO_WHISPER)
    text = " Turn the lamp in the café on."
    assert b"".join(pieces[token] for token in tokenizer.encode(text)).decode() == text


def test_a_folder_without_weights_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"expected a checkpoint with model.safetensors"):
        ctranslate2_folder(tmp_path, tmp_path)


@pytest.fixture(scope="module")
def read() -> Read:
    return load_reader(Options(str(DEMO_WHISPER), "float32", "en", threads=1))


def test_speech_is_read(read: Read) -> None:
    said = next(utterance for utterance in held_out(DATA) if utterance.language == "en")
    samples = Audio(DATA).of(said).astype(np.float32) / np.float32(32768)
    assert word_errors(said.text, read(resample(samples, RATE, SAMPLE_RATE))).rate <= 0.2


@pytest.mark.parametrize("sound", NOBODY)
def test_where_nobody_speaks_there_is_no_text(read: Read, sound: str) -> None:
    make, level = NOBODY[sound]
    assert read((4 * level * make(4.0, np.random.default_rng(0))).astype(np.float32)) == ""
