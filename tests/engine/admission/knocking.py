"""An engine as a queue, people who come and speak, and the door that lets them in. No model: a tick
takes as long as it is told to, and a word is text as soon as its evidence is."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lookhear.engine.admission.admission import Admission
from lookhear.engine.admission.tick_cost import Cost, Rehearsal
from lookhear.engine.core.core import Step

WORD = 0.3  # seconds


@dataclass(slots=True)
class Person:
    """is_speaking until `turns`; share: of the time, in stretches of some seconds. words: said and
    not text yet, by when they ended. heard: up to when each of the last ticks heard."""

    name: str
    share: float
    turns: float = 0.0
    is_speaking: bool = False
    words: list[float] = field(default_factory=list)
    heard: list[float] = field(default_factory=list)
    said_until: float = 0.0


class Engine:
    """cost: what ticks really take, each a little more or less."""

    def __init__(self, admission: Admission, cost: Cost, seed: int) -> None:
        self.admission, self.cost = admission, cost
        self.random = np.random.default_rng(seed)
        self.people: list[Person] = []
        self.lags: list[tuple[float, float, int]] = []  # when, how long, how many were inside
        self.refused = 0
        self.now = 0.0
        admission.rehearsed(Rehearsal(cost.of_one(1), cost.of_one(4), 4))

    def knock(self, share: float) -> None:
        """One more person wants to speak."""
        self.admission.now = self.now
        if self.admission.load().places == 0:
            self.refused += 1
            return
        name = f"person-{len(self.people)}-{self.now}"
        self.admission.enter(name)
        self.people.append(Person(name, share, said_until=self.now))

    def run(self, seconds: float, *, every: float, share: float) -> None:
        """Somebody knocks every so often."""
        end, knocks = self.now + seconds, self.now
        while self.now < end:
            if self.now >= knocks:
                self.knock(share)
                knocks += every
            self._speak()
            due = [p for p in self.people if p.words and self._wants(p)]
            if due:
                self._serve(due[: self.admission.lag.rows])
            else:
                self.now += 0.01

    def _wants(self, person: Person) -> bool:
        last = person.heard[-1] if person.heard else -np.inf
        return self.now - last >= self.admission.lag.interval

    def _speak(self) -> None:
        self.admission.now = self.now
        for person in self.people:
            if self.now >= person.turns:
                person.is_speaking = bool(self.random.random() < person.share)
                person.turns = self.now + self.random.uniform(1.0, 5.0)
                person.said_until = max(person.said_until, self.now)
            while person.is_speaking and person.said_until + WORD <= self.now:
                person.said_until += WORD
                person.words.append(person.said_until)
                self.admission.heard(person.name, round(WORD * 16_000))

    def _serve(self, people: list[Person]) -> None:
        """One tick of each, together. Those who waited longest come first the next time."""
        began, evidence = self.now, self.admission.lag.evidence
        names = [person.name for person in people]
        seconds = len(people) * self.cost.of_one(len(people)) * self.random.uniform(0.9, 1.1)
        self.now = began + seconds
        self.admission.now = began
        self.admission.stepped(Step(names, names), seconds)
        for person in people:
            person.heard = [at for at in person.heard if at > began - 30] + [began]
            left = []
            for word in person.words:
                first = next((at for at in person.heard if at >= word), None)
                if first is not None and began >= first + evidence:
                    self.lags.append((word, self.now - word, len(self.people)))
                else:
                    left.append(word)
            person.words = left
        served = {id(person) for person in people}
        self.people = [p for p in self.people if id(p) not in served] + people
