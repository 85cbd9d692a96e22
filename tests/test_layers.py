"""Who may import whom, between folders and between the rooms inside them, read from the source; how
large files and folders may be; and that the gateway never loads torch."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import LIVE
from tools import rooms
from tools.rooms import imported

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
    "engine": ("av", "onnxruntime", "starlette", "soundfile", "uvicorn"),
    "kernels": ("av", "onnxruntime", "starlette", "soundfile", "transformers"),
    "gateway": ("torch", "transformers"),
    "media": ("torch", "transformers", "starlette", "websockets"),
    "client": ("torch", "transformers", "starlette", "uvicorn", "av", "onnxruntime"),
}
MAX_LINES = 400
MAX_FILES = 20
MODULES = rooms.modules()


@pytest.fixture(scope="module")
def arrows() -> list[tuple[str, str]]:
    """Who imports whom: all sources are read for it."""
    return sorted(rooms.arrows(MODULES))


def sources(folder: str) -> Iterator[Path]:
    """Python files of a folder. The client's holds links to the others, which are not its own."""
    for path in sorted(FOLDERS[folder].rglob("*.py")):
        if path.resolve().is_relative_to(FOLDERS[folder]):
            yield path


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


@pytest.mark.parametrize("top", rooms.PACKAGES)
def test_rooms_import_each_other_one_way(top: str, arrows: list[tuple[str, str]]) -> None:
    """At every level of nesting."""
    below = [name for name, path in MODULES.items() if path.name == "__init__.py"]
    for package in (top, *(name for name in below if name.startswith(f"{top}."))):
        tangled = rooms.tangled(package, arrows)
        assert not tangled, "\n".join((package, *tangled))


def test_the_drawing_of_the_rooms_is_the_sources() -> None:
    assert rooms.PAGE.read_text(encoding="utf-8") == rooms.page(), "run `make rooms`"


def test_a_cycle_is_found_and_a_tower_is_drawn_from_the_bottom() -> None:
    tower: rooms.Graph = {"top": {"middle", "ground"}, "middle": {"ground"}, "ground": set()}
    assert not rooms.cycles(tower)
    assert rooms.floors(tower) == [["ground"], ["middle"], ["top"]]
    round_trip = {**tower, "ground": {"top"}}
    assert rooms.cycles(round_trip) == [["ground", "middle", "top"]]
    pairs = [("lookhear.a.x", "lookhear.b"), ("lookhear.a.y", "lookhear.a.x")]
    assert rooms.graph("lookhear", pairs) == {"a": {"b"}, "b": set()}
    assert rooms.graph("lookhear.a", pairs) == {"x": set(), "y": {"x"}}


def written() -> Iterator[Path]:
    """All Python and JavaScript that we wrote, tests and tools included."""
    for top in ("benchmarks", "clients", "engine", "gateway", "kernels", "media", "tests", "tools"):
        for kind in ("*.py", "*.js"):
            for path in sorted((ROOT / top).rglob(kind)):
                if path.resolve().is_relative_to(ROOT / top):
                    yield path


def test_a_file_is_a_noun_of_a_readable_size() -> None:
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in written()
        if path.relative_to(ROOT).parts[0] != "tests"
    }
    assert not {name: lines for name, lines in sizes.items() if lines > MAX_LINES}


def test_a_folder_can_be_seen_at_a_glance() -> None:
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in written())
    assert not {name: files for name, files in counts.items() if files > MAX_FILES}


def test_tests_that_live_by_the_clock_are_known() -> None:
    assert not [prefix for prefix in LIVE if not any((ROOT / "tests").glob(f"{prefix}*.py"))]


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


def test_what_the_coverage_is_of_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    measured = project["tool"]["coverage"]["run"]["include"]
    assert not [pattern for pattern in measured if not any(ROOT.glob(pattern))]
