"""Who may be connected: a bounded number of sockets, of each address and in all. Pure.

Connections wait (for the head of a request, the first or the next) or work. Where there is no room
for a newcomer, the one that has waited longest makes it, so that whoever only opens sockets keeps
nobody out. Where all of them work, a newcomer gets one of a few spare places: its request is heard
and answered at once, which is enough to say "later", and for those who ask whether we are well.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lookhear.media.fetching.addresses import Network

SPARE = 32  # places; each is free again as soon as its one request is answered
NETWORK_BITS = 64  # of an IPv6 address: the rest is the client's own to choose

PUSHED_OUT = "connection_pushed_out"  # it waited, and another one needed its place
FULL = "too_many_connections"


@dataclass(eq=False, slots=True)
class Place:
    """One connection's. close: ends the connection at once. spare: for one request."""

    address: str
    close: Callable[[], object]
    spare: bool = False


class Connections:
    """most: connections that may do anything, in all and of one address. refused: hears why one is
    turned away. proxies: behind their addresses are many clients, so they have as many as there
    are."""

    def __init__(
        self,
        most: int,
        most_of_one: int,
        refused: Callable[[str], None],
        proxies: Sequence[Network] = (),
    ) -> None:
        assert most > 0 and most_of_one > 0, (most, most_of_one)
        self._most = most
        self._most_of_one = most_of_one
        self._refused = refused
        self._proxies = on_both(proxies)
        self._places: set[Place] = set()
        self._spare: set[Place] = set()
        self._waiting: dict[Place, None] = {}  # the longest first, spare ones among them
        self._of_address: Counter[str] = Counter()  # without spare ones

    def __len__(self) -> int:
        return len(self._places) + len(self._spare)

    @property
    def working(self) -> int:
        """How many are at work."""
        return len(self) - len(self._waiting)

    def enter(self, host: str, close: Callable[[], object]) -> Place | None:
        """A place for a new connection from that host, which waits now. None: there is not even a
        spare one."""
        place = Place(network(host), close)
        if self._of_address[place.address] >= self._most_of_one and not self._is_proxy(host):
            room = self._push_out(w for w in self._waiting if w.address == place.address)
        else:
            room = len(self._places) < self._most or self._push_out(self._waiting)
        if room:
            self._places.add(place)
            self._of_address[place.address] += 1
        else:
            place.spare = True
            if len(self._spare) >= SPARE and not self._push_out(self._waiting, spare=True):
                self._refused(FULL)
                return None
            self._spare.add(place)
        self._waiting[place] = None
        return place

    def wait(self, place: Place) -> None:
        """It has been answered, and may ask again."""
        if place in self._places or place in self._spare:
            self._waiting.setdefault(place)

    def work(self, place: Place) -> None:
        """It has asked."""
        self._waiting.pop(place, None)

    def leave(self, place: Place) -> None:
        """It is closed, or about to be. Twice is as good as once."""
        self._waiting.pop(place, None)
        self._spare.discard(place)
        if place in self._places:
            self._places.remove(place)
            self._of_address[place.address] -= 1
            if not self._of_address[place.address]:
                del self._of_address[place.address]

    def _is_proxy(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._proxies)

    def _push_out(self, waiting: Iterable[Place], spare: bool = False) -> bool:
        """Whether there is room now."""
        found = next((place for place in waiting if place.spare is spare), None)
        if found is None:
            return False
        self.leave(found)
        found.close()
        self._refused(PUSHED_OUT)
        return True


def on_both(networks: Iterable[Network]) -> list[Network]:
    """With each network of IPv4 how a socket of IPv6 that takes both names it."""
    given = list(networks)
    mapped = [
        ipaddress.ip_network(f"::ffff:{network.network_address}/{96 + network.prefixlen}")
        for network in given
        if isinstance(network, ipaddress.IPv4Network)
    ]
    return [*given, *mapped]


def network(host: str) -> str:
    """What counts as one address: of IPv6 the network that one household or machine has."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host  # a Unix socket has none
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, NETWORK_BITS), strict=False))
