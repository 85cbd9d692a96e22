"""Slots: who gets them, whatever comes."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.gateway.slots import Claim, SlotPolicy, Slots, Ticket

SIZES = st.integers(1, 6)
# Someone comes (client, request), or one of those who are there leaves.
MOVES = st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 2)), max_size=60)


@given(SIZES, SIZES, SIZES, MOVES)
def test_no_limit_is_passed_and_no_slot_is_idle_without_need(
    total: int, per_client: int, per_request: int, moves: list[tuple[bool, int, int]]
) -> None:
    policy = SlotPolicy(total, per_client, per_request)
    present: list[Ticket] = []
    for comes, client, request in moves:
        if comes or not present:
            present.append(policy.ask(Claim(f"client {client}", f"request {request}")))
        else:
            policy.leave(present.pop((client * 3 + request) % len(present)))
        granted = policy.grant()
        assert all(ticket.holds for ticket in granted)
        holders = [ticket for ticket in present if ticket.holds]
        clients = Counter(ticket.claim.client for ticket in holders)
        requests = Counter(ticket.claim for ticket in holders)
        assert policy.held == len(holders) <= total
        assert policy.waiting == len(present) - len(holders)
        assert all(count <= per_client for count in clients.values())
        assert all(count <= per_request for count in requests.values())
        if len(holders) < total:
            for ticket in present:
                if not ticket.holds and requests[ticket.claim] == 0:
                    assert clients[ticket.claim.client] == per_client
    for ticket in present:
        policy.leave(ticket)
    assert policy.held == policy.waiting == 0 and policy.grant() == []


@given(st.integers(2, 8), st.integers(1, 40))
def test_one_client_leaves_a_slot_to_the_next(total: int, jobs: int) -> None:
    """Where a client may hold one less than all, as decoders are shared: another never waits."""
    policy = SlotPolicy(total, total - 1, total - 1)
    for number in range(jobs):
        policy.ask(Claim("greedy", f"request {number % 3}"))
    policy.grant()
    other = policy.ask(Claim("modest", "request"))
    assert policy.grant() == [other]


@given(st.integers(2, 8), st.integers(2, 40))
def test_a_request_with_much_to_do_does_not_stop_another_of_its_client(
    per_client: int, jobs: int
) -> None:
    policy = SlotPolicy(64, per_client, per_client)
    for _ in range(jobs):
        policy.ask(Claim("client", "with much to do"))
    policy.grant()
    other = policy.ask(Claim("client", "with one thing"))
    assert policy.grant() == [other]


@given(st.integers(1, 4), st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_everybody_gets_a_slot_though_others_keep_coming(total: int, first: list[int]) -> None:
    """Whenever one ends, two more of the busiest client come."""
    policy = SlotPolicy(total, total, 1)
    waiting = {policy.ask(Claim(f"client {c}", f"request {n}")) for n, c in enumerate(first)}
    served: list[Ticket] = policy.grant()
    for number in range(10 * len(first) + 10):
        waiting -= set(served)
        if not waiting:
            return
        for more in range(2):
            policy.ask(Claim("client 0", f"later {number} {more}"))
        policy.leave(served.pop(0))
        served += policy.grant()
    raise AssertionError(f"{len(waiting)} still wait")


@given(SIZES, st.lists(st.integers(1, 8), min_size=1, max_size=20), st.data())
def test_who_wants_several_gets_them_at_once_and_in_turn(
    total: int, sizes: list[int], data: st.DataObject
) -> None:
    policy = SlotPolicy(total, total, total)
    waiting = [policy.ask(Claim("client", f"request {n}"), size) for n, size in enumerate(sizes)]
    holders = policy.grant()
    order = list(holders)
    while holders:
        held = sum(ticket.size for ticket in holders)
        assert policy.held == held and (held <= total or len(holders) == 1)
        policy.leave(holders.pop(data.draw(st.integers(0, len(holders) - 1))))
        granted = policy.grant()
        holders += granted
        order += granted
    assert order == waiting and policy.held == 0


@pytest.mark.asyncio
async def test_who_is_cancelled_gives_back_a_slot_or_the_place_in_the_queue() -> None:
    slots = Slots(1, 1, 1)
    inside, leave = asyncio.Event(), asyncio.Event()

    async def hold(name: str) -> str:
        async with slots.held(Claim(name, "request")):
            inside.set()
            await leave.wait()
            return name

    first, second, third = (asyncio.create_task(hold(name)) for name in ("a", "b", "c"))
    await inside.wait()
    assert slots.waiting == 2
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert slots.waiting == 1
    inside.clear()
    first.cancel()
    await inside.wait()  # the third
    leave.set()
    assert await third == "c" and second.cancelled()
    async with slots.held(Claim("d", "request")):  # and all is as it was
        assert slots.waiting == 0
