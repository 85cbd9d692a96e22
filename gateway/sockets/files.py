"""How many sockets a process may have open: to the system they are files."""

from __future__ import annotations

import sys

from lookhear.gateway.sockets.connections import SPARE

if sys.platform != "win32":
    import resource

OURS = 128  # files besides connections: engines, uploads, what is served and fetched
WANTED = 65_536  # where the system lets a process help itself to more than it was given
LEAST = 16  # connections, however few files there are


def allow_more_files() -> None:
    """As many as this process may help itself to. Systems begin with 1,024, for the sake of old
    programs that keep a bit for each."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= WANTED:
        return
    more = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, more), hard))
    except (OSError, ValueError):  # some systems have a lower limit of their own
        pass


def most_connections(wanted: int) -> int:
    """So many as wanted, or as there can be beside the spare ones and all other open files."""
    if sys.platform == "win32":
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(LEAST, min(wanted, soft - OURS - SPARE))
