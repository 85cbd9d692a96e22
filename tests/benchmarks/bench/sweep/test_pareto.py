from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from lookhear.bench.sweep.pareto import Trade, front, plot

NUMBERS = st.integers(0, 6).map(float)
TRADES = st.lists(st.builds(Trade, NUMBERS, NUMBERS, st.sampled_from("abcd"), st.just("<&>")))


def beats(one: Trade, other: Trade) -> bool:
    better = one.seconds <= other.seconds and one.amount >= other.amount
    return better and (one.seconds, one.amount) != (other.seconds, other.amount)


@given(TRADES)
def test_the_front_is_what_nothing_beats(trades: list[Trade]) -> None:
    best = front(trades)
    wanted = [one for one in trades if not any(beats(other, one) for other in trades)]
    assert sorted(best, key=repr) == sorted(wanted, key=repr)
    assert [one.seconds for one in best] == sorted(one.seconds for one in best)


@given(TRADES)
def test_every_point_is_drawn_inside(trades: list[Trade]) -> None:
    drawn = plot(trades, "seconds & more", "amount")
    if not trades:
        assert drawn == ""
        return
    root = ElementTree.fromstring(drawn)
    assert len(root.findall(".//title")) == len(trades)
    width, height = (float(number) for number in root.attrib["viewBox"].split()[2:])
    for mark in root.iter():
        for name, most in (("cx", width), ("x", width), ("cy", height), ("y", height)):
            assert 0 <= float(mark.attrib.get(name, 0)) <= most
