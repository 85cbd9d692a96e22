"""One attack in a process of its own: `python -m lookhear.bench.abuse.attacker JOB`.

JOB is the JSON of `Job`. Its line on stdout, when it is over: how often its tries ended how. It
gives way to the server it attacks, which on other days would be another machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass
from typing import Any

from lookhear.bench.abuse import connections, requests
from lookhear.bench.abuse.place import Assault
from lookhear.errors import LookhearError

ATTACKS: dict[str, Callable[[Assault], Coroutine[Any, Any, None]]] = {
    "uploads": requests.uploads,
    "leavers": requests.leavers,
    "videos": requests.videos,
    "bombs": requests.bombs,
    "slow-urls": requests.slow_urls,
    "schemas": requests.schemas,
    "json-bodies": connections.json_bodies,
    "json-frames": connections.json_frames,
    "heads": connections.heads,
    "bodies": connections.bodies,
    "silent": connections.silent,
    "garbage": connections.garbage,
    "fragments": connections.fragments,
    "deaf": connections.deaf,
    "churn": connections.churn,
}
TO_PICTURES = {"videos", "bombs", "slow-urls", "schemas"}  # want a model that sees
NICE = 10


@dataclass(frozen=True, slots=True)
class Job:
    """Which attack, whom, and for how many seconds. hears, sees: models that do."""

    attack: str
    host: str
    port: int
    seconds: float
    hears: str
    sees: str | None
    headers: dict[str, str]

    def to_json(self) -> str:
        """For the attacker's command line."""
        return json.dumps(asdict(self))


async def attack(job: Job) -> dict[str, int]:
    """From the first try to the last; tries by how they ended. LookhearError."""
    until = asyncio.get_running_loop().time() + job.seconds
    assault = Assault(job.host, job.port, until, job.headers, job.hears, job.sees)
    await ATTACKS[job.attack](assault)
    return dict(sorted(assault.tally.items()))


def main(argv: list[str]) -> int:
    """2: it cannot be carried out; why is a line on stderr."""
    with contextlib.suppress(OSError):
        os.nice(NICE)
    try:
        tally = asyncio.run(attack(Job(**json.loads(argv[0]))))
    except LookhearError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(tally))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
