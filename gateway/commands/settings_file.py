"""YAML files of settings, read so that every complaint can name its line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lookhear.engine.config import ConfigError

_TAG = "tag:yaml.org,2002:"
_TEXT, _TRUTH, _NOTHING = (f"{_TAG}{kind}" for kind in ("str", "bool", "null"))
SHOWN = 60  # characters of what came


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting of a file. where: `FILE:LINE`. node: its value, not yet understood."""

    name: str
    where: str
    node: yaml.Node


def read_entries(path: Path) -> list[Entry]:
    """In their order. Raises ConfigError, one line: no such file, no YAML, names twice."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigError(f"config: expected a readable file, got {path} ({reason})") from None
    return _entries(text, str(path))


def read_list(text: str, where: str) -> list[str]:
    """`[a, b]`: the values of a variable that takes several. ConfigError."""
    return values(_composed(text, where), where)


def value(node: yaml.Node, where: str, *, is_truth: bool = False) -> str:
    """As it is written, so that no number loses its zeros. is_truth: true or false is meant.
    ConfigError for what is not one value, and for words that YAML takes for something else."""
    if not isinstance(node, yaml.ScalarNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
        raise ConfigError(f"{where}: expected one value, got {kind}")
    if node.tag == _NOTHING:
        raise ConfigError(f"{where}: expected a value, got nothing")
    if node.tag == _TRUTH and not is_truth:
        got = f"{node.value} (in YAML that is true or false; quote it if it is text)"
        raise ConfigError(f"{where}: expected text or a number, got {got}")
    return str(node.value)


def values(node: yaml.Node, where: str) -> list[str]:
    """Of a setting that may be repeated: a list, or one value. ConfigError."""
    if not isinstance(node, yaml.SequenceNode):
        return [value(node, where)]
    return [value(entry, where) for entry in node.value]


def shown(text: str) -> str:
    """What came, in a message."""
    return repr(text) if len(text) <= SHOWN else f"{text[:SHOWN]!r}…"


def _entries(text: str, source: str) -> list[Entry]:
    root = _composed(text, source)
    if root is None:
        return []  # an empty file
    if not isinstance(root, yaml.MappingNode):
        line = root.start_mark.line + 1
        raise ConfigError(f"{source}:{line}: expected lines of NAME: VALUE, got something else")
    entries: dict[str, Entry] = {}
    for key, node in root.value:
        where = f"{source}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{where}: expected the name of an option, got a list or mapping")
        name = str(key.value).replace("_", "-")
        if name in entries:
            first = entries[name].where.rpartition(":")[2]
            raise ConfigError(f"{where}: {name}: expected it once, got it on line {first}, too")
        entries[name] = Entry(name, where, node)
    return list(entries.values())


def _composed(text: str, source: str) -> Any:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = source if mark is None else f"{source}:{mark.line + 1}"
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        raise ConfigError(f"{where}: expected YAML, got something else ({problem})") from None
