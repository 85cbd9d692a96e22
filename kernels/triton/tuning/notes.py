"""The table as it is written: what was chosen, and all that was measured, as it comes."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import triton

from lookhear.kernels.triton.configs import Tile, defaults
from lookhear.kernels.triton.tuning.cases import Case

GAIN = 0.97  # of the default's time, at most: less is noise
TUNING = Path(__file__).resolve().parent
SOURCES = TUNING.parent
Row = dict[str, float]  # milliseconds, by call


@dataclass(slots=True)
class Notes:
    """Of one card, one Triton and these kernels. By case, by tile ("size/warps/stages"):
    milliseconds; refused: why not; registers: of each kernel, with the 4-byte words that spill. By
    case: library: milliseconds by rival; left_out: tiles. under_way: the case and tile that a run
    is at: found in a file, that run did not come back from it."""

    device: str
    torch: str = torch.__version__
    triton: str = triton.__version__
    kernels: str = ""
    date: str = ""
    milliseconds: dict[str, dict[str, Row]] = field(default_factory=dict)
    refused: dict[str, dict[str, str]] = field(default_factory=dict)
    registers: dict[str, dict[str, dict[str, list[int]]]] = field(default_factory=dict)
    library: dict[str, dict[str, Row | str]] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    under_way: tuple[str, str] | None = None

    @classmethod
    def resumed(cls, path: Path, device: str) -> Notes:
        """Those in the file, if they are of the same; else new ones."""
        new = cls(device, kernels=_digest())
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            document.pop("tiles")
            found = cls(**document)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return new
        if found.identity != new.identity:
            return new
        if found.under_way is not None:
            found.refuse(*found.under_way, "a run did not come back from it")
        return found

    @property
    def identity(self) -> tuple[str, ...]:
        """What measurements are of."""
        return self.device, self.torch, self.triton, self.kernels

    def refuse(self, case: str, tile: str, why: str) -> None:
        """It is not measured again."""
        self.refused.setdefault(case, {})[tile] = why
        self.under_way = None

    def measured(self, case: Case, tile: Tile, row: Row, registers: dict[str, list[int]]) -> None:
        """Of one tile, by call."""
        self.milliseconds.setdefault(case.name, {})[name_of(tile)] = row
        self.registers.setdefault(case.name, {})[name_of(tile)] = registers
        self.under_way = None

    def rows(self, case: Case) -> dict[Tile, Row]:
        """What was measured of a case, whole rows only."""
        rows = self.milliseconds.get(case.name, {})
        return {tile: rows[name_of(tile)] for tile in case.tiles if name_of(tile) in rows}

    def todo(self, case: Case) -> list[Tile]:
        """Of a case, what has neither been measured nor refused."""
        seen = {*self.milliseconds.get(case.name, ()), *self.refused.get(case.name, ())}
        return [tile for tile in case.tiles if name_of(tile) not in seen]

    def is_whole(self, case: Case) -> bool:
        """Whether nothing of a case is left to measure."""
        return not self.todo(case) and set(case.rivals) <= set(self.library.get(case.name, ()))

    def best(self, case: Case) -> Tile:
        """The fastest, if it is faster than the default by more than measurements wander."""
        scores = {tile: mean(row) for tile, row in self.rows(case).items()}
        best = min(scores, key=scores.__getitem__, default=case.default)
        if scores.get(case.default, 0.0) * GAIN < scores.get(best, 1.0):
            return case.default
        return best

    def write(self, path: Path, cases: Sequence[Case]) -> None:
        """Whole or not at all. Kernels of which nothing was measured are left to the defaults, and
        so are sizes."""
        self.date = datetime.now(UTC).isoformat(timespec="seconds")
        tiles: dict[str, list[Any]] = {}
        best = {(case.kernel, case.limit): self.best(case) for case in cases if self.rows(case)}
        for kernel in dict.fromkeys(kernel for kernel, _ in best):
            tiles[kernel] = [
                [None if math.isinf(limit) else limit, list(best.get((kernel, limit), default))]
                for limit, default in defaults()[kernel]
            ]
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        document = {"tiles": tiles, **asdict(self)}
        new.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        new.replace(path)


def name_of(tile: Tile) -> str:
    """As it stands in the notes."""
    return f"{tile.size}/{tile.warps}/{tile.stages}"


def mean(row: Row) -> float:
    """Of milliseconds, the geometric one: each call counts alike, however long it takes."""
    return math.exp(sum(map(math.log, row.values())) / len(row))


def _digest() -> str:
    """Of the kernels' sources, in folders, too: others have other times."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*.py")):
        if TUNING not in path.parents:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
