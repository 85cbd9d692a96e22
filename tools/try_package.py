"""The package as a stranger installs it: `python -m tools.try_package`, minutes and an index.

tests/test_package.py builds and runs the same without a network. Here pip resolves everything in
fresh environments: the light client, with other people's `kernels` and `media` installed before and
after, against a server of this checkout; what is not on the index is said and left out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from lookhear.commands.private_server import ServerProcess

ROOT = Path(__file__).resolve().parent.parent
RECORDING = ROOT / "tools" / "demo" / "lookhear_demo" / "recordings" / "hello.opus"
NEIGHBOURS = ("kernels", "media")


class Environment:
    """A fresh virtual environment."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        self.folder = folder
        self._python = str(folder / "bin" / "python")

    def run(self, *argv: str) -> str:
        """What its Python prints, started in its folder. CalledProcessError."""
        command = [self._python, *argv]
        done = subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.PIPE)
        return done.stdout.decode()

    def install(self, *what: str) -> bool:
        """Whether pip could."""
        command = [self._python, "-m", "pip", "install", "--quiet", *what]
        return subprocess.run(command, cwd=self.folder, stderr=subprocess.DEVNULL).returncode == 0


def neighbours(environment: Environment) -> str:
    """Installs what is on the index; the code that imports it."""
    there = [name for name in NEIGHBOURS if environment.install(name)]
    print(f"   neighbours: {', '.join(there) or 'none'} of {', '.join(NEIGHBOURS)}")
    return f"import {', '.join(['sys', *there])}"


def main() -> int:
    """Exit status 0, or CalledProcessError with what failed above it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT],
            check=True,
        )
        (wheel,) = folder.glob("*.whl")
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")
        with ServerProcess(0, ["--model", "demo-whisper"]) as server:
            for order in ("before", "after"):
                print(f"neighbours installed {order} lookhear")
                environment = Environment(folder / order)
                imports = neighbours(environment) if order == "before" else ""
                assert environment.install(str(wheel)), "pip could not install the wheel"
                imports = imports or neighbours(environment)
                environment.run("-c", f"{imports}; import lookhear, lookhear.client")
                timed = "import time; t = time.perf_counter(); import lookhear; "
                seconds = environment.run("-c", f"{timed}print(time.perf_counter() - t)")
                print(f"   import lookhear: {float(seconds) * 1e3:.1f} ms")
                print("  ", environment.run("-m", "lookhear", "--version").strip())
                where = "--server", server.address.base_url
                print("  ", environment.run("-m", "lookhear", "models", *where).splitlines()[-1])
                said = environment.run("-m", "lookhear", "transcribe", str(RECORDING), *where)
                print("  ", said.strip())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
