"""Settings from the command line, the environment and a file: which of them counts, that each says
the same wherever it is written, and what a person reads who wrote something wrong."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lookhear.engine.config import ConfigError
from lookhear.gateway.commands import command
from lookhear.gateway.commands.arguments import serve_parser
from lookhear.gateway.commands.settings import NOT_SETTINGS, SECRET, Settings, read_settings

OPTIONS = {
    action.option_strings[0].removeprefix("--"): action
    for action in serve_parser()._actions
    if action.option_strings and action.option_strings[0].startswith("--")
}
OPTIONS = {name: action for name, action in OPTIONS.items() if name not in NOT_SETTINGS}
WORDS = st.text("abcdefghijkLMNO0123456789-_./:=*", min_size=1, max_size=12)
WORDS = WORDS.filter(lambda word: word != "--")  # which no option takes


def values(action: argparse.Action) -> st.SearchStrategy[str]:
    """Texts that an option takes, whether it then makes sense or not."""
    if isinstance(action, argparse.BooleanOptionalAction):
        return st.sampled_from(["true", "false"])
    if action.choices is not None:
        return st.sampled_from([str(choice) for choice in action.choices])
    if action.type is int:
        return st.integers(0, 10**9).map(str)
    if action.type is float:
        return st.floats(0, 10**6).map(str)
    return WORDS


@st.composite
def chosen(draw: st.DrawFn) -> dict[str, list[str]]:
    """Some options with a value, or several of those that may be repeated."""
    names = draw(st.lists(st.sampled_from(sorted(OPTIONS)), unique=True, max_size=12))
    found = {}
    for name in names:
        is_several = isinstance(OPTIONS[name], argparse._AppendAction)
        most = 3 if is_several else 1
        found[name] = draw(st.lists(values(OPTIONS[name]), min_size=1, max_size=most))
    return found


def words(given: dict[str, list[str]]) -> list[str]:
    """On the command line."""
    return [word for name, texts in given.items() for word in _words(name, texts)]


def _words(name: str, texts: list[str]) -> list[str]:
    if isinstance(OPTIONS[name], argparse.BooleanOptionalAction):
        return [f"--{name}" if texts[0] == "true" else f"--no-{name}"]
    return [f"--{name}={text}" for text in texts]


def variables(given: dict[str, list[str]]) -> dict[str, str]:
    """In the environment."""

    def value(name: str, texts: list[str]) -> str:
        if isinstance(OPTIONS[name], argparse._AppendAction):
            return yaml.safe_dump(texts, default_flow_style=True, width=2**30).strip()
        return texts[0]

    return {
        f"LOOKHEAR_{name.replace('-', '_').upper()}": value(name, texts)
        for name, texts in given.items()
    }


def lines(given: dict[str, list[str]], path: Path) -> Path:
    """In a file."""

    def value(name: str, texts: list[str]) -> Any:
        action = OPTIONS[name]
        if isinstance(action, argparse._AppendAction):
            return texts
        return texts[0] == "true" if action.nargs == 0 else texts[0]

    said = {name: value(name, texts) for name, texts in given.items()}
    path.write_text(yaml.safe_dump(said), "utf-8")
    return path


def held(found: Settings) -> dict[str, object]:
    return {name: getattr(found.options, action.dest) for name, action in OPTIONS.items()}


def without_model(given: dict[str, list[str]]) -> dict[str, list[str]]:
    """LOOKHEAR_MODEL is besides what `auto` stands for: see test_command."""
    return {name: texts for name, texts in given.items() if name != "model"}


in_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@in_a_folder
@given(chosen())
def test_a_setting_says_the_same_wherever_it_is_written(
    tmp_path: Path, given: dict[str, list[str]]
) -> None:
    by_words = read_settings(words(given), {})
    by_file = read_settings(["--config", str(lines(given, tmp_path / "a.yaml"))], {})
    by_variables = read_settings([], variables(given))
    named = read_settings([], {"LOOKHEAR_CONFIG": str(tmp_path / "a.yaml")})
    assert held(by_words) == held(by_file) == held(by_variables) == held(named)
    for name, origin in by_file.origins.items():
        assert (
            origin.startswith(f"{tmp_path / 'a.yaml'}:") if name in given else origin == "default"
        )
        assert by_words.origins[name] == ("command line" if name in given else "default")


@in_a_folder
@given(chosen(), chosen(), chosen())
def test_the_command_line_counts_before_the_environment_and_that_before_the_file(
    tmp_path: Path,
    first: dict[str, list[str]],
    second: dict[str, list[str]],
    third: dict[str, list[str]],
) -> None:
    first, second, third = map(without_model, (first, second, third))
    path = str(lines(third, tmp_path / "a.yaml"))
    found = read_settings([*words(first), "--config", path], variables(second))
    assert held(found) == held(read_settings(words(third | second | first), {}))


@in_a_folder
@given(chosen())
def test_what_is_printed_is_a_file_that_says_the_same(
    tmp_path: Path, given: dict[str, list[str]]
) -> None:
    found = read_settings(words(given), {})
    (tmp_path / "printed.yaml").write_text(found.printed(), "utf-8")
    again = held(read_settings(["--config", str(tmp_path / "printed.yaml")], {}))
    for name in SECRET:
        assert again.pop(name) == []
    assert again == {name: value for name, value in held(found).items() if name not in SECRET}


def test_two_dashes_are_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_settings(["--allow-host=a", "--allow-host=--"], {})
    assert "argument --allow-host: expected a value, got '--'" in capsys.readouterr().err
    assert str(read_settings(["--api-key-file==--"], {}).options.api_key_file) == "=--"


def test_keys_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.serve(["--api-key", "sk-secret", "--port", "9", "--print-config"]) == 0
    out = capsys.readouterr().out
    assert "sk-secret" not in out
    assert "# api-key: 1 of them, not shown (command line)\n" in out
    assert "port: 9  # command line\n" in out and "host: 127.0.0.1  # default\n" in out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("host: a\nport: eight", [":2: port: expected a whole number, got 'eight'"]),
        ("tick: fast", [":1: tick: expected a number, got 'fast'"]),
        ("log-level: loud", [":1: log-level: expected one of debug, info, ", "got 'loud'"]),
        ("prot: 1", [":1: prot: expected an option of lookhear serve", "is it port?"]),
        ("config: a.yaml", [":1: config: expected an option of lookhear serve"]),
        ("port:", [":1: port: expected a value, got nothing"]),
        ("port: [1]", [":1: port: expected one value, got a list"]),
        ("models: [{a: b}]", [":1: models: expected one value, got a mapping"]),
        ("host: yes", [":1: host: expected text or a number, got yes", "quote it"]),
        ("draft-verification: perhaps", [":1: draft-verification: expected true or false"]),
        ("port: 1\nport: 2", [":2: port: expected it once, got it on line 1, too"]),
        ("model: a\n\nmodels: b", [":3: models: expected it once, got model, too"]),
        ("a: b: c", [":1: expected YAML, got something else"]),
        ("port: 1\n\t- x", [":2: expected YAML"]),
        ("- a", [":1: expected lines of NAME: VALUE"]),
        ("just text", [":1: expected lines of NAME: VALUE"]),
        ("[a]: b", [":1: expected the name of an option"]),
        ("\nport: 70000", [":2: port: expected 0 to 65535, got 70000"]),
        ("tick: 0", [":1: tick: expected", "got 0.0"]),
        ("device: gpu", [":1: device: expected cpu, cuda"]),
        ("models: [a, a]", [":1: model: expected different names"]),
        ("models: []", [":1: model: expected at least one, got none"]),
        ("adapters: ''", [":1: adapters: expected a folder, got ''"]),
        ("media-folder: /nowhere", [":1: media-folder: expected a folder"]),
    ],
)
def test_a_wrong_file_is_one_line_with_its_place(
    text: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("LOOKHEAR_MODEL")
    path = tmp_path / "lookhear.yaml"
    path.write_text(text)
    assert command.serve(["--config", str(path), "--print-config"]) == 2
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1
    assert err.startswith(f"lookhear serve: {path}{words[0]}"), err
    assert all(word in err for word in words)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("LOOKHEAR_PORT", "eight", "LOOKHEAR_PORT: expected a whole number, got 'eight'"),
        ("LOOKHEAR_PORT", "70000", "LOOKHEAR_PORT: port: expected 0 to 65535, got 70000"),
        ("LOOKHEAR_MODEL", "[]", "LOOKHEAR_MODEL: model: expected at least one, got none"),
        ("LOOKHEAR_CONFIG", "/nowhere", "config: expected a readable file, got /nowhere (No such"),
        ("LOOKHEAR_ALLOW_ORIGIN", "[a", "allow-origin: expected like"),
        ("LOOKHEAR_ALLOW_ORIGIN", "[a: [b]", "LOOKHEAR_ALLOW_ORIGIN:1: expected YAML"),
    ],
)
def test_a_wrong_variable_is_one_line_with_its_name(
    name: str,
    text: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, text)
    assert command.serve(["--print-config"]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1


def test_models_may_stand_by_themselves() -> None:
    for argv in (["a", "b=c", "--port", "1"], ["a", "--port", "1", "b=c"]):
        assert read_settings(argv, {}).options.models == ["a", "b=c"]
    with pytest.raises(ConfigError, match="expected MODEL or --model MODEL, got both"):
        read_settings(["a", "--model", "b"], {})


def test_what_kubernetes_says_of_a_service_is_no_port() -> None:
    environ: Callable[[str], dict[str, str]] = lambda port: {"LOOKHEAR_PORT": port}  # noqa: E731
    assert read_settings([], environ("tcp://10.0.0.1:8000")).options.port == 8000
    assert read_settings([], environ("9")).options.port == 9


def test_what_is_unreadable_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"host: \xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_settings(["--config", str(tmp_path / "a.yaml")], {})
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert read_settings(["--config", str(tmp_path / "empty.yaml")], {}).options.port == 8000
