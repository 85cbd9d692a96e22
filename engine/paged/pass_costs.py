"""How long passes of a paged runner take, found out before the first request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lookhear.engine.core.request import Priority
from lookhear.engine.core.runner import check_done
from lookhear.engine.drafts.pace import PassCosts
from lookhear.engine.paged.draft_model import ModelDrafter
from lookhear.engine.paged.request import PagedRequest, PagedSequence
from lookhear.engine.paged.runner import PagedRunner

SIZES = (1, 2, 3, 4, 8, 13)  # tokens; with the prompt less than a block: nothing of them is kept
PROMPT = (0, 1)
ROUNDS = 3  # the first of which prepares what libraries prepare for a shape


Clock = Callable[[], float]  # in seconds
Trial = Callable[[PagedSequence, int], None]  # reads so many tokens of an answer


def measured_costs(
    runner: PagedRunner, clock: Clock, drafter: ModelDrafter | None = None
) -> PassCosts:
    """The runner must be idle; its counters begin anew. drafter: whose passes are measured, too.
    Raises what a pass fails with, see `check_done`."""

    def step(sequence: PagedSequence, size: int) -> None:
        sequence.guess([0] * (size - 1))
        check_done(runner.launch([(sequence, size)])())

    drafting = None if drafter is None else _measured(runner, drafter.read_alone, clock)
    found = _measured(runner, step, clock)
    runner.reset_counters()
    return replace(found, draft=drafting)


def _measured(runner: PagedRunner, trial: Trial, clock: Clock) -> PassCosts:
    best = dict.fromkeys(SIZES, float("inf"))
    for number in range(ROUNDS):
        for size in SIZES:
            took = _seconds(runner, trial, size, clock)
            if number:
                best[size] = min(best[size], took)
    return PassCosts(SIZES, tuple(best.values()))


def _seconds(runner: PagedRunner, trial: Trial, size: int, clock: Clock) -> float:
    """Of a pass that reads so many tokens of one answer."""
    room = SIZES[-1] + 1
    request = PagedRequest(
        "", Priority.BATCH, PROMPT, max_new_tokens=room, loop_room=None, model_ends=False
    )
    sequence = runner.place(request)
    sequence.is_drafted = True  # it is read before the next step is launched
    check_done(runner.launch([(sequence, len(PROMPT))])())
    began = clock()
    trial(sequence, size)
    took = clock() - began
    runner.release(sequence)
    return took
