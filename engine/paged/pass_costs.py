"""How long passes of a paged runner take, found out before the first request."""

from __future__ import annotations

from collections.abc import Callable

from lookhear.engine.core.request import Priority
from lookhear.engine.drafts.pace import PassCosts
from lookhear.engine.paged.request import PagedRequest
from lookhear.engine.paged.runner import PagedRunner

SIZES = (1, 2, 3, 4, 8, 13)  # tokens; with the prompt less than a block: nothing of them is kept
PROMPT = (0, 1)
ROUNDS = 3  # the first of which prepares what libraries prepare for a shape


def measured_costs(runner: PagedRunner, clock: Callable[[], float]) -> PassCosts:
    """clock: in seconds. The runner must be idle; its counters begin anew."""
    best = dict.fromkeys(SIZES, float("inf"))
    for number in range(ROUNDS):
        for size in SIZES:
            took = _step(runner, size, clock)
            if number:
                best[size] = min(best[size], took)
    runner.reset_counters()
    return PassCosts(SIZES, tuple(best.values()))


def _step(runner: PagedRunner, size: int, clock: Callable[[], float]) -> float:
    """Seconds of a step that reads so many tokens of one answer."""
    room = SIZES[-1] + 1
    request = PagedRequest(
        "", Priority.BATCH, PROMPT, max_new_tokens=room, guard_loops=False, model_ends=False
    )
    sequence = runner.place(request)
    sequence.is_drafted = True  # it is read before the next step is launched
    runner.launch([(sequence, len(PROMPT))])()
    sequence.guess([0] * (size - 1))
    began = clock()
    runner.launch([(sequence, size)])()
    took = clock() - began
    runner.release(sequence)
    return took
