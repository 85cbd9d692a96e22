"""`lookhear bench peers install`: an environment for each peer.

A recipe is a list of exact versions, in recipes/NAME.txt, as they were tested. They are installed
with --no-deps: the peers' own bounds ask for CUDA wheels, or clash with each other.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from lookhear.errors import NotInstalled, UsageError

RECIPES = Path(__file__).resolve().parent / "recipes"
# Beside ours, where nobody looks for sources of this project.
ENVIRONMENTS = Path(__file__).resolve().parents[2] / ".venv" / "peers"
# Installed one after the other: torch has an index of its own, that the others do not need.
INGREDIENTS: dict[str, tuple[str, ...]] = {
    "faster-whisper": ("faster-whisper",),
    "whisperlivekit": ("torch", "whisperlivekit"),
    "whisperlive": ("torch", "whisperlive"),
}
_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.+!_-]+)")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What one pip call installs. pins: version by package, in the file's order."""

    name: str
    path: Path
    pins: dict[str, str]

    @classmethod
    def read(cls, name: str, folder: Path = RECIPES) -> Recipe:
        """ValueError for a line that is neither a comment, an option nor an exact version."""
        path = folder / f"{name}.txt"
        pins: dict[str, str] = {}
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            text = line.partition("#")[0].strip()
            if not text or text.startswith("--"):
                continue
            found = _PIN.fullmatch(text)
            if found is None:
                raise ValueError(f"{path}:{number}: expected NAME==VERSION, got {text!r}")
            if found["name"].lower() in pins:
                raise ValueError(f"{path}:{number}: {found['name']} is there twice")
            pins[found["name"].lower()] = found["version"]
        return cls(name, path, pins)


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment of one peer, there or not."""

    name: str
    folder: Path
    recipes: tuple[Recipe, ...]

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def versions(self) -> dict[str, str]:
        """All pins."""
        return {name: pin for recipe in self.recipes for name, pin in recipe.pins.items()}

    @property
    def installed(self) -> bool:
        """Whether it was installed to its end, by the recipes as they are now."""
        mark = self.folder / "installed"
        return mark.is_file() and mark.read_text("utf-8") == self._digest()

    def require(self) -> Environment:
        """Itself. NotInstalled."""
        if not self.installed:
            raise NotInstalled(
                f"{self.name} has no environment yet: lookhear bench peers install {self.name}"
            )
        return self

    def install(self, console: Console) -> None:
        """From nothing. NotInstalled if pip fails; what it printed is on the terminal then."""
        console.print(f"installing {self.name} into {self.folder} (minutes the first time) ...")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._run([sys.executable, "-m", "venv", str(self.folder)])
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--no-deps"]
        for recipe in self.recipes:
            self._run([*pip, "--requirement", str(recipe.path)])
        (self.folder / "installed").write_text(self._digest(), "utf-8")

    def _run(self, command: list[str]) -> None:
        environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        if subprocess.run(command, env=environment).returncode:
            raise NotInstalled(f"{self.name}: this failed: {' '.join(command)}")

    def _digest(self) -> str:
        text = "".join(recipe.path.read_text("utf-8") for recipe in self.recipes)
        return hashlib.sha256(f"{sys.version_info[:2]}\n{text}".encode()).hexdigest()


def environment(name: str, folder: Path = ENVIRONMENTS) -> Environment:
    """The environment of a name in INGREDIENTS. UsageError for any other."""
    if name not in INGREDIENTS:
        raise UsageError(f"expected one of {', '.join(INGREDIENTS)}, got {name!r}")
    recipes = tuple(Recipe.read(part) for part in INGREDIENTS[name])
    return Environment(name, folder / name, recipes)


def main(argv: list[str]) -> int:
    """NotInstalled, UsageError."""
    parser = argparse.ArgumentParser(
        prog="lookhear bench peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=["install", "list"], help="list: what is there")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(INGREDIENTS)}; all")
    parser.add_argument("--again", action="store_true", help="also what is installed already")
    options = parser.parse_args(argv)
    console = Console(highlight=False, soft_wrap=True)
    for peer in [environment(name) for name in options.names or INGREDIENTS]:
        if options.action == "install" and (options.again or not peer.installed):
            peer.install(console)
        there = f"ready in {peer.folder}" if peer.installed else "not installed"
        console.print(f"{peer.name}: {there}")
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except (NotInstalled, UsageError) as error:
        raise SystemExit(str(error)) from None
