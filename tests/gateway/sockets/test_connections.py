"""Whatever comes and goes, connections are bounded, and whoever only waits keeps nobody out."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.gateway.sockets import connections as module
from lookhear.gateway.sockets.connections import FULL, PUSHED_OUT, Connections, Place, network

SPARE = 2
HOSTS = ("10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2", "")


class Room:
    """Connections, and what each of them was told."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self.refused: list[str] = []
        self.closed: list[int] = []
        self.connections = Connections(most, most_of_one, self.refused.append)
        self.open: dict[int, Place] = {}
        self.working: set[int] = set()
        self.entered = 0

    def enter(self, host: str) -> Place | None:
        number = self.entered
        self.entered += 1
        place = self.connections.enter(host, lambda: self.closed.append(number))
        for gone in self.closed:
            if self.open.pop(gone, None) is not None:
                self.working.discard(gone)
        if place is not None:
            self.open[number] = place
        return place

    def work(self, number: int) -> None:
        self.connections.work(self.open[number])
        self.working.add(number)


steps = st.lists(
    st.tuples(st.sampled_from(["enter", "enter", "work", "wait", "leave"]), st.integers(0, 99)),
    max_size=120,
)


@pytest.fixture(autouse=True)
def _few_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPARE", SPARE)


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 8), st.integers(1, 8), steps)
def test_bounded_and_fair(most: int, most_of_one: int, script: list[tuple[str, int]]) -> None:
    room = Room(most, most_of_one)
    for action, number in script:
        before = {n for n in room.open if n not in room.working}
        chosen = sorted(room.open)[number % len(room.open)] if room.open else None
        if action == "enter":
            closed = len(room.closed)
            place = room.enter(HOSTS[number % len(HOSTS)])
            pushed = room.closed[closed:]
            assert len(pushed) <= 1 and before.issuperset(pushed), "who works is left alone"
            if place is None:
                assert room.refused[-1] == FULL
                spare = {n for n in room.open if room.open[n].spare}
                assert len(spare) == SPARE and spare <= room.working
        elif chosen is not None and action == "work":
            room.work(chosen)
        elif chosen is not None and action == "wait":
            room.connections.wait(room.open[chosen])
            room.working.discard(chosen)
        elif chosen is not None:
            room.connections.leave(room.open.pop(chosen))
            room.working.discard(chosen)
        usual = [place for place in room.open.values() if not place.spare]
        assert len(room.connections) == len(room.open)
        assert len(usual) <= most and len(room.open) - len(usual) <= SPARE
        for address in {place.address for place in usual}:
            assert sum(place.address == address for place in usual) <= most_of_one
    assert room.refused.count(PUSHED_OUT) == len(room.closed)


def test_who_only_connects_keeps_nobody_out() -> None:
    room = Room(most=4, most_of_one=4)
    for _ in range(100):
        room.enter("10.0.0.1")
    assert room.closed == list(range(96)), "the oldest first"
    newcomer = room.enter("10.0.0.2")
    assert newcomer is not None and not newcomer.spare


def test_one_address_takes_its_share_only() -> None:
    room = Room(most=4, most_of_one=2)
    for number in range(3):
        room.enter("10.0.0.1")
        room.work(number)
    assert [place.spare for place in room.open.values()] == [False, False, True]
    other = room.enter("10.0.0.2")
    assert other is not None and not other.spare and not room.closed


def test_spare_places_are_for_the_newest() -> None:
    room = Room(most=1, most_of_one=1)
    room.enter("10.0.0.1")
    room.work(0)
    for _ in range(10):
        place = room.enter("10.0.0.2")
        assert place is not None and place.spare
    assert room.closed == list(range(1, 11 - SPARE)), "and who works is left alone"


def test_who_left_is_not_waited_for() -> None:
    room = Room(most=1, most_of_one=1)
    place = room.enter("10.0.0.1")
    assert place is not None
    room.connections.leave(place)
    room.connections.leave(place)
    room.connections.wait(place)
    assert len(room.connections) == 0
    room.enter("10.0.0.1")
    assert not room.closed


@pytest.mark.parametrize(
    ("host", "same"),
    [
        ("10.0.0.1", "::ffff:10.0.0.1"),
        ("2001:db8::1", "2001:db8::ffff:0:1"),
        ("fe80::1%eth0", "fe80::2"),
    ],
)
def test_what_is_one_address(host: str, same: str) -> None:
    assert network(host) == network(same)


@pytest.mark.parametrize(
    ("host", "other"),
    [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8:0:1::1"), ("", "10.0.0.1")],
)
def test_what_is_not(host: str, other: str) -> None:
    assert network(host) != network(other)


@pytest.mark.parametrize("proxy", ["10.0.0.1", "::ffff:10.0.0.1"])
def test_a_proxy_has_as_many_as_there_are(proxy: str) -> None:
    """Also where one socket takes IPv4 and IPv6."""
    proxies = [ipaddress.ip_network("10.0.0.0/24"), ipaddress.ip_network("fd00::/8")]
    connections = Connections(4, 2, lambda _: None, proxies)
    for host in (proxy, proxy, proxy, "192.0.2.1"):
        place = connections.enter(host, lambda: None)
        assert place is not None and not place.spare
        connections.work(place)
    late = connections.enter(proxy, lambda: None)
    assert late is not None and late.spare, "but no more than that"
