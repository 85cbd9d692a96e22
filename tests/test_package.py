"""What is built from the tree, and that it lives beside other people's packages."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from pathlib import Path

import pytest

import lookhear
from lookhear.commands.private_server import ServerProcess

ROOT = Path(__file__).parent.parent
RECORDING = ROOT / "tools" / "demo" / "lookhear_demo" / "recordings" / "hello.opus"
# Names of folders of ours that are other people's packages, too.
NEIGHBOURS = ("kernels", "media", "engine", "gateway", "benchmarks")
# What an installation without extras does not have.
ABSENT = (
    "av h11 huggingface_hub jinja2 llguidance lookhear_demo msgpack PIL prometheus_client "
    "psutil pydantic python_multipart safetensors starlette tokenizers torch transformers uvicorn "
    "yaml"
).split()  # fmt: skip


def build(source: Path, kind: str, folder: Path) -> Path:
    """The wheel or sdist of a source tree, by its own backend."""
    folder.mkdir()
    code = f"from setuptools.build_meta import build_{kind}; build_{kind}({str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean copy: a build leaves folders where it runs, and would take old ones along."""
    unwanted = ".*", "build", "dist", "*.egg-info", "__pycache__", "demo", "bench-results"
    folder = tmp_path_factory.mktemp("tree") / "lookhear"
    return shutil.copytree(ROOT, folder, symlinks=True, ignore=shutil.ignore_patterns(*unwanted))


@pytest.fixture(scope="module")
def sdist(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tree, "sdist", tmp_path_factory.mktemp("sdist") / "dist")


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tree, "wheel", tmp_path_factory.mktemp("wheel") / "dist")


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installed, between packages of other people's that are called like folders of ours."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    write_neighbours(folder)
    return folder


def write_neighbours(folder: Path) -> None:
    for name in NEIGHBOURS:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("THEIRS = True\n")


def run(
    site: Path, *argv: str, cwd: Path, without: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Python with what was installed in `site`, and as if `without` were installed nowhere."""
    hidden = "\n".join(f"sys.modules[{name!r}] = None" for name in without)
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n{hidden}\n"
        "import importlib.util; found = importlib.util.find_spec\n"
        "def find_spec(name, package=None):\n"
        "    return None if sys.modules.get(name, 0) is None else found(name, package)\n"
        "importlib.util.find_spec = find_spec\n"
        f"{argv[0]}"
    )
    command = [sys.executable, "-c", code, *argv[1:]]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


COMMAND = "from lookhear.commands.main import main; raise SystemExit(main())"


def test_the_wheel_is_small_and_holds_nothing_but_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        packed = {item.filename: item.compress_size for item in archive.infolist()}
    detector = packed.pop("lookhear/media/voice/silero_vad.onnx")
    assert detector <= 1_100_000
    assert sum(packed.values()) <= 1_550_000
    # A checksum for every file, which does not pack.
    del packed[f"lookhear-{lookhear.__version__}.dist-info/RECORD"]
    # Code alone: no weights, recordings or tables of results.
    assert max(packed.values()) <= 10_000
    assert {name.partition("/")[0] for name in names} == {
        "lookhear",
        f"lookhear-{lookhear.__version__}.dist-info",
    }
    assert {name.split("/")[1] for name in names if name.endswith("/__init__.py")} == {
        "__init__.py", "bench", "chat", "commands", "engine", "gateway", "kernels",
        "live", "media", "sources", "terminal", "transport", "wyoming",
    }  # fmt: skip
    kinds = Counter(Path(name).suffix for name in names if name.startswith("lookhear/"))
    assert set(kinds) <= {".py", ".typed", ".html", ".js", ".css", ".svg", ".json", ".onnx", ".txt"}
    assert kinds[".onnx"] == 1


def test_the_sdist_is_the_repository_and_each_file_is_there_once(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        members = {member.name.partition("/")[2]: member for member in archive}
    assert not [name for name, member in members.items() if member.issym()]
    for name in (
        "README.md", "CHANGELOG.md", "LICENSE", "Makefile", "setup.py", "docs/architecture.md",
        "docs/images/page.png", "tests/test_package.py", "tests/data/manifest.json",
        "tools/recipes/README.md", "benchmarks/peers/compare.py", "engine/core/core.py",
        "clients/browser/index.html", "clients/lookhear/py.typed",
    ):  # fmt: skip
        assert name in members, name
    for part in ("engine", "gateway", "media", "kernels", "bench", "browser"):
        assert not [name for name in members if name.startswith(f"clients/lookhear/{part}/")]
    assert sdist.stat().st_size <= 15_000_000


def test_the_wheel_of_the_sdist_is_the_wheel_of_the_tree(
    wheel: Path, sdist: Path, tmp_path: Path
) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    again = build(unpacked, "wheel", tmp_path / "dist")
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(again) as theirs:
        assert set(ours.namelist()) == set(theirs.namelist())
        assert not [name for name in ours.namelist() if ours.read(name) != theirs.read(name)]


def test_one_version_everywhere(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    demo = tomllib.loads((ROOT / "tools" / "demo" / "pyproject.toml").read_text("utf-8"))["project"]
    assert lookhear.__version__ == project["version"] == wheel.name.split("-")[1]
    assert f"lookhear-demo=={demo['version']}" in project["optional-dependencies"]["server"]


def test_links_of_a_package_page_lead_somewhere(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        page = archive.read(name).decode()
    assert "docs/protocol.md" in page and "Description-Content-Type: text/markdown" in page
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert links and all(link.startswith("https://") for link in links), links


def test_with_an_address_the_links_are_absolute() -> None:
    spec = importlib.util.spec_from_file_location("lookhear_setup", ROOT / "setup.py")
    assert spec is not None and spec.loader is not None
    setup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup)
    readme = "[a](docs/a.md) ![p](docs/p.png) [b](https://b.example) [c](#use-it)"
    assert setup.package_page(readme, "https://x.example/blob/main") == (
        "[a](https://x.example/blob/main/docs/a.md) "
        "![p](https://x.example/blob/main/docs/p.png?raw=true) "
        "[b](https://b.example) [c](#use-it)"
    )
    assert setup.package_page(readme, "") == "a  [b](https://b.example) [c](#use-it)"


def test_neighbours_of_the_same_names_live_in_peace(site: Path, tmp_path: Path) -> None:
    code = (
        f"import importlib\nfor name in {NEIGHBOURS!r}:\n"
        "    assert importlib.import_module(name).THEIRS\n"
        "import lookhear.engine.core.core, lookhear.gateway, lookhear.media.voice.vad\n"
        "import lookhear.kernels, lookhear.bench.command\n"
        f"assert lookhear.kernels.__file__.startswith({str(site)!r})\n"
    )
    done = run(site, code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_light_client_is_light(site: Path, tmp_path: Path) -> None:
    code = "import time; t = time.process_time(); import lookhear; print(time.process_time() - t)"
    done = run(site, code, cwd=tmp_path, without=tuple(ABSENT))
    assert done.returncode == 0 and float(done.stdout) <= 0.3, done.stderr
    for argv, said in (
        ("--version", f"lookhear {lookhear.__version__}\n"),
        ("transcribe --help", "usage: lookhear transcribe"),
        ("env", "torch: "),
        ("completion bash", "--max-sessions"),
        ("bench --help", "in a checkout of the repository"),
    ):
        done = run(site, COMMAND, *argv.split(), cwd=tmp_path, without=tuple(ABSENT))
        assert done.returncode == 0 and said in done.stdout, done.stderr
    for argv, said in (
        ("serve", 'needs pip install "lookhear[server]"'),
        ("models", 'needs pip install "lookhear[server]"'),
        ("bench live", 'needs pip install "lookhear[bench]"'),
        ("bench compare", "bench compare needs the repository"),
        ("bench peers list", "bench peers needs the repository"),
    ):
        done = run(site, COMMAND, *argv.split(), cwd=tmp_path, without=tuple(ABSENT))
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert said in done.stderr and done.stderr.count("\n") == 1


def test_a_server_beside_other_packages_and_the_light_client(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_neighbours(tmp_path)
    monkeypatch.chdir(tmp_path)
    with ServerProcess(0, ["--model", "demo-whisper"]) as server:
        url = server.address.base_url
        listed = run(site, COMMAND, "models", "--server", url, cwd=tmp_path, without=tuple(ABSENT))
        assert listed.returncode == 0 and "demo-whisper" in listed.stdout, listed.stderr
        argv = "transcribe", str(RECORDING), "--server", url
        done = run(site, COMMAND, *argv, cwd=tmp_path, without=tuple(ABSENT))
        assert done.returncode == 0 and len(done.stdout.split()) > 3, done.stderr
