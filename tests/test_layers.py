"""Who may import whom, read from the source; and that the gateway never loads torch."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# The folders by what they hold; all but the client's are imported as lookhear.<folder>.
FOLDERS = {name: ROOT / name for name in ("gateway", "engine", "media", "kernels")}
FOLDERS["client"] = ROOT / "clients" / "lookhear"
PARTS = ("gateway", "engine", "media", "kernels", "bench", "browser")
BENCH = ROOT / "benchmarks" / "bench"  # `lookhear bench`; the rest of benchmarks/ is not packaged
# The modules of ours that each folder may import besides its own; "x" means x and all below it.
ALLOWED = {
    "gateway": ("media", "engine.client", "engine.messages", "engine.config"),
    "engine": ("kernels",),
    "media": (),
    "kernels": (),
    "client": (),
}
# A bare GPU box has none of these, and the light client no server part.
ABSENT = {
    "engine": ("av", "librosa", "onnxruntime", "starlette", "soundfile", "uvicorn"),
    "kernels": ("av", "librosa", "onnxruntime", "starlette", "soundfile", "transformers"),
    "gateway": ("torch", "transformers"),
    "media": ("torch", "transformers", "starlette", "websockets"),
    "client": ("torch", "transformers", "starlette", "uvicorn", "av", "onnxruntime"),
}
MAX_LINES = 400


def sources(folder: str) -> Iterator[Path]:
    """Python files of a folder. The client's holds links to the others, which are not its own."""
    for path in sorted(FOLDERS[folder].rglob("*.py")):
        if path.resolve().is_relative_to(FOLDERS[folder]):
            yield path


def imported(path: Path, *, top_level_only: bool) -> Iterator[str]:
    """Full names of the modules that a file imports, and of names that may be modules."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def home(module: str) -> tuple[str, str] | None:
    """Folder and name within `lookhear` of a module of ours; None for others' modules."""
    top, _, rest = module.partition(".")
    if top != "lookhear" or not rest:
        return None
    part = rest.partition(".")[0]
    return (part if part in PARTS else "client"), rest


def is_below(module: str, root: str) -> bool:
    return module == root or module.startswith(f"{root}.")


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_import_only_what_the_design_allows(folder: str) -> None:
    wrong = []
    for path in sources(folder):
        for module in imported(path, top_level_only=False):
            if (found := home(module)) is None or found[0] == folder:
                continue
            if module.count(".") == 1 and any(x.startswith(found[0]) for x in ALLOWED[folder]):
                continue  # `from lookhear import kernels`
            if not any(is_below(found[1], root) for root in ALLOWED[folder]):
                wrong.append(f"{path.relative_to(ROOT)}: {module}")
    assert not wrong


def test_nothing_that_is_packaged_imports_what_only_the_repository_has() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for folder in (*FOLDERS.values(), BENCH)
        for path in folder.rglob("*.py")
        for module in imported(path, top_level_only=False)
        if module.partition(".")[0] in ("tests", "tools", "benchmarks")
    ]
    assert not wrong


def test_benchmarks_of_the_repository_import_no_tests() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in (ROOT / "benchmarks").rglob("*.py")
        for module in imported(path, top_level_only=False)
        if is_below(module, "tests") or is_below(module, "benchmarks.bench")
    ]
    assert not wrong


@pytest.mark.parametrize("package", sorted(ABSENT))
def test_packages_load_without_what_may_be_absent(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in sources(package)
        for module in imported(path, top_level_only=True)
        if any(is_below(module, absent) for absent in ABSENT[package])
    ]
    assert not wrong


def test_importing_the_gateway_leaves_torch_unloaded() -> None:
    modules = [
        ".".join(("lookhear", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
            ".__init__"
        )
        for path in sources("gateway")
        if path.name != "__main__.py"
    ]
    code = (
        f"import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\n"
        "heavy = {'torch', 'transformers'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    outcome = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr


def test_triton_is_imported_only_below_its_folder() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for package in FOLDERS
        for path in sources(package)
        if "triton" not in path.parts
        and any(is_below(m, "triton") for m in imported(path, top_level_only=False))
    ]
    assert not wrong


def test_a_file_is_a_noun_of_a_readable_size() -> None:
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for package in FOLDERS
        for path in sources(package)
    }
    assert not {name: lines for name, lines in sizes.items() if lines > MAX_LINES}


def test_every_package_is_in_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(project["tool"]["setuptools"]["packages"])
    folders = {f"lookhear.{name}": folder for name, folder in FOLDERS.items() if name != "client"}
    folders |= {"lookhear": FOLDERS["client"], "lookhear.bench": BENCH}
    found = {
        ".".join((name, *path.parent.relative_to(folder).parts))
        for name, folder in folders.items()
        for path in folder.rglob("__init__.py")
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.resolve().is_relative_to(folder)
    }
    assert listed == found | {"lookhear.browser"}
