"""Takes the messages of a model that makes vectors, or scores. Pure.

A `StartPooling` is a job of many units, each of which is an owner with one request: a document, a
query, or a pair of them. So many of a job's are under way at once, and no more, for tokens are made
of a text when it is its turn; and of long ones so many as keep the device busy, for those who come
with a word find rows free, and wait for no book.
"""

from __future__ import annotations

import logging
from functools import partial

from lookhear.engine.adapters.adapters import Adapters
from lookhear.engine.chat.remote_tower import RemoteTower
from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.desks import refused
from lookhear.engine.core.request import Priority, RequestError
from lookhear.engine.core.runner import Failure
from lookhear.engine.messages import (
    Event,
    Message,
    PoolingFailed,
    StartPooling,
)
from lookhear.engine.pooling.job import PoolingJob, Reading, Scoring, Unit
from lookhear.engine.pooling.owner import PooledPrompt
from lookhear.engine.pooling.prompt import PoolingPrompter

log = logging.getLogger(__name__)

MAX_WAITING = 65_536  # units of all jobs; the policy for more is to refuse the request

KINDS = ("vector", "tokens", "score")


class PoolingDesk:
    """name: the model's on the wire. at_once: units of a job under way. tokens_at_once: that they
    have, about. adapters: that a request may ask for with the model's name. tower: of a model whose
    media are encoded elsewhere."""

    def __init__(
        self,
        name: str,
        prompter: PoolingPrompter,
        reading: Reading,
        *,
        at_once: int,
        tokens_at_once: int,
        adapters: Adapters | None = None,
        tower: RemoteTower | None = None,
    ) -> None:
        self._tower = tower
        self._name = name
        self._prompter = prompter
        self._reading = reading
        self._at_once = at_once
        self._tokens_at_once = tokens_at_once
        self._adapters = adapters
        self._jobs: dict[str, PoolingJob] = {}  # by session

    def take(self, message: Message, core: EngineCore) -> list[Event]:
        """See `Desk`."""
        if self._prompter.prompter.hold(message):
            return []
        if not isinstance(message, StartPooling):
            return refused(message, f"{self._name} makes vectors or scores")
        try:
            self._check(message)
            adapter = self._adapters.of(message.settings.model) if self._adapters else None
        except RequestError as error:
            return [PoolingFailed(message.session, error.code, str(error))]
        job = PoolingJob(message, self._reading, self._prompter, adapter)
        self._jobs[message.session] = job
        return self._go_on(message.session, core)

    def _check(self, message: StartPooling) -> None:
        settings, documents, queries = message.settings, message.documents, message.queries
        waiting = sum(job.num_waiting for job in self._jobs.values())
        if message.session in self._jobs:
            raise RequestError("duplicate_request", "session: it has a request already")
        if settings.kind not in KINDS:
            known = ", ".join(KINDS)
            raise RequestError("invalid_value", f"kind: expected one of {known}")
        if settings.kind == "vector" and self._reading.scoring is Scoring.MAX_SIMILARITY:
            text = f"kind: expected tokens, of each of which {self._name} makes a vector"
            raise RequestError("invalid_value", text)
        if waiting + len(documents) + len(queries) > MAX_WAITING:
            text = f"this engine has {waiting} texts waiting; try again later"
            raise RequestError("too_many_inputs", text)
        if not documents:
            raise RequestError("invalid_value", "documents: expected one at least, got none")
        if settings.kind == "score" and len(queries) not in (1, len(documents)):
            raise RequestError(
                "invalid_value",
                f"queries: expected 1, or {len(documents)} as of documents, got {len(queries)}",
            )
        if settings.dimensions is not None and not 1 <= settings.dimensions <= self._reading.width:
            raise RequestError(
                "invalid_value",
                f"dimensions: expected 1 to {self._reading.width}, got {settings.dimensions}",
            )

    def close(self, session: str) -> None:
        """The session's request, and what it held, are forgotten."""
        self._jobs.pop(session, None)
        for store in self._prompter.prompter.stores:
            store.forget(session)

    def left(self, key: str, session: str, core: EngineCore) -> list[Event]:
        """A unit is done: another one of its job begins."""
        return self._go_on(session, core) if session in self._jobs else []

    def stats(self, core: EngineCore) -> dict[str, int]:
        """Texts under way."""
        return {"pooled_prompts": core.count(PooledPrompt)}

    def _go_on(self, session: str, core: EngineCore) -> list[Event]:
        job, asked = self._jobs[session], list[Event]()
        while job.num_waiting and self._has_room(job):
            unit = job.begin()
            try:
                prompt = job.prompt(unit)
            except RequestError as error:
                return asked + self._failed(session, unit, error.code, str(error))
            except Exception as error:  # our bug with what one client sent: it is only its failure
                log.exception("an input could not be read")
                failure = Failure.of(session, error, "the input could not be read")
                return asked + self._failed(session, unit, failure.code, failure.message)
            key = f"{session}/{unit.side}{unit.index}"
            take, fail = partial(job.take, unit), partial(self._failed, session, unit)
            owner = PooledPrompt(key, prompt, job.pooled, job.salt, take, fail, job.adapter)
            asked += [] if self._tower is None else self._tower.complete(key, prompt)
            core.add(key, Priority.BATCH, owner, session)
        return asked

    def _has_room(self, job: PoolingJob) -> bool:
        if job.num_running >= self._at_once:
            return False
        # However long they are, another one is there when one ends.
        return job.num_running < 2 or job.num_tokens < self._tokens_at_once

    def _failed(self, session: str, unit: Unit, code: str, message: str) -> list[Event]:
        """The request's end; what is under way of it goes when the session does."""
        if self._jobs.pop(session, None) is None:
            return []
        side = "document" if unit.side == "pair" else unit.side
        return [PoolingFailed(session, code, message, side, unit.index)]
