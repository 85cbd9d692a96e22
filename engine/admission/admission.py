"""Who may begin to speak, so that those who speak keep their lag. Pure: time comes in as numbers.

A session has a *place* from the moment it was let in until it closes. It is let in if, with it,
95 of 100 words would still keep within the bound (`engine.admission.lag`), from what ticks were
measured to cost (`engine.admission.tick_cost`) and how much those inside speak. Nobody inside ever
loses a place, and an engine with nobody inside always takes one.

How much a session speaks is measured over the last minutes. A newcomer counts as one who never
pauses, and becomes what it is. One that is silent for long still counts a little, because it may
begin to speak at any moment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from lookhear.engine.admission.lag import LagModel, crowds
from lookhear.engine.admission.tick_cost import Rehearsal, TickCost
from lookhear.engine.core.core import Step
from lookhear.engine.messages import SAMPLE_RATE, LiveLoad

HABIT_SECONDS = 90.0  # after which what a session did counts by a third
LEAST_SHARE = 0.1  # of the time that a session counts as speaking, however silent it was
MOST_PLACES = 4096
USUAL_STAY = 60.0  # seconds: of a session, until some were seen to end
STAY_WEIGHT = 0.1  # of the session that ended last in how long one usually stays
SOONEST, LATEST = 1.0, 60.0  # seconds after which to come back


@dataclass(slots=True)
class _Inside:
    """A session with a place. share: of the time in which it speaks, as it was at `seen`."""

    since: float
    seen: float
    share: float = 1.0

    def at(self, now: float) -> float:
        """Its share of the time, now."""
        faded = self.share * math.exp(-max(0.0, now - self.seen) / HABIT_SECONDS)
        return min(1.0, max(LEAST_SHARE, faded))

    def spoke(self, seconds: float, now: float) -> None:
        faded = self.share * math.exp(-max(0.0, now - self.seen) / HABIT_SECONDS)
        # A steady speaker stays at 1: what fades in t seconds is what t seconds of speech add.
        self.share = min(1.0, faded + 1 - math.exp(-seconds / HABIT_SECONDS))
        self.seen = now


@dataclass(slots=True)
class Admission:
    """bound: seconds that p95 of the lag should keep within; infinite: everybody is let in. `now`
    is brought up to date before anything is asked or told."""

    bound: float
    lag: LagModel
    now: float = 0.0
    cost: TickCost = field(default_factory=TickCost)
    _inside: dict[str, _Inside] = field(default_factory=dict)
    _stay: float = USUAL_STAY

    def rehearsed(self, rehearsal: Rehearsal) -> None:
        """What ticks cost before anybody spoke."""
        self.cost.rehearsed(rehearsal)
        self._stay = USUAL_STAY  # sessions of the rehearsal ended, too

    # --- who is inside ---------------------------------------------------------------------------

    def has(self, session: str) -> bool:
        """Whether the session has a place."""
        return session in self._inside

    def enter(self, session: str) -> None:
        """The session has a place from now on. Idempotent."""
        self._inside.setdefault(session, _Inside(self.now, self.now))

    def leave(self, session: str) -> None:
        """The session closed. Idempotent."""
        gone = self._inside.pop(session, None)
        if gone is not None:
            self._stay += STAY_WEIGHT * (self.now - gone.since - self._stay)

    def heard(self, session: str, num_samples: int) -> None:
        """So much more speech of the session came, at 16 kHz; silence is not speech."""
        if num_samples > 0 and (inside := self._inside.get(session)) is not None:
            inside.spoke(num_samples / SAMPLE_RATE, self.now)

    def stepped(self, step: Step, seconds: float) -> None:
        """The engine took so long for a step, and for the messages before it."""
        self.now += seconds
        self.cost.step(step.live, step.done, mixed=step.mixed, seconds=seconds, now=self.now)

    # --- the prediction --------------------------------------------------------------------------

    def load(self) -> LiveLoad:
        """How many speak, how many more may, and what that would do."""
        speakers, cost = len(self._inside), self.cost.cost
        if cost is None:  # nothing was ever measured, so nothing is promised
            return LiveLoad(speakers, MOST_PLACES, 0.0, 0.0, self.bound, self._come_back())
        others = crowds([inside.at(self.now) for inside in self._inside.values()])
        places = self.lag.places(self.bound, cost, others, MOST_PLACES)
        if not speakers:
            places = max(1, places)
        return LiveLoad(
            speakers,
            places,
            self.lag.lag(cost, others, 1),
            self.lag.lag(cost, others, places + 1),
            self.bound,
            self._come_back(),
            cost.of_one(1),
        )

    def together(self, wanted: int) -> int:
        """How many of so many ticks are best worked on at once."""
        cost = self.cost.cost
        if cost is None:
            return self.lag.rows
        return round(float(self.lag.together(cost, np.array([float(wanted)]))[0]))

    def refusal(self) -> str | None:
        """Why nobody more may begin to speak, in words; None if somebody may."""
        load = self.load()
        return None if load.places else load.refusal

    def _come_back(self) -> float:
        """Seconds until one of those inside will probably have gone: they stay as long as others
        did, and any of them may go."""
        return min(LATEST, max(SOONEST, self._stay / max(1, len(self._inside))))
