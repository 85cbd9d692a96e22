"""When a lost connection is sought again, and when no more."""

from __future__ import annotations

from lookhear.errors import NOT_READY, ConnectionFailed, ServerError
from lookhear.transport.retry import Attempts, Retry, is_loading


def test_as_many_tries_as_are_allowed_since_the_last_use() -> None:
    attempts = Attempts(Retry(tries=3, first=0.5, cap=1.5))
    waited = []
    while attempts.lost(0.0, useful=False, loading=False):
        waited.append(attempts.delay())
    assert waited == [0.5, 1.0, 1.5]
    assert attempts.lost(0.0, useful=True, loading=False) and attempts.delay() == 0.5


def test_a_server_that_loads_its_model_has_its_time() -> None:
    attempts = Attempts(Retry(tries=1, loading=60.0))
    assert all(
        attempts.lost(now, useful=False, loading=True) and attempts.delay() > 0
        for now in (100.0, 101.0, 130.0, 160.0)
    )
    assert not attempts.lost(161.0, useful=False, loading=True)
    assert not attempts.lost(162.0, useful=False, loading=False)  # it went away instead


def test_who_is_loading() -> None:
    assert is_loading(ServerError("the engine is not ready", NOT_READY))
    assert not is_loading(ServerError("the engine died", "engine_died"))
    assert not is_loading(ConnectionFailed("refused")) and not is_loading(None)
