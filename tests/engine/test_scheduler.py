"""Admission: nobody is lost, nobody starves, never more rows than there are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.request import Cost, Priority
from engine.scheduler import Scheduler

KEYS = [f"k{i}" for i in range(6)]
LIVE, BATCH = Priority.LIVE, Priority.BATCH


@given(
    st.lists(
        st.tuples(st.sampled_from(["want", "forget", "admit", "finish"]), st.sampled_from(KEYS)),
        max_size=60,
    ),
    st.integers(1, 4),
)
def test_invariants_hold_under_any_operations(ops: list[tuple[str, str]], rows: int) -> None:
    scheduler = Scheduler(rows, encoder_budget=100)
    for op, key in ops:
        if op == "want" and not scheduler.is_running(key):
            scheduler.want(key, BATCH if key == "k0" else LIVE, Cost(60))
            assert scheduler.is_known(key)
        elif op == "forget":
            scheduler.forget(key)
            assert not scheduler.is_known(key)
        elif op == "admit":
            for admitted in scheduler.admit():
                assert scheduler.is_running(admitted)
        elif op == "finish" and scheduler.is_running(key):
            scheduler.finish(key)
        scheduler.check()


def test_first_come_first_served_and_an_update_keeps_the_place() -> None:
    scheduler = Scheduler(2, encoder_budget=1000)
    for key in ("a", "b", "c"):
        scheduler.want(key, LIVE, Cost(1))
    scheduler.want("a", LIVE, Cost(5))
    assert scheduler.admit() == ["a", "b"]
    scheduler.finish("a")
    scheduler.want("a", LIVE, Cost(1))
    assert scheduler.admit() == ["c"]


def test_live_goes_before_batch_and_keeps_a_row() -> None:
    scheduler = Scheduler(4, encoder_budget=1000)
    for i in range(6):
        scheduler.want(f"file{i}", BATCH, Cost(1))
    scheduler.want("speaker", LIVE, Cost(1))
    assert scheduler.admit() == ["speaker", "file0", "file1"]


def test_a_batch_request_is_not_starved_by_live_ones() -> None:
    scheduler = Scheduler(1, encoder_budget=1000)
    scheduler.want("file", BATCH, Cost(1))
    for i in range(2 * Scheduler.PATIENCE):
        scheduler.want(f"live{i}", LIVE, Cost(1))
        (admitted,) = scheduler.admit()
        scheduler.finish(admitted)
        if admitted == "file":
            return
    raise AssertionError("the file was never admitted")


def test_the_encoder_budget_bounds_a_step_but_admits_one_at_least() -> None:
    scheduler = Scheduler(8, encoder_budget=100)
    scheduler.want("huge", LIVE, Cost(500))
    scheduler.want("small", LIVE, Cost(50))
    assert scheduler.admit() == ["huge"]
    assert scheduler.admit() == ["small"]
