"""How families of models write calls of tools. A new one is a file, and a line in `families.py`."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallFamily:
    """A call is `begin` + `head` + name + `middle` + arguments, a JSON object, + `tail`.

    mark: what chat templates of the family have in them. between: two calls. found: a call as
    models write it who are not held to the form: behind `begin`, with the groups `name` and
    `arguments`, up to its end. end: what a call that is found so ends with, "" if its arguments do.
    """

    name: str
    mark: str
    begin: str
    head: str
    middle: str
    tail: str
    between: str
    end: str
    found: re.Pattern[str]

    def before(self, name: str) -> str:
        """What stands between `begin` and the arguments."""
        return f"{self.head}{name}{self.middle}"

    def written(self, name: str, arguments: str) -> str:
        """A whole call. arguments: as JSON text."""
        return f"{self.begin}{self.before(name)}{arguments}{self.tail}"
