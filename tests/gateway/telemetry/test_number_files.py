"""Where a disk is full numbers are dropped, and nobody is killed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lookhear.gateway.telemetry import number_files
from lookhear.gateway.telemetry.metrics import FOLDER_VARIABLE
from lookhear.gateway.telemetry.number_files import FIRST_BYTES, ReservedFile


class Disk:
    """So many bytes are free."""

    def __init__(self, free: int) -> None:
        self.free = free

    def write(self, descriptor: int, data: bytes) -> int:
        taken = min(self.free, len(data))
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.free -= taken
        return WRITE(descriptor, data[:taken])


WRITE = os.write
Open = Callable[[Path], ReservedFile]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk(0)
    monkeypatch.setattr(os, "write", made.write)
    return made


def kept(path: Path) -> dict[str, float]:
    file: Any = ReservedFile
    return {key: value for key, value, *_ in file.read_all_values_from_file(str(path))}


@pytest.fixture
def opened() -> Iterator[Open]:
    files: list[Any] = []

    def open_one(path: Path) -> ReservedFile:
        files.append(ReservedFile(str(path)))
        made: ReservedFile = files[-1]
        return made

    yield open_one
    for file in files:
        file.close()


def test_all_of_a_file_is_on_the_disk(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "counter_1.db"
    file = opened(path)
    for number in range(2 * FIRST_BYTES // 40):
        file.write_value(f"key {number}", number, 0.0)
        found = path.stat()
        assert found.st_blocks * 512 >= found.st_size
    assert found.st_size > FIRST_BYTES
    assert opened(path).read_value("key 7") == (7.0, 0.0)


def test_what_has_no_room_is_dropped_until_there_is(
    tmp_path: Path, opened: Open, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "counter_1.db"
    disk.free = FIRST_BYTES + 1000
    file = opened(path)
    key = "k" * (FIRST_BYTES // 2)
    for end in "abc":
        file.write_value(key + end, 1.0, 0.0)
    assert file.read_value(key + "b") == (0.0, 0.0)
    file.write_value(key + "a", 2.0, 0.0)
    assert kept(path) == {key + "a": 2.0}
    assert path.stat().st_size == FIRST_BYTES
    disk.free = FIRST_BYTES
    file.write_value(key + "b", 3.0, 0.0)
    assert kept(path) == {key + "a": 2.0, key + "b": 3.0}
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("there is no room for numbers, which are dropped: ")


def test_who_gets_no_file_has_no_numbers(tmp_path: Path, opened: Open, disk: Disk) -> None:
    disk.free = 1000
    file = opened(tmp_path / "counter_1.db")
    file.write_value("key", 1.0, 0.0)
    assert file.read_value("key") == (0.0, 0.0)
    assert not os.listdir(tmp_path)


def test_a_file_that_had_no_room_is_made_once_there_is(
    tmp_path: Path, opened: Open, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(number_files, "PAUSE", 0.0)
    path = tmp_path / "counter_1.db"
    file = opened(path)
    file.write_value("key", 1.0, 0.0)
    disk.free = FIRST_BYTES
    file.write_value("key", 2.0, 0.0)
    assert kept(path) == {"key": 2.0} and file.read_value("key") == (2.0, 0.0)


NUMBERS = """
import os, sys
from pathlib import Path
from lookhear.gateway.telemetry.metrics import Metrics

folder = Path(sys.argv[1])
metrics = Metrics(folder)
metrics.turns.labels("completed").inc()
assert 'lookhear_turns_total{outcome="completed"} 1.0' in metrics.render().decode()
sizes = [(file.stat().st_size, file.stat().st_blocks) for file in folder.iterdir()]
assert len(sizes) > 3 and all(blocks * 512 >= size for size, blocks in sizes), sizes
"""


def test_a_workers_numbers_are_kept_in_such_files(tmp_path: Path) -> None:
    """prometheus_client decides when it is imported where they are kept."""
    done = subprocess.run(
        [sys.executable, "-c", NUMBERS, str(tmp_path)],
        env={**os.environ, FOLDER_VARIABLE: str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
