"""What a TAB offers: the scripts are loaded by the shells they are for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "lookhear", "completion"]
# As bash does on a TAB behind these words: `complete` says which function is asked.
TAB = """
source "$1"; shift
asked=$(complete -p lookhear | sed -E 's/.*-F (\\S+).*/\\1/')
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
"$asked" lookhear "${@: -1}" "${@: -2:1}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("scripts")
    for shell in ("bash", "zsh", "fish"):
        done = subprocess.run([*COMMAND, shell], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (folder / shell).write_text(done.stdout)
    return {shell: folder / shell for shell in ("bash", "zsh", "fish")}


@pytest.mark.parametrize(
    ("line", "offered", "not_offered"),
    [
        ("tra", {"transcribe"}, {"serve"}),
        ("", {"serve", "listen", "env", "completion", "bench", "tune"}, set()),
        ("serve --max-s", {"--max-sessions", "--max-session-seconds"}, {"--port"}),
        ("serve --model demo-w", {"demo-whisper"}, {"demo-qwen3-vl"}),
        ("serve --model a/ca", {"a/cached"}, {"demo-whisper"}),
        ("serve openai/whisper-b", {"openai/whisper-base"}, set()),
        ("serve --device cu", {"cuda"}, {"cpu"}),
        ("serve --log-format ", {"json", "text", "auto"}, set()),
        ("serve --config talk", {"talk.yaml"}, set()),
        ("transcribe talk", {"talk.yaml"}, set()),
        ("transcribe --format s", {"srt"}, {"vtt"}),
        ("models --se", {"--server"}, set()),
        ("bench li", {"live"}, {"capacity"}),
        ("completion z", {"zsh"}, set()),
    ],
)
def test_bash_completes(
    line: str, offered: set[str], not_offered: set[str], scripts: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "talk.yaml").write_text("")
    (tmp_path / "hub" / "models--a--cached").mkdir(parents=True)
    words = ["lookhear", *line.split(" ")]
    done = subprocess.run(
        ["bash", "--norc", "-c", TAB, "bash", str(scripts["bash"]), *words],
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub")},
        capture_output=True,
        text=True,
    )
    found = {word.strip() for word in done.stdout.splitlines()}
    assert offered <= found, done.stderr
    assert not not_offered & found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_cache_is_where_the_hub_has_it(shell: str, scripts: dict[str, Path]) -> None:
    script = scripts[shell].read_text()
    for place in ("HF_HUB_CACHE", "HF_HOME", ".cache/huggingface"):
        assert place in script


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_read_it(shell: str, scripts: dict[str, Path]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n", str(scripts[shell])], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_the_options_of_a_server_are_in_it(
    shell: str, scripts: dict[str, Path]
) -> None:
    script = scripts[shell].read_text()
    for word in ("transcribe", "completion", "max-sessions", "log-format", "demo-whisper"):
        assert word in script
