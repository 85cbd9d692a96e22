"""What a sweep measures, point by point, and the file that remembers what was found.

A sweep takes hours and may be stopped at any time: each point is a line of JSON as soon as it is
known, and a sweep that is asked for the same points measures only those that are missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from lookhear.bench.numbers import Json

Kind = Literal["start", "live", "files", "attention"]


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to serve. name: in tables. arguments: of `lookhear serve`; of a server that runs
    already, its address."""

    name: str
    arguments: str

    @classmethod
    def of(cls, text: str) -> Variant:
        """From `NAME=ARGUMENTS`; arguments alone are their own name. A name has no space in it."""
        name, equals, arguments = text.strip().partition("=")
        if equals and name and not name.startswith("-") and " " not in name:
            return cls(name, arguments.strip())
        return cls.unnamed(text)

    @classmethod
    def unnamed(cls, arguments: str) -> Variant:
        """Arguments alone, whatever signs of equality are in them."""
        return cls(arguments.strip() or "default", arguments.strip())


@dataclass(frozen=True, slots=True)
class Point:
    """variant: None where no server is measured. about: what else the numbers depend on: the
    recordings, of files for how many seconds they come, of live sessions the protocol. length:
    seconds of each recording. load: sessions at once, or files a second; what stands for both in
    other kinds is 0."""

    kind: Kind
    variant: Variant | None
    about: str = ""
    length: float = 0.0
    load: float = 0.0

    @property
    def key(self) -> str:
        """The same for the same point; a variant's name is no part of it."""
        told = asdict(self)
        told["variant"] = None if self.variant is None else self.variant.arguments
        return json.dumps(told, sort_keys=True)


class Journal:
    """Of one sweep: a file of lines {point, key, numbers}, and who measured them."""

    def __init__(self, path: Path, about: Json) -> None:
        """about: written with each point: machine, commit, date."""
        self._path = path
        self._about = about
        self._found: dict[str, Json] = {}
        self.num_known = 0  # points that were there before
        if path.is_file():
            self._read(path.read_bytes())
        self.num_known = len(self._found)

    def _read(self, data: bytes) -> None:
        whole = data[: data.rfind(b"\n") + 1]  # a line that was cut off with its writer is none
        for line in whole.splitlines():
            entry = json.loads(line)
            self._found[entry["key"]] = entry
        if len(whole) < len(data):
            with self._path.open("r+b") as file:
                file.truncate(len(whole))

    def has(self, point: Point) -> bool:
        """Whether it was measured."""
        return point.key in self._found

    def entries(self) -> list[Json]:
        """All that is known, in the order in which it was found."""
        return list(self._found.values())

    def numbers(
        self,
        point: Point,
        measure: Callable[[], Json],
        is_kept: Callable[[Json], bool] = lambda numbers: True,
    ) -> Json:
        """Of a point: as they were found, or as `measure` finds them now. is_kept: whether they say
        anything; if not, the point is measured again next time."""
        if (known := self._found.get(point.key)) is not None:
            numbers: Json = known["numbers"]
            return numbers
        numbers = measure()
        if is_kept(numbers):
            entry = {"point": asdict(point), "key": point.key, "numbers": numbers, **self._about}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
            self._found[point.key] = entry
        return numbers
