"""The rooms of the Python client import one another in one direction only."""

from __future__ import annotations

from graphlib import TopologicalSorter

from tests.test_layers import FOLDERS, home, imported, sources

CLIENT = FOLDERS["client"]


def rooms() -> dict[str, set[str]]:
    """Whom each room imports. A module directly in `lookhear` is a room of its own."""
    graph: dict[str, set[str]] = {}
    for path in sources("client"):
        room = path.relative_to(CLIENT).with_suffix("").parts[0]
        if room == "__init__":
            continue  # it names all of them, and loads none
        found = {home(module) for module in imported(path, top_level_only=False)}
        others = {name.partition(".")[0] for part, name in filter(None, found) if part == "client"}
        graph.setdefault(room, set()).update(others - {room})
    return graph


def test_the_rooms_form_no_cycle() -> None:
    order = list(TopologicalSorter(rooms()).static_order())
    assert order.index("errors") < order.index("transport") < order.index("live")
    assert order.index("terminal") < order.index("commands")
