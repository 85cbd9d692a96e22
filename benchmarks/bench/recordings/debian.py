"""Packages of Debian as a source of recordings: pinned, checked, kept, unpacked anywhere.

They are data: downloaded by address, never installed, and nothing in them is run.
"""

from __future__ import annotations

import importlib
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookhear.errors import NotInstalled, SourceError
from lookhear.terminal.progress import Report

# The archive of today, and the one that never forgets.
SOURCES = (
    "https://deb.debian.org/debian",
    "https://snapshot.debian.org/archive/debian/20250520T000000Z",
)
ANSWER_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Package:
    """path: in the archive's pool. num_bytes: of the file. licence: what is to be said of it."""

    path: str
    sha256: str
    num_bytes: int
    licence: str

    @property
    def file(self) -> str:
        """Its name."""
        return self.path.rpartition("/")[2].replace("%2b", "+")


def fetch(package: Package, folder: Path, report: Report) -> Path:
    """The package's file in `folder`, downloaded if it is not there whole.

    SourceError names what each source said; then nothing is left behind. NotInstalled.
    """
    pooch: Any = required("pooch")
    pooch.get_logger().setLevel("ERROR")  # progress is ours to tell
    refusals = []
    for source in SOURCES:
        bar = _Bar(package, report)
        try:
            return Path(
                pooch.retrieve(
                    f"{source}/{package.path}",
                    f"sha256:{package.sha256}",
                    fname=package.file,
                    path=folder,
                    downloader=pooch.HTTPDownloader(progressbar=bar, timeout=ANSWER_SECONDS),
                )
            )
        except (OSError, ValueError) as error:  # no way there; another hash
            refusals.append(f"{source}: {str(error).splitlines()[0]}")
    raise SourceError(f"{package.file}: cannot be had: {'; '.join(refusals)}")


def members(path: Path, wanted: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the package's files below one of these folders. NotInstalled."""
    arpy: Any = required("arpy")
    with arpy.Archive(str(path)) as archive:
        archive.read_all_headers()
        name = next(name for name in archive.archived_files if name.startswith(b"data.tar"))
        with tarfile.open(fileobj=archive.archived_files[name]) as files:
            for member in files:
                inside = member.name.removeprefix("./")
                if member.isfile() and inside.startswith(wanted):
                    content = files.extractfile(member)
                    assert content is not None  # it is a file
                    yield inside, content.read()


def required(module: str) -> Any:
    """The library. NotInstalled."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise NotInstalled(
            f'recordings of people need pip install "lookhear[bench]" ({error.name} is missing)'
        ) from None


class _Bar:
    """What pooch tells of a download, as a stage and a share."""

    def __init__(self, package: Package, report: Report) -> None:
        self.total = package.num_bytes
        self._stage, self._report, self._here = f"downloading {package.file}", report, 0

    def update(self, num_bytes: int) -> None:
        self._here += num_bytes
        self._report(self._stage, min(1.0, self._here / self.total))

    def reset(self) -> None:
        self._here = 0

    def close(self) -> None:
        pass
