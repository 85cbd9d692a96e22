"""The import graph between rooms, read from the source, and its drawing in docs/architecture.md.

A room is a sub-folder of a package, or a module that lies directly in it. `make rooms` draws the
graph again; tests/test_layers.py holds page and source equal, and finds cycles at every level.
"""

from __future__ import annotations

import ast
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Packages by import name; the last two are the repository's only. The client's folder holds links
# to the others, which are not its own.
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = {
    name: ROOT / folder
    for name, folder in _PROJECT["tool"]["setuptools"]["package-dir"].items()
    if any((ROOT / folder).glob("*.py"))
} | {name: ROOT / name for name in ("benchmarks", "tools")}
PAGE = ROOT / "docs" / "architecture.md"
DRAWN = ("engine", "gateway")
BEGIN, END = "<!-- rooms: written by `make rooms` -->", "<!-- end of rooms -->"

Graph = dict[str, set[str]]


def modules() -> dict[str, Path]:
    """All modules of ours by import name; a package stands for its `__init__.py`."""
    found = {}
    for name, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            if path.resolve().is_relative_to(folder):
                parts = path.relative_to(folder).with_suffix("").parts
                found[".".join((name, *parts)).removesuffix(".__init__")] = path
    return found


def imported(path: Path, *, top_level_only: bool = False) -> Iterator[str]:
    """Full names of the modules that a file imports, and of names that may be modules."""
    tree = _parsed(path)
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def arrows(known: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    """(module, module it imports), both of ours. `from package import module` names the module
    alone: that a package's `__init__.py` runs first is no wish of the importer's."""
    for name, path in known.items():
        wanted = [target for target in imported(path) if target in known]
        for target in wanted:
            is_way = known[target].name == "__init__.py" and any(
                other.startswith(f"{target}.") for other in wanted
            )
            if target != name and not is_way:
                yield name, target


def room(package: str, module: str) -> str | None:
    """The room of a package that a module lies in, None for one of another package."""
    if module == package:
        return "__init__"
    if not module.startswith(f"{package}."):
        return None
    top = module[len(package) + 1 :].partition(".")[0]
    return None if f"{package}.{top}" in PACKAGES else top


def graph(package: str, pairs: Iterable[tuple[str, str]]) -> Graph:
    """Who imports whom among the rooms of one package; its `__init__.py` is a room as well."""
    found: Graph = {}
    for name, target in pairs:
        ours, theirs = room(package, name), room(package, target)
        if ours is None:
            continue
        found.setdefault(ours, set())
        if theirs is not None and theirs != ours:
            found[ours].add(theirs)
            found.setdefault(theirs, set())
    return found


def cycles(rooms: Graph) -> list[list[str]]:
    """Rooms that reach each other, group by group; nothing if the arrows all go one way."""
    reach = {name: _reached(rooms, name) for name in rooms}
    groups = {
        tuple(sorted(other for other in reach[name] if name in reach[other]))
        for name in rooms
        if name in reach[name]
    }
    return [list(group) for group in sorted(groups)]


def _reached(rooms: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    ahead = list(rooms[start])
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            ahead.extend(rooms[name])
    return seen


def tangled(package: str, pairs: Iterable[tuple[str, str]]) -> list[str]:
    """The imports that a package's cycles are made of."""
    pairs = list(pairs)
    groups = cycles(graph(package, pairs))
    return [
        f"{name} -> {target}"
        for name, target in pairs
        for group in groups
        if (ours := room(package, name)) in group
        and (theirs := room(package, target)) in group
        and ours != theirs
    ]


def floors(rooms: Graph) -> list[list[str]]:
    """Rooms by floor, the lowest first: a room stands one floor above the highest it imports.
    Those of a cycle stand side by side."""
    together = {name: set(group) for group in cycles(rooms) for name in group}
    height: dict[str, int] = {}

    def of(name: str) -> int:
        if name not in height:
            group = together.get(name, {name})
            below = {other for member in group for other in rooms[member]} - group
            height[name] = 1 + max(map(of, below), default=-1)
        return height[name]

    found: list[list[str]] = [[] for _ in range(max(map(of, rooms), default=-1) + 1)]
    for name in sorted(rooms):
        found[of(name)].append(name)
    return found


def drawing(title: str, rooms: Graph) -> list[str]:
    """A line per room: its floor, its name, and what it imports."""
    width = max(map(len, rooms))
    lines = [f"{title}/"]
    for number, names in enumerate(floors(rooms)):
        for name in names:
            floor = number if name == names[0] else ""
            below = textwrap.wrap(" · ".join(sorted(rooms[name])), 110 - width)
            lines.append(f"{floor:>3}  {name:{width}}  {below[0] if below else ''}".rstrip())
            lines += [" " * (width + 7) + more for more in below[1:]]
    return lines


def page() -> str:
    """The text of docs/architecture.md with the drawings between its markers made anew."""
    pairs = sorted(arrows(modules()))
    blocks = [
        "\n".join(("```", *drawing(name, graph(f"lookhear.{name}", pairs)), "```"))
        for name in DRAWN
    ]
    text = PAGE.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"{PAGE}: expected {BEGIN!r} and {END!r}"
    return before + begin + "\n\n" + "\n\n".join(blocks) + "\n\n" + end + after


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
