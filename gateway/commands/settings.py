"""Settings of `lookhear serve` from four places: the command line counts before the environment,
the environment before a file, the file before defaults. Each is remembered with its origin.

The options' own names are the names everywhere, and their types the types; so an option that is
added to the parser can be written into a file and into the environment without a word here.
(ConfigArgParse does this, too, but turns a file into arguments, and then a complaint can name
neither its line nor its key.)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from lookhear.engine.config import AUTO_MODEL, ConfigError
from lookhear.gateway.commands.arguments import serve_parser
from lookhear.gateway.commands.settings_file import (
    Entry,
    read_entries,
    read_list,
    shown,
    value,
    values,
)
from lookhear.gateway.config import folder

PREFIX = "LOOKHEAR_"
COMMAND_LINE, DEFAULT = "command line", "default"
SECRET = ("api-key",)  # never shown
NOT_SETTINGS = ("help", "config", "print-config")  # options that say what to do
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_KINDS = {int: "a whole number", float: "a number", folder: "a folder"}


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds. origins: where each comes from, by the option's name: `command line`, the name of
    a variable, `FILE:LINE` or `default`."""

    options: argparse.Namespace
    origins: Mapping[str, str]

    def located(self, problem: str) -> str:
        """A complaint that begins with the name of a setting, by the option's name, with the place
        that is to be changed in front of it, unless that is the command line."""
        said, colon, rest = problem.partition(":")
        name = said.replace("_", "-")
        for action in _settings(serve_parser()):
            if name in _names(action):
                named = f"{_name(action)}{colon}{rest}"
                origin = self.origins[_name(action)]
                told = origin not in (COMMAND_LINE, DEFAULT)
                return f"{origin}: {named}" if told else named
        return problem

    def printed(self) -> str:
        """All of them as a file that says the same, each with its origin; but for the keys."""
        lines = []
        for action in _settings(serve_parser()):
            name, held = _name(action), getattr(self.options, action.dest)
            origin = self.origins[name]
            if name in SECRET:
                lines.append(f"# {name}: {len(held)} of them, not shown ({origin})")
            elif held is None:
                lines.append(f"# {name}: none ({origin})")
            else:
                lines.append(f"{name}: {_as_yaml(held)}  # {origin}")
        return "\n".join(lines)


def read_settings(argv: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Raises ConfigError, one line that names the place; SystemExit as argparse does."""
    parser = serve_parser()
    actions = list(_settings(parser))
    dests = [action.dest for action in (*actions, *parser._get_positional_actions())]
    # What is there already gets no default, so what stays None was not given.
    given = argparse.Namespace(**dict.fromkeys(dests))
    for word in argv:
        option, _, value = word.partition("=")
        if option.startswith("--") and value == "--":  # argparse takes it for no value at all
            parser.error(f"argument {option}: expected a value, got '--'")
    parser.parse_intermixed_args(list(argv), given)
    if given.positional_models:
        if given.models:
            both = f"{given.positional_models[0]} and --model {given.models[0]}"
            raise ConfigError(f"model: expected MODEL or --model MODEL, got both ({both})")
        given.models = given.positional_models
    path = given.config
    if path is None and (named := environ.get(f"{PREFIX}CONFIG")):
        path = Path(named)
    entries = {} if path is None else _by_option(read_entries(path), actions)
    origins = {}
    for action in actions:
        name, variable = _name(action), _variable(action)
        found, origin = action.default, DEFAULT
        # What counts less is read all the same: what is wrong in it is wrong today.
        if (entry := entries.get(name)) is not None:
            found, origin = _from_entry(action, entry), entry.where
        text = environ.get(variable)
        if text and not _is_kubernetes(name, text):
            found, origin = _from_text(action, text, variable), variable
        if getattr(given, action.dest) is not None:
            found, origin = getattr(given, action.dest), COMMAND_LINE
        setattr(given, action.dest, found)
        origins[name] = origin
    given.models = _without_auto(given.models, environ)
    return Settings(given, origins)


def _without_auto(models: list[str], environ: Mapping[str, str]) -> list[str]:
    """`auto` is what LOOKHEAR_MODEL names, if it names any."""
    text = environ.get(f"{PREFIX}MODEL")
    usual = [AUTO_MODEL] if not text else _several(text, f"{PREFIX}MODEL")
    return [model for given in models for model in (usual if given == AUTO_MODEL else [given])]


def _settings(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The options that may stand in a file, in their order."""
    for action in parser._actions:
        if action.option_strings and _name(action) not in NOT_SETTINGS:
            yield action


def _name(action: argparse.Action) -> str:
    """Of an option, without its dashes; of a positional argument what it is kept as."""
    long = [option for option in action.option_strings if option.startswith("--")]
    return long[0].removeprefix("--") if long else action.dest


def _names(action: argparse.Action) -> tuple[str, str]:
    """As it is called, and as what it sets is called: `model` and `models`."""
    return _name(action), action.dest.replace("_", "-")


def _variable(action: argparse.Action) -> str:
    return PREFIX + _name(action).replace("-", "_").upper()


def _is_kubernetes(name: str, text: str) -> bool:
    """It tells every container the ports of its services so: LOOKHEAR_PORT of one called so."""
    return name == "port" and text.startswith(("tcp://", "udp://"))


def _by_option(entries: Sequence[Entry], actions: Sequence[argparse.Action]) -> dict[str, Entry]:
    known = {name: _name(action) for action in actions for name in _names(action)}
    found: dict[str, Entry] = {}
    for entry in entries:
        where = f"{entry.where}: {entry.name}"
        if (option := known.get(entry.name)) is None:
            near = get_close_matches(entry.name, known, n=1)
            hint = f"; is it {near[0]}?" if near else ""
            raise ConfigError(
                f"{where}: expected an option of lookhear serve, got another name{hint}"
            )
        if option in found:
            raise ConfigError(f"{where}: expected it once, got {found[option].name}, too")
        found[option] = entry
    return found


def _from_entry(action: argparse.Action, entry: Entry) -> Any:
    where = f"{entry.where}: {entry.name}"
    if isinstance(action, argparse._AppendAction):
        return [_converted(action, text, where) for text in values(entry.node, where)]
    is_truth = isinstance(action, argparse.BooleanOptionalAction)
    return _converted(action, value(entry.node, where, is_truth=is_truth), where)


def _from_text(action: argparse.Action, text: str, variable: str) -> Any:
    if isinstance(action, argparse._AppendAction):
        return [_converted(action, one, variable) for one in _several(text, variable)]
    return _converted(action, text, variable)


def _several(text: str, variable: str) -> list[str]:
    """One value, or a list in YAML's brackets."""
    in_brackets = text.startswith("[") and text.endswith("]")
    return read_list(text, variable) if in_brackets else [text]


def _converted(action: argparse.Action, text: str, where: str) -> Any:
    """As argparse would. ConfigError."""
    if isinstance(action, argparse.BooleanOptionalAction):
        if text.lower() not in (*_TRUE, *_FALSE):
            raise ConfigError(f"{where}: expected true or false, got {shown(text)}")
        return text.lower() in _TRUE
    made: Any = text
    if callable(action.type):
        try:
            made = action.type(text)
        except ValueError:
            expected = _KINDS.get(action.type, "a value of its type")
            raise ConfigError(f"{where}: expected {expected}, got {shown(text)}") from None
    if action.choices is not None and made not in action.choices:
        among = ", ".join(map(str, action.choices))
        raise ConfigError(f"{where}: expected one of {among}, got {shown(text)}")
    return made


def _as_yaml(held: object) -> str:
    plain = held if isinstance(held, bool | int | float | list) else str(held)
    text: str = yaml.safe_dump([plain], default_flow_style=True, width=2**30, allow_unicode=True)
    return text.strip()[1:-1]
