"""README.md and docs/recipes.md: every block is run as it is printed, but for the port, and prints
what it says.

The programs of the recipes lie in examples/recipes/, each under the name in its first line, those
of the README in examples/, with a line `# README: <name>`; page and file are the same text. A
`text` block behind a block is what it must print. Frameworks, LiveKit, Pipecat and Deepgram's SDK
are not among the test's requirements: LOOKHEAR_RECIPES_PYTHON names an interpreter that has them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lookhear.commands.private_server import ServerProcess, free_port
from lookhear.wer import word_errors
from tests.end_to_end.conftest import SERVE

ROOT = Path(__file__).parent.parent.parent
PLAIN, SECURE = "127.0.0.1:8000", "localhost:8443"  # as printed
ELSEWHERE_PYTHON = os.environ.get("LOOKHEAR_RECIPES_PYTHON", sys.executable)
FEW_WORDS = 15  # so many must be heard without a mistake
NO_NETWORK = (
    *("ENOTFOUND", "EAI_AGAIN", "ETIMEDOUT", "ECONNREFUSED", "ECONNRESET", "ENETUNREACH"),
    "network timeout",
)


@dataclass(frozen=True)
class Block:
    body: str
    prints: str | None


def blocks_of(page: str) -> list[tuple[str, str]]:
    """(language, body) of each fenced block."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def read_recipes() -> tuple[dict[str, Block], list[str]]:
    """The blocks with a name, and those without."""
    named: dict[str, Block] = {}
    unnamed: list[str] = []
    newest = ""
    for language, body in blocks_of("docs/recipes.md"):
        name = re.match(r"(?:#|//) (\S+\.(?:sh|py|mjs))\n", body)
        if language == "text":
            named[newest] = Block(named[newest].body, body)
        elif name is None:
            unnamed.append(body)
        else:
            newest = name[1]
            assert newest not in named
            named[newest] = Block(body, None)
    return named, unnamed


def read_programs() -> dict[str, str]:
    """The README's programs by file name, without the line that marks them."""
    programs = {}
    for path in sorted((ROOT / "examples").glob("*.py")):
        marked, count = re.subn(r"^# README: .*\n", "", path.read_text("utf-8"), flags=re.MULTILINE)
        if count:
            programs[path.name] = marked.strip("\n") + "\n"
    return programs


BLOCKS, UNNAMED = read_recipes()
PROGRAMS = read_programs()
SERVERS = [body for body in UNNAMED if body.startswith("lookhear serve")]
SHELL = ["listen.sh", "ask.sh", "transcribe.sh", "chat.sh"]
PYTHON = [
    *("camera.py", "blocking.py", "openai_file.py", "openai_chat.py", "openai_responses.py"),
    *("openai_vectors.py", "prompt_embeds.py", "openai_realtime.py", "anthropic_messages.py"),
]
SOCKETS = ["bare.py", "vllm_live.py"]
NODE = ["certificate.sh", "install.sh", "realtime.mjs", "chat.mjs", "node.sh"]
ELSEWHERE = {  # the module that each needs
    "langchain_chat.py": "langchain_openai",
    "litellm_chat.py": "litellm",
    "pydantic_ai_agent.py": "pydantic_ai.models.openai",
    "livekit_agent.py": "livekit.plugins.openai",
    "pipecat_agent.py": "pipecat",
    "deepgram_live.py": "deepgram",
    "deepgram_turns.py": "deepgram",
}
NEEDED = {"listen.sh": ("ffmpeg",), "transcribe.sh": ("curl",), "chat.sh": ("curl", "base64")}


# The README's commands: what each prints on the files below, and those that no test can run.
COMMANDS = {
    "lookhear transcribe talk.mp3": "What colour is the circle?",
    "lookhear transcribe talk.mp3 --live": "What colour is the circle?",
    "lookhear transcribe *.mp3 --out texts --format srt": "",
    "ffmpeg -i SOURCE -f wav - | lookhear listen -": "What colour is the circle?",
    "lookhear models": "demo-whisper",
    'lookhear chat --image scene.png "What colour is the circle?"': "Red.",
    "lookhear chat --image scene.png --audio question.wav": "Red.",
}
PRINTS = {  # the README's programs
    "chat.py": "Red.",
    "conversation.py": "What colour is the circle?\nRed.\nBlue.",
    "live.py": "What colour is the circle?",
    "openai_realtime.py": "What colour is the circle?",
}
SERVING = "lookhear serve --model demo-qwen3-asr --model w=demo-whisper"
NOT_RUN = {  # here
    "lookhear serve": "by conftest.server, for all of this folder",
    "lookhear serve --model demo-qwen3-asr --model demo-qwen3-vl": "the recipes' server",
    "make demo": "by test_first_minute, on a fresh clone",
    "make test": "by whoever runs this",
    'pip install "lookhear[server]"': "needs a package index",
    "pip install -e tools/demo -e '.[server]'": "by make, on the fresh clone of test_first_minute",
    "lookhear serve --model openai/whisper-small": "needs a model hub",
    "lookhear serve --config lookhear.yaml": "by tests/gateway/commands, with files of their own",
    "lookhear listen": "needs a microphone",
    "lookhear serve --model Qwen/Qwen3-ASR-0.6B --device cuda": "needs a model hub and a GPU",
    "lookhear serve --model Qwen/Qwen3-8B --draft Qwen/Qwen3-0.6B": "needs a model hub",
    "lookhear serve --model openai/whisper-base --model nvidia/Nemotron-3-Diarization": (
        "needs a model hub"
    ),
}


def test_no_command_of_the_readme_is_left_out() -> None:
    shell = "".join(body for language, body in blocks_of("README.md") if language == "sh")
    lines = [re.split(r"\s+#", line)[0] for line in shell.splitlines() if line]
    assert sorted(lines) == sorted([*COMMANDS, SERVING, *NOT_RUN])
    assert SERVERS[0].strip() in NOT_RUN


def test_programs_of_the_readme_are_the_examples() -> None:
    printed = [body for language, body in blocks_of("README.md") if language == "python"]
    assert sorted(printed) == sorted(PROGRAMS.values())


def test_recipes_are_the_examples() -> None:
    files = {path.name: path for path in (ROOT / "examples" / "recipes").iterdir()}
    assert set(files) == set(BLOCKS)
    for name, block in BLOCKS.items():
        assert files[name].read_text(encoding="utf-8") == block.body, name


def test_no_block_is_left_out() -> None:
    assert set(BLOCKS) == {"files.sh", *SHELL, *PYTHON, *SOCKETS, *NODE, *ELSEWHERE}
    for body in UNNAMED:
        assert body.startswith(("lookhear serve ", "pip install ")) and body.count("\n") == 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the blocks lie as files, beside what `files.sh` makes."""
    if shutil.which("ffmpeg") is None:
        pytest.skip("the recipes' files are made by ffmpeg (Debian: ffmpeg)")
    folder = tmp_path_factory.mktemp("recipes")
    (folder / "tools").symlink_to(ROOT / "tools")
    for name, block in BLOCKS.items():
        (folder / name).write_text(block.body, encoding="utf-8")
    run(folder, ["bash", "files.sh"])
    # The README's files: its recording is a short one, since some play it at the pace of speech.
    (folder / "readme").mkdir()
    shutil.copy(folder / "scene.png", folder / "readme")
    for copy in ("talk.mp3", "talk.wav", "question.mp3", "question.wav"):
        run(folder, ["ffmpeg", "-loglevel", "error", "-i", "question.wav", f"readme/{copy}"])
    return folder


def run(folder: Path, command: list[str], **environment: str) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PATH": path, "NO_PROXY": "localhost,127.0.0.1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def printed(folder: Path, name: str, command: list[str]) -> None:
    """Run it and compare: few words exactly, many as well as they are heard."""
    expected, out = BLOCKS[name].prints, run(folder, command)
    assert expected is not None
    if len(expected.split()) <= FEW_WORDS:
        assert out.rstrip() == expected.rstrip()
    else:
        assert word_errors(expected, out).rate <= 0.1, out


@contextlib.contextmanager
def secure_server(folder: Path) -> Iterator[int]:
    """The server with the certificate, as the document starts it; its port."""
    [served] = [command for command in SERVERS if "8443" in command]
    arguments = shlex.split(served)[2:]
    port = free_port()
    arguments[arguments.index("8443")] = str(port)
    log = (folder / "secure.log").open("w")
    command = [sys.executable, "-m", "lookhear", "serve", *arguments, *SERVE]
    child = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    trusted = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted)]
    opener = urllib.request.build_opener(*handlers)
    try:
        while True:
            with contextlib.suppress(OSError):  # refused, or 503
                opener.open(f"https://localhost:{port}/ready", timeout=5).close()
                break
            assert child.poll() is None, (folder / "secure.log").read_text()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(0.1)
        yield port
    finally:
        child.terminate()
        child.wait()
        log.close()


def test_node(folder: Path) -> None:
    for program in ("node", "npm", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program} (Debian: nodejs npm openssl)")
    run(folder, ["bash", "certificate.sh"])
    (folder / "package.json").write_text("{}")
    # So that npm itself says within our patience that it hears nothing of its registry.
    patience = {"npm_config_fetch_timeout": "50000", "npm_config_fetch_retries": "1"}
    try:
        run(folder, ["bash", "install.sh"], npm_config_cache=str(folder / "npm"), **patience)
    except AssertionError as error:
        if any(word in str(error) for word in NO_NETWORK):
            pytest.skip("npm does not reach its registry")
        raise
    with secure_server(folder) as port:
        for name in ("realtime.mjs", "chat.mjs"):
            body = BLOCKS[name].body.replace(SECURE, f"localhost:{port}")
            (folder / name).write_text(body, encoding="utf-8")
        printed(folder, "node.sh", ["bash", "node.sh"])


@pytest.fixture(scope="module")
def plain(folder: Path) -> Iterator[Path]:
    """The folder, its blocks pointed at a server as the document starts it."""
    arguments = [*shlex.split(SERVERS[0])[2:], "--enable-prompt-embeds"]  # as prompt_embeds.py has
    with ServerProcess(arguments=[*arguments, *SERVE], start_seconds=120.0) as process:
        for name, block in BLOCKS.items():
            body = block.body.replace(PLAIN, f"127.0.0.1:{process.port}")
            (folder / name).write_text(body, encoding="utf-8")
        (folder / "server").write_text(process.address.base_url)
        yield folder


@pytest.mark.parametrize("name", [*SHELL, *PYTHON, *SOCKETS])
def test_recipe(plain: Path, name: str) -> None:
    for program in NEEDED.get(name, ()):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    printed(plain, name, ["bash" if name.endswith(".sh") else sys.executable, name])


@pytest.mark.parametrize("command", COMMANDS)
def test_command_of_the_readme(plain: Path, command: str) -> None:
    where = "" if "models" in command else f" --server {(plain / 'server').read_text()}"
    command_line = command.replace("SOURCE", "talk.mp3") + where
    assert COMMANDS[command] in run(plain / "readme", ["bash", "-c", command_line])
    if "--out" in command:
        for name in ("talk", "question"):
            assert "-->" in (plain / "readme" / "texts" / f"{name}.srt").read_text()


def test_several_models_as_in_the_readme() -> None:
    arguments = [*shlex.split(SERVING)[2:], *SERVE]
    with ServerProcess(arguments=arguments, start_seconds=120.0) as process:
        served = process.address.get_json("/v1/models")["data"]
    assert [model["id"] for model in served] == ["demo-qwen3-asr", "w"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_of_the_readme(plain: Path, name: str) -> None:
    address = (plain / "server").read_text().removeprefix("http://")
    path = plain / "readme" / name
    path.write_text(PROGRAMS[name].replace(PLAIN, address), encoding="utf-8")
    assert PRINTS[name] == run(path.parent, [sys.executable, name]).strip()


@pytest.mark.parametrize("name", list(ELSEWHERE))
def test_recipe_of_another_environment(plain: Path, name: str) -> None:
    # What is there and cannot be imported is no reason to leave a recipe out: it fails.
    package = ELSEWHERE[name].partition(".")[0]
    find = f"import importlib.util as util; print(util.find_spec({package!r}) is not None)"
    if run(ROOT, [ELSEWHERE_PYTHON, "-c", find]).strip() != "True":
        pytest.skip(f"{package} is not installed; LOOKHEAR_RECIPES_PYTHON names where it is")
    printed(plain, name, [ELSEWHERE_PYTHON, name])
