"""Places between two heartbeats: a burst is counted one by one, and nobody twice for long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.client.places import Places
from lookhear.engine.messages import LiveLoad


def load(speakers: int, places: int) -> LiveLoad:
    return LiveLoad(speakers, places, 1.5, 2.5, 2.0, 10.0)


def test_an_engine_that_bounds_nothing_takes_all() -> None:
    places = Places()
    assert places.load is None
    places.taken(0)
    places.said(1, None)
    assert places.load is None


@given(st.integers(0, 5), st.lists(st.booleans(), max_size=40))
def test_never_more_are_let_in_than_there_are_places(total: int, script: list[bool]) -> None:
    """True: somebody comes. False: a heartbeat, whose answer tells of all before its ping."""
    places, inside, ping = Places(), 0, 0
    places.said(0, load(0, total))
    for comes in script:
        now = places.load
        assert now is not None
        if comes and now.places:
            places.taken(ping)
            inside += 1
        elif not comes:
            ping += 1
            places.said(ping, load(inside, total - inside))
        after = places.load
        assert after is not None
        assert (after.speakers, after.places) == (inside, total - inside)


def test_what_was_said_is_old_until_the_engine_has_heard_who_left() -> None:
    places = Places()
    places.said(1, load(1, 0))
    assert not places.is_old
    places.left(3)  # ping 2 was under way
    places.said(2, load(1, 0))
    assert places.is_old
    places.said(3, load(0, 1))
    assert not places.is_old


def test_who_comes_behind_a_ping_is_not_in_its_answer() -> None:
    places = Places()
    places.said(1, load(0, 2))
    places.taken(2)  # ping 2 is under way
    places.said(2, load(0, 2))
    assert places.load is not None and places.load.places == 1
    places.said(3, load(1, 1))
    assert places.load.places == 1
