"""`lookhear completion SHELL`: a script that completes the command, made of its parsers by shtab.

Static, so that a TAB starts no Python. Names of models are looked up by the shell itself: the usual
ones, and what lies in the hub's cache.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import shtab

DEVICES = "auto cpu cuda"
MODELS = " ".join(
    ["auto", "demo-whisper", "demo-qwen3-asr", "demo-qwen3-vl", "demo-qwen3-aligner"]
    + [f"openai/whisper-{size}" for size in ("tiny", "base", "small", "medium", "large-v3-turbo")]
    + ["Qwen/Qwen3-ASR-0.6B", "Qwen/Qwen3-ASR-1.7B", "Qwen/Qwen3-VL-2B-Instruct"]
)
_CACHED = (
    'ls "${HF_HUB_CACHE:-${HF_HOME:-$HOME/.cache/huggingface}/hub}" 2>/dev/null'
    " | sed -n 's/^models--//p' | sed 's/--/\\//'"
)
# Before what shtab writes: how each shell finds the names of models.
_PREAMBLES = {
    "bash": f"""
_lookhear_models() {{
  compgen -W "{MODELS} $({_CACHED})" -- "$1"
  compgen -d -- "$1"
}}
_lookhear_devices() {{ compgen -W "{DEVICES}" -- "$1"; }}
""",
    "zsh": f"""
_lookhear_models() {{
  local -a names=(${{=:-{MODELS}}} ${{(f)"$({_CACHED})"}})
  _alternative "models:model:compadd -a names" "folders:folder:_files -/"
}}
""",
    "fish": f"""
function __lookhear_models
  string split " " -- "{MODELS}"
  set -l cache "$HF_HUB_CACHE"
  test -z "$cache" -a -n "$HF_HOME"; and set cache "$HF_HOME/hub"
  test -n "$cache"; or set cache "$HOME/.cache/huggingface/hub"
  ls "$cache" 2>/dev/null | string replace -f -r '^models--' '' | string replace -- -- /
end
""",
}
# What a value is, by how the help calls it.
_VALUES = {
    "FILE": shtab.FILE,
    "FOLDER": shtab.DIRECTORY,
    "MODEL": {"bash": "_lookhear_models", "zsh": "_lookhear_models", "fish": "(__lookhear_models)"},
    "DEVICE": {"bash": "_lookhear_devices", "zsh": f"({DEVICES})", "fish": DEVICES},
}
_VALUES["[NAME=]MODEL"] = _VALUES["REPO_OR_FOLDER"] = _VALUES["MODEL"]


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """For the shell to load. parser: of the whole command, with all that may stand behind it."""
    for action in _actions(parser):
        called = action.metavar or (action.dest.upper() if action.dest == "device" else None)
        if isinstance(called, str) and called in _VALUES and action.choices is None:
            action.complete = _VALUES[called]  # type: ignore[attr-defined]  # where shtab looks
    return shtab.complete(parser, shell=shell, preamble=_PREAMBLES[shell])


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Of the parser, and of those of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
