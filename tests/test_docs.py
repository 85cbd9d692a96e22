"""What is written keeps to its width, and names files that are there."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from lookhear.commands import main as cli

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
)
WIDTH = 120
OTHERS = (".venv", ".git", "node_modules")  # folders that are nobody's writing
# Names that stand for a file of the reader's, or for one among several.
EXAMPLES = {"engine/families/NAME.py", "kernels/NAME.py", "kernels/triton/NAME.py"}


@cache
def written() -> frozenset[str]:
    """Every file and folder of the repository, relative to its root."""
    return frozenset(
        str(path.relative_to(ROOT))
        for top in ROOT.iterdir()
        if top.name not in OTHERS
        for path in (top, *(top.rglob("*") if top.is_dir() else ()))
    )


def alternatives(text: str) -> Iterator[str]:
    """a{b,c} -> ab, ac"""
    found = re.search(r"\{([^{}]*,[^{}]*)\}", text)
    if found is None:
        yield text
        return
    for choice in found[1].split(","):
        yield from alternatives(text[: found.start()] + choice + text[found.end() :])


def is_there(name: str) -> bool:
    """A path from the root, or a bare file name that exists somewhere."""
    if "*" in name:
        return any(ROOT.glob(name))
    if "/" in name.rstrip("/"):
        return name.rstrip("/") in written()
    return any(path.rpartition("/")[2] == name.rstrip("/") for path in written())


@pytest.mark.parametrize("page", PAGES)
def test_lines_fit_a_screen(page: str) -> None:
    """Rows of tables and lines that are one link cannot be broken."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    assert not [
        f"{page}:{number}: {len(line)}"
        for number, line in enumerate(lines, 1)
        if len(line) > WIDTH and not line.startswith("|") and " " in line.strip()
    ]


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = {
        name
        for words in re.findall(r"`([^`\s]+)`|\s([a-z]+/\S+\.py)\b", text)
        for name in alternatives("".join(words))
        if re.fullmatch(r"[\w.*-][\w./*-]*(\.(py|js|mjs|md|onnx|toml|sh|yaml)|\w/)", name)
    }
    assert not {name for name in named - EXAMPLES if not is_there(name)}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if ":" in path:
            continue
        there = (ROOT / page).parent / path if path else ROOT / page
        assert there.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.+)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in slugs, target


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_classes_that_are_named_are_there(page: str) -> None:
    """Those in the text, and in the tree of exceptions."""
    text = (ROOT / page).read_text(encoding="utf-8")
    tree = text.partition("## Exceptions")[2].partition("## ")[0].partition("```")[2]
    named = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", text))
    named |= set(re.findall(r"^[│├└─ ]*(\w+)", tree.partition("```")[0], re.MULTILINE))
    assert named
    assert not named - classes()


@cache
def classes() -> frozenset[str]:
    """By name, and what is imported alone from other people's modules."""
    sources = (
        path.read_text(encoding="utf-8")
        for folder in ("benchmarks", "clients", "engine", "gateway", "kernels", "media")
        for path in (ROOT / folder).rglob("*.py")
    )
    found = re.compile(r"^(?:class |from \S+ import )([A-Z]\w+)", re.MULTILINE)
    return frozenset(name for text in sources for name in found.findall(text))


@cache
def options() -> dict[str, frozenset[str]]:
    """Of each command of `lookhear`: its options, but for those that load torch to tell them."""
    parsers = {entry.name: entry.load()() for entry in metadata.entry_points(group=cli.PARSERS)}
    (commands,) = (
        action
        for action in cli._parser(sorted(parsers), parsers)._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return {
        name: frozenset(option for action in parser._actions for option in action.option_strings)
        for name, parser in commands.choices.items()
        if name != "bench"  # which has a help for each of its parts
    }


def test_every_option_is_on_a_page() -> None:
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    told = frozenset(re.findall(r"--[a-z][a-z0-9-]+", text)) | {"--help"}
    missing = {
        f"{command} {option}"
        for command, own in options().items()
        for option in own
        if option.startswith("--") and option.removeprefix("--no-") == option
        if option not in told
    }
    assert not missing


@pytest.mark.parametrize("page", PAGES)
def test_commands_on_pages_have_only_options_that_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    wrong = []
    for line in re.findall(r"(?:^|[|$`]) ?(lookhear [a-z]+ [^|`\n]*)", text, re.MULTILINE):
        try:
            _, command, *words = shlex.split(line, comments=True)
        except ValueError:  # quotes that go on in the next line
            _, command, *words = line.split()
        known = options().get(command)
        given = (word.partition("=")[0] for word in words if word.startswith("--"))
        wrong += [line for option in given if known is not None and option not in known]
    assert not wrong
