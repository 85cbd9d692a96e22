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
OURS = ("gateway", "engine", "media", "kernels", "lookhear")
FOLDERS = {name: ROOT / name for name in OURS} | {"lookhear": ROOT / "clients" / "lookhear"}
# The modules of ours that each package may import besides itself; "x" means x and all below it.
ALLOWED = {
    "gateway": ("media", "engine.client", "engine.messages", "engine.config"),
    "engine": ("kernels",),
    "media": (),
    "kernels": (),
    "lookhear": (),
}
# A bare GPU box has none of these, and the light client no server part.
ABSENT = {
    "engine": ("av", "librosa", "onnxruntime", "starlette", "soundfile", "uvicorn"),
    "kernels": ("av", "librosa", "onnxruntime", "starlette", "soundfile", "transformers"),
    "gateway": ("torch", "transformers"),
    "media": ("torch", "transformers", "starlette", "websockets"),
    "lookhear": ("torch", "transformers", "starlette", "uvicorn", "av", "onnxruntime"),
}
MAX_LINES = 400


def sources(package: str) -> Iterator[Path]:
    yield from FOLDERS[package].rglob("*.py")


def imported(path: Path, *, top_level_only: bool) -> Iterator[str]:
    """Full names of the modules that a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


def is_below(module: str, root: str) -> bool:
    return module == root or module.startswith(f"{root}.")


@pytest.mark.parametrize("package", OURS)
def test_packages_import_only_what_the_design_allows(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in sources(package)
        for module in imported(path, top_level_only=False)
        if any(is_below(module, ours) for ours in OURS)
        and not any(is_below(module, root) for root in (package, *ALLOWED[package]))
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
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
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
        for package in OURS
        for path in sources(package)
        if "triton" not in path.parts
        and any(is_below(m, "triton") for m in imported(path, top_level_only=False))
    ]
    assert not wrong


def test_a_file_is_a_noun_of_a_readable_size() -> None:
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for package in OURS
        for path in sources(package)
    }
    assert not {name: lines for name, lines in sizes.items() if lines > MAX_LINES}


def test_every_package_is_in_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(project["tool"]["setuptools"]["packages"])
    folders = FOLDERS | {"benchmarks": ROOT / "benchmarks"}
    found = {
        ".".join((name, *path.parent.relative_to(folder).parts))
        for name, folder in folders.items()
        for path in folder.rglob("__init__.py")
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }
    assert listed == found | {"lookhear.browser"}
