"""What `lookhear models` finds on a machine, in every format that `--model` takes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from huggingface_hub import constants

from lookhear.gateway.catalogue import downloaded, similar

KIND = struct.pack("<IH", 6, 12) + b"WhisperSpec\0"


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """-> folder of all caches"""
    (tmp_path / "hub").mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def keep(caches: Path, repo: str, **files: bytes) -> None:
    """As the hub's library keeps a snapshot."""
    folder = caches / "hub" / f"models--{repo.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    _write(folder / "snapshots" / ("0" * 40), files)


def _write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_bytes(content)


def test_nothing_is_there() -> None:
    assert downloaded() == []


def test_every_format(caches: Path) -> None:
    keep(caches, "openai/whisper-tiny", config_json=b'{"model_type": "whisper"}')
    keep(caches, "Systran/faster-whisper-tiny", config_json=b"{}", model_bin=KIND + bytes(100))
    keep(caches, "some/translator", config_json=b"{}", model_bin=b"\6\0\0\0\x10\0TransformerSpec\0")
    keep(caches, "some/bert", config_json=b'{"model_type": "bert"}')
    packages = caches / "lookhear" / "packages"
    for name in ("openai--whisper-base", "openai--whisper-tiny", ".openai--whisper-x.draft"):
        _write(packages / name, {"model_bin": bytes(1_000_000)})
    _write(caches / "whisper", {"small_pt": bytes(2_000_000), "readme_txt": b""})
    assert sorted(downloaded()) == [
        (f"{caches}/whisper/small.pt", "whisper", "2 MB", "downloaded, openai/whisper"),
        ("Systran/faster-whisper-tiny", "whisper", "120.0", "downloaded, CTranslate2"),
        ("openai/whisper-base", "whisper", "1 MB", "downloaded, package index"),
        ("openai/whisper-tiny", "whisper", "25.0", "downloaded"),
    ]


def test_weights_in_fewer_bits_are_told(caches: Path) -> None:
    for name, settings in (
        ("gptq", b'{"quant_method": "gptq", "bits": 4}'),
        ("aqlm", b'{"quant_method": "aqlm"}'),
        ("none", b"null"),
    ):
        config = b'{"model_type": "qwen3", "quantization_config": ' + settings + b"}"
        keep(caches, f"some/{name}", config_json=config)
    assert {row.name: row.where for row in downloaded()} == {
        "some/gptq": "downloaded, gptq",
        "some/aqlm": "downloaded, aqlm: cannot be read",
        "some/none": "downloaded",
    }


def test_what_was_meant_may_be_any_of_them(caches: Path) -> None:
    keep(caches, "Systran/faster-whisper-tiny", model_bin=KIND)
    assert similar("x" * 300) is None
    assert similar("systran/faster-wisper-tiny") == "Systran/faster-whisper-tiny"
