"""Variables of the environment that are called as ours are, and that nothing reads."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches

from lookhear.transport.address import KEY_VARIABLE, SERVER_VARIABLE

PREFIX = "LOOKHEAR_"
# Beside the options of `lookhear serve`: of clients, of engines, of the tests.
KNOWN = (
    SERVER_VARIABLE, KEY_VARIABLE, "LOOKHEAR_CONFIG", "LOOKHEAR_MODEL",
    "LOOKHEAR_TRITON", "LOOKHEAR_EARLY_LAUNCH",
    "LOOKHEAR_AGENTS_PYTHON", "LOOKHEAR_DEEPGRAM_PYTHON", "LOOKHEAR_FUZZ", "LOOKHEAR_GPU_DRY_RUN",
    "LOOKHEAR_IMAGES", "LOOKHEAR_NODE_FOLDER", "LOOKHEAR_RECIPES_PYTHON",
)  # fmt: skip
# What Kubernetes tells every container of services called lookhear, or lookhear-NAME.
_OF_SERVICES = re.compile(
    r"(\w+_)?(SERVICE_HOST=.*|SERVICE_PORT(_\w+)?=.*|PORT(_\d+_(TCP|UDP|SCTP)_\w+=.*|\w*=\w+://.*))"
)
_NOT_SET = ("help", "print-config")  # options that stand on a command line alone


def unread(
    environ: Mapping[str, str], serve_parser: Callable[[], argparse.ArgumentParser | None]
) -> Iterator[str]:
    """A line about each. serve_parser: makes that of `lookhear serve`, None where it is not
    installed: then only what is nearly a client's name is told. Asked only if it is needed."""
    strange = {
        name.removeprefix(PREFIX): value
        for name, value in environ.items()
        if name.startswith(PREFIX) and value and name not in KNOWN
    }
    if not strange:
        return
    parser = serve_parser()
    known = {name.removeprefix(PREFIX) for name in KNOWN} | set(_options(parser) if parser else ())
    for name, value in sorted(strange.items()):
        if name in known or _OF_SERVICES.fullmatch(f"{name}={value}"):
            continue
        told = f"nothing reads the variable {PREFIX}{name}"
        if near := get_close_matches(name, sorted(known), n=1, cutoff=0.7):
            yield f"{told}; is it {PREFIX}{near[0]}?"
        elif parser:
            yield f"{told}; it is no option of lookhear serve"


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """As they are called in variables, behind the prefix."""
    for action in parser._actions:
        long = [o.removeprefix("--") for o in action.option_strings if o.startswith("--")]
        if long and long[0] not in _NOT_SET:
            yield long[0].replace("-", "_").upper()
