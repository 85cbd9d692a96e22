"""When a lost connection is sought again, and when no more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lookhear.errors import NOT_READY, ConnectionFailed, ServerError
from lookhear.transport.retry import Attempts, Retry, is_loading


def waits(attempts: Attempts, patience: float, told: float | None = None) -> list[float]:
    """The pauses until it is given up, where each try fails at once."""
    now, waited = 100.0, []
    while attempts.lost(now, patience=patience, told=told):
        waited.append(attempts.delay())
        now += waited[-1]
    return waited


def test_as_many_tries_as_are_allowed_since_the_last_use() -> None:
    attempts = Attempts(Retry(tries=3, first=0.5, cap=1.5, jitter=0.0))
    assert waits(attempts, patience=1e9) == [0.5, 1.0, 1.5]
    assert attempts.lost(0.0, patience=1.0, useful=True) and attempts.delay() == 0.5


@given(patience=st.floats(1, 1000), chances=st.floats(0, 1), cap=st.floats(0.5, 20))
def test_it_is_sought_for_as_long_as_told_in_growing_pauses(
    patience: float, chances: float, cap: float
) -> None:
    retry = Retry(cap=cap)
    found = waits(Attempts(retry, lambda: chances), patience)
    longest = cap * (1 + retry.jitter)
    assert patience <= sum(found) + 1e-9 and sum(found) < patience + longest + 1e-9
    assert found == sorted(found) and found[-1] <= longest
    for index, pause in enumerate(found):
        assert abs(pause / retry.delay(index) - 1) <= retry.jitter + 1e-9


def test_three_hundred_seconds_are_more_than_fifteen() -> None:
    """With the defaults, a server that is away for 299 s is found again."""
    found = waits(Attempts(Retry(), lambda: 0.5), 300.0)
    assert 300 <= sum(found) < 310 and len(found) > 30


@given(told=st.floats(1, 60), chance=st.floats(0, 1))
def test_nobody_comes_back_before_the_server_says(told: float, chance: float) -> None:
    found = waits(Attempts(Retry(), lambda: chance), 60.0, told)
    assert found and all(pause >= told for pause in found)
    assert sum(found[:-1]) + told <= 60.0


def test_who_is_told_to_come_later_than_we_can_wait_gives_up_at_once() -> None:
    assert waits(Attempts(Retry()), 20.0, told=21.0) == []


def test_a_server_that_loads_its_model_has_its_time() -> None:
    attempts = Attempts(Retry(tries=1, loading=60.0))
    assert all(
        attempts.lost(now, patience=1.0, loading=True) and attempts.delay() > 0
        for now in (100.0, 101.0, 130.0, 160.0)
    )
    assert not attempts.lost(161.0, patience=1.0, loading=True)
    assert not attempts.lost(162.0, patience=1.0)  # it went away instead


def test_who_is_loading() -> None:
    assert is_loading(ServerError("the engine is not ready", NOT_READY))
    assert not is_loading(ServerError("the engine died", "engine_died"))
    assert not is_loading(ConnectionFailed("refused")) and not is_loading(None)
