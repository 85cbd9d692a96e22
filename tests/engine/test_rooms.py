"""The folders of the engine are rooms; who imports whom has no cycle, so none needs all others."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

ENGINE = Path(__file__).parents[2] / "engine"
PREFIX = "lookhear.engine."


def rooms() -> dict[str, set[str]]:
    """Room -> rooms it imports, wherever in a file it does; a module beside the rooms is one."""
    graph: dict[str, set[str]] = {}
    for path in ENGINE.rglob("*.py"):
        room = path.relative_to(ENGINE).parts[0].removesuffix(".py")
        imported = graph.setdefault(room, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            imported |= {n.removeprefix(PREFIX).split(".")[0] for n in names if PREFIX in n}
        imported.discard(room)
    return graph


def test_no_room_needs_itself_by_way_of_others() -> None:
    order = list(TopologicalSorter(rooms()).static_order())  # raises CycleError, which names it
    assert order[-1] == "process" and {"messages", "config", "device"} <= set(order[:6])


def test_the_drawing_stays_calm() -> None:
    graph = rooms()
    graph.pop("__init__", None)
    assert len(graph) <= 16 and sum(map(len, graph.values())) <= 55
