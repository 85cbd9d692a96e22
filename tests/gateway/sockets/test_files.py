"""Connections leave room for the other files of the process, whatever its limit is."""

from __future__ import annotations

import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.gateway.sockets.connections import SPARE
from lookhear.gateway.sockets.files import LEAST, OURS, WANTED, allow_more_files, most_connections

ANY = resource.RLIM_INFINITY
limits = st.one_of(st.integers(0, 3 * WANTED), st.just(ANY))


@given(st.integers(LEAST, 10_000), limits)
def test_never_more_than_files(wanted: int, soft: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resource, "getrlimit", lambda _: (soft, ANY))
        most = most_connections(wanted)
    assert LEAST <= most <= wanted
    room = soft - OURS - SPARE
    assert soft == ANY or most <= max(room, LEAST)
    assert most == wanted or room < wanted


@given(limits, limits)
def test_files_are_only_ever_more(soft: int, hard: int) -> None:
    if hard != ANY and (soft == ANY or soft > hard):
        soft = hard
    asked: list[tuple[int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resource, "getrlimit", lambda _: (soft, hard))
        patch.setattr(resource, "setrlimit", lambda _, limit: asked.append(limit))
        allow_more_files()
    for more, same in asked:
        assert same == hard and soft <= more <= WANTED
        assert hard == ANY or more <= hard
    assert asked or soft == ANY or soft >= WANTED


def test_a_system_that_does_not_allow_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, ANY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    allow_more_files()
