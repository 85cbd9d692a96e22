"""Admission and shares: nobody is lost or starves, never more rows or tokens than there are."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Cost, Demand, Priority
from lookhear.engine.core.scheduler import Scheduler

KEYS = [f"k{i}" for i in range(6)]
LIVE, BATCH = Priority.LIVE, Priority.BATCH


@settings(max_examples=25, deadline=None)
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


# --- deadlines -----------------------------------------------------------------------------------


def test_who_waits_for_the_text_goes_before_who_speaks_on_and_files_go_last() -> None:
    scheduler = Scheduler(8, encoder_budget=1000)
    scheduler.want("file", BATCH, Cost(1))
    scheduler.want("speaking", LIVE, Cost(1))
    scheduler.want("finished", LIVE, Cost(1), is_urgent=True)
    assert scheduler.admit() == ["finished", "speaking", "file"]


def test_becoming_urgent_moves_forward_and_a_later_wish_never_back() -> None:
    scheduler = Scheduler(1, encoder_budget=1000)
    scheduler.want("first", LIVE, Cost(1))
    scheduler.want("second", LIVE, Cost(1))
    scheduler.want("second", LIVE, Cost(1), is_urgent=True)
    scheduler.want("second", LIVE, Cost(1))  # more speech came after all
    assert scheduler.admit() == ["second"]


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 4), newcomers=st.integers(1, 5), length=st.integers(1, 3))
def test_no_ticket_starves_whatever_urgent_work_keeps_coming(
    rows: int, newcomers: int, length: int
) -> None:
    """A ticket is overtaken only until its deadline: a bound for everybody, files included."""
    scheduler = Scheduler(rows, encoder_budget=1000)
    for key, priority in (("file", BATCH), ("speaker", LIVE)):
        scheduler.want(key, priority, Cost(1))
    left: dict[str, int] = {}
    admitted_at: dict[str, int] = {}
    for number in range(2 * Scheduler.PATIENCE * newcomers * length):
        for i in range(newcomers):
            scheduler.want(f"n{number}.{i}", LIVE, Cost(1), is_urgent=True)
        for key in scheduler.admit():
            admitted_at[key] = number
            left[key] = length
        for key in list(left):
            left[key] -= 1
            if not left[key]:
                scheduler.finish(key)
                del left[key]
        if {"file", "speaker"} <= set(admitted_at):
            break
    # Those ahead of them are the ones whose deadline is no later.
    assert admitted_at["speaker"] <= (Scheduler.LIVE_SLACK + 1) * newcomers * length
    assert admitted_at["file"] <= (Scheduler.PATIENCE + 1) * newcomers * length


@settings(max_examples=25, deadline=None)
@given(speakers=st.integers(1, 6), rows=st.integers(1, 4), together=st.integers(1, 4))
def test_a_speaker_who_never_stops_waits_at_most_for_all_others_once(
    speakers: int, rows: int, together: int
) -> None:
    scheduler = Scheduler(rows, encoder_budget=1000, together=lambda wanted: together)
    last = dict.fromkeys(KEYS[:speakers], 0)
    for number in range(1, 40):
        for key in last:
            if not scheduler.is_known(key):
                scheduler.want(key, LIVE, Cost(1))
        for key in scheduler.admit():
            last[key] = number
            scheduler.finish(key)
        assert number - min(last.values()) <= -(-speakers // min(rows, together))


@given(st.lists(st.sampled_from([LIVE, BATCH]), max_size=6), st.integers(0, 4))
def test_no_more_live_requests_run_than_are_best_together_and_files_run_beside_them(
    kinds: list[Priority], together: int
) -> None:
    asked: list[int] = []

    def best(wanted: int) -> int:
        asked.append(wanted)
        return together

    scheduler = Scheduler(16, encoder_budget=1000, together=best)
    for key, kind in zip(KEYS, kinds, strict=False):
        scheduler.want(key, kind, Cost(1))
    live = [key for key, kind in zip(KEYS, kinds, strict=False) if kind is LIVE]
    files = [key for key, kind in zip(KEYS, kinds, strict=False) if kind is BATCH]
    running: list[str] = []
    while scheduler.num_waiting:
        running += scheduler.admit()
        assert asked[-1] == len([key for key in live if scheduler.is_known(key)])
        speaking = [key for key in live if scheduler.is_running(key)]
        assert len(speaking) == min(max(1, together), asked[-1])
        assert set(files) <= set(running)
        for key in speaking:
            scheduler.finish(key)
    assert sorted(running) == sorted(live + files)


# --- reservation ---------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([*KEYS, "tick"]), st.integers(1, 120)), max_size=80),
    st.integers(1, 4),
)
def test_no_more_room_is_promised_than_there_is(ops: list[tuple[str, int]], rows: int) -> None:
    scheduler = Scheduler(rows, encoder_budget=100)
    total = 100
    held: dict[str, int] = {}
    costs: dict[str, int] = {}
    for key, size in ops:
        if key == "tick":
            was_idle = not held
            for i, name in enumerate(scheduler.admit(total - sum(held.values()))):
                held[name] = costs[name]
                assert sum(held.values()) <= total or (was_idle and i == 0)
            if held:
                first = next(iter(held))
                del held[first]
                scheduler.finish(first)
        elif not scheduler.is_running(key):
            costs[key] = size
            scheduler.want(key, LIVE, Cost(1, size))
    # And at rest everybody gets it, also what is larger than all there is (to fail by itself).
    for _ in range(200):
        for name in list(held):
            scheduler.finish(name)
            del held[name]
        held = dict.fromkeys(scheduler.admit(total), 0)
    assert not held and scheduler.num_waiting == 0


def test_a_large_one_is_overtaken_only_until_its_deadline() -> None:
    scheduler = Scheduler(4, encoder_budget=1000)
    scheduler.want("long runner", LIVE, Cost(1, 60))
    assert scheduler.admit(100) == ["long runner"]
    scheduler.want("large", LIVE, Cost(1, 90))
    overtakers = 0
    for i in range(3 * Scheduler.LIVE_SLACK):
        scheduler.want(f"small{i}", LIVE, Cost(1, 10))
        for key in scheduler.admit(40):
            overtakers += 1
            scheduler.finish(key)
    assert 1 <= overtakers <= Scheduler.LIVE_SLACK + 1
    scheduler.finish("long runner")
    assert scheduler.admit(100)[0] == "large"


def test_what_can_never_fit_is_admitted_to_fail_and_does_not_block_the_others() -> None:
    scheduler = Scheduler(4, encoder_budget=1000)
    scheduler.want("giant", LIVE, Cost(1, 10_000))
    scheduler.want("small", LIVE, Cost(1, 10))
    assert scheduler.admit(100) == ["giant"]
    scheduler.forget("giant")  # it failed
    assert scheduler.admit(100) == ["small"]


def test_batch_requests_leave_rows_to_speakers_while_they_run() -> None:
    scheduler = Scheduler(4, encoder_budget=1000)
    for i in range(6):
        scheduler.want(f"file{i}", BATCH, Cost(1))
    assert scheduler.admit() == ["file0", "file1"]
    for _ in range(2 * Scheduler.PATIENCE):  # overdue files may not take more either
        assert not scheduler.admit()
    scheduler.want("speaker", LIVE, Cost(1))
    assert scheduler.admit() == ["speaker"]


# --- tokens of a step ----------------------------------------------------------------------------


def running(budget: int, *keys: str) -> Scheduler:
    """A scheduler in which the keys run; earlier ones have earlier deadlines."""
    scheduler = Scheduler(8, encoder_budget=10**6, token_budget=budget)
    for key in keys:
        scheduler.want(key, LIVE, Cost(1))
        assert scheduler.admit() == [key]
    return scheduler


def test_decodes_come_first_and_prompts_share_the_rest_by_deadline() -> None:
    scheduler = running(20, "early", "late", "a", "b")
    demands = {
        "late": Demand(30),
        "early": Demand(12),
        "a": Demand(1),
        "b": Demand(1),
    }
    assert scheduler.share(demands) == {"a": 1, "b": 1, "early": 12, "late": 6}


def test_a_long_prompt_is_read_in_chunks_beside_decodes_that_never_wait() -> None:
    scheduler = running(16, "prompt", "speaker")
    left, steps = 100, 0
    while left:
        shares = scheduler.share({"prompt": Demand(left), "speaker": Demand(1)})
        assert shares["speaker"] == 1 and shares["prompt"] <= 15
        left -= shares["prompt"]
        steps += 1
    assert steps == 7


def test_short_prompts_are_read_beside_the_first_half_of_a_long_one() -> None:
    scheduler = running(20, "book", "line", "letter", "word")
    demands = {"book": Demand(500), "line": Demand(8), "letter": Demand(14), "word": Demand(2)}
    assert scheduler.share(demands) == {"book": 10, "line": 8, "word": 2}
    # Whoever is done in this step anyway waits for nobody.
    assert scheduler.share({"book": Demand(12), "line": Demand(8)}) == {"book": 12, "line": 8}
    assert scheduler.share({"book": Demand(18), "line": Demand(8)}) == {"book": 18, "line": 2}


def test_the_draft_counts_against_the_budget() -> None:
    scheduler = running(16, "a", "b")
    assert scheduler.share({"a": Demand(1, draft=9), "b": Demand(20)}) == {"a": 10, "b": 6}


def test_what_cannot_be_divided_is_fed_whole_or_waits() -> None:
    scheduler = running(20, "a", "b")
    whole = Demand(15, divisible=False)
    assert scheduler.share({"a": whole, "b": whole}) == {"a": 15}
    assert scheduler.share({"b": whole}) == {"b": 15}
    assert scheduler.share({"a": Demand(50, divisible=False), "b": whole}) == {"a": 50}


def test_who_waits_for_another_is_fed_nothing() -> None:
    scheduler = running(20, "a", "b")
    assert scheduler.share({"a": Demand(40, waiting=True), "b": Demand(40)}) == {"b": 20}


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.builds(
            Demand,
            known=st.integers(1, 40),
            draft=st.integers(0, 12),
            divisible=st.booleans(),
            waiting=st.booleans(),
        ),
        max_size=8,
    ),
    st.integers(9, 60),
)
def test_tokens_are_conserved_and_somebody_always_goes_on(
    wishes: list[Demand], budget: int
) -> None:
    demands = {f"k{i}": wish for i, wish in enumerate(wishes)}
    scheduler = running(budget, *demands)
    shares = scheduler.share(demands)
    decodes = {
        k
        for k, d in demands.items()
        if d.known == 1 and (d.divisible or not d.draft) and not d.waiting
    }
    assert decodes <= set(shares)
    over = []
    for key, count in shares.items():
        demand = demands[key]
        assert 0 < count <= demand.known + demand.draft and not demand.waiting
        if not demand.divisible:
            assert count == demand.known + demand.draft
            over.append(key)
    if sum(shares.values()) > budget:
        # One that cannot be divided exceeds it by itself: nothing but decodes runs beside it.
        assert set(shares) - decodes == set(over) - decodes and len(set(over) - decodes) == 1
    assert bool(shares) == any(not d.waiting for d in wishes)
    # The keys' deadlines are in their order: the first of the prompts has half of what there is.
    prompts = [k for k, d in demands.items() if d.known + d.draft > 1 and not d.waiting]
    if prompts and demands[prompts[0]].divisible:
        wanted, rest = sum(demands[prompts[0]][:2]), budget - len(decodes)
        assert shares[prompts[0]] >= min(wanted, rest // 2)


def test_one_token_is_fed_whatever_it_is_of() -> None:
    scheduler = Scheduler(4, encoder_budget=100, token_budget=16)
    for key in ("a", "b", "c"):
        scheduler.want(key, LIVE, Cost(1))
    scheduler.admit()
    whole = Demand(1, divisible=False)
    drafted = Demand(1, draft=30)  # more than a step takes
    shares = scheduler.share({"a": whole, "b": drafted, "c": Demand(1, draft=3, divisible=False)})
    assert shares == {"a": 1, "b": 11, "c": 4}
    assert scheduler.share({"a": whole, "c": Demand(1, draft=3, divisible=False)}) == {
        "a": 1,
        "c": 4,
    }
