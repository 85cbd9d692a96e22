"""The rooms of what only the repository has: who imports whom, without a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def imported_files(path: Path) -> Iterator[Path]:
    """The files below benchmarks/ and tools/ that one of them imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = node.module.replace("lookhear.bench", "benchmarks.bench")
            for name in (module, *(f"{module}.{alias.name}" for alias in node.names)):
                file = ROOT / Path(*name.split(".")).with_suffix(".py")
                if file.is_file() and name.startswith(("benchmarks.", "tools.")):
                    yield file


@pytest.mark.parametrize("folder", ["benchmarks", "tools/recipes/whisper", "tools"])
def test_no_circle(folder: str) -> None:
    """Between rooms; within tools/recipes/whisper between files."""
    graph: dict[Path, set[Path]] = {}
    for path in (ROOT / folder).rglob("*.py"):
        found = set(imported_files(path))
        if folder.count("/") == 2:
            graph.setdefault(path, set()).update(found)
        else:
            graph.setdefault(path.parent, set()).update(f.parent for f in found)
            graph[path.parent].discard(path.parent)
    assert list(TopologicalSorter(graph).static_order())
