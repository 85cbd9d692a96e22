"""Whole recordings on their way through engines: each is asked of one, and once more of another if
that one dies. What was told of its text is not told again."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

from lookhear.engine.client.errors import EngineRequestError, EngineUnavailable
from lookhear.engine.client.pool import Pool
from lookhear.engine.client.replica import Replica
from lookhear.engine.messages import (
    CancelFile,
    DiariseFile,
    FileDiarised,
    FileFailed,
    FileProgress,
    FileTranscribed,
    TranscribeFile,
)

FileEvent = FileProgress | FileTranscribed | FileDiarised | FileFailed
OnProgress = Callable[[FileProgress], None]


class _Job:
    """One recording, and what its client has of it."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self.replica: Replica | None = None
        self.future: asyncio.Future[Any] | None = None
        self._on_progress = on_progress
        self._told: list[str] = []
        self._heard = 0  # segments of the engine that has it now

    def begin(self, replica: Replica) -> asyncio.Future[Any]:
        """replica: has it from now on, from the beginning."""
        self.replica, self._heard = replica, 0
        self.future = asyncio.get_running_loop().create_future()
        return self.future

    def hear(self, event: FileProgress) -> None:
        """Pass on what is new of it. If another engine writes it in other words, it has failed."""
        assert self.future is not None
        new = []
        for segment in event.segments:
            self._heard += 1
            if self._heard > len(self._told):
                self._told.append(segment.text)
                new.append(segment)
            elif segment.text != self._told[self._heard - 1]:
                text = "an engine ended, and another one writes the file in other words"
                self.future.set_exception(EngineUnavailable(text))
                return
        if self._on_progress is not None and self._heard == len(self._told):
            self._on_progress(dataclasses.replace(event, segments=new))


class Files:
    """Those under way. Every method belongs to one event loop."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}

    async def transcribe(
        self, pool: Pool, message: TranscribeFile, on_progress: OnProgress | None
    ) -> FileTranscribed:
        """Raises EngineRequestError, EngineUnavailable. Cancelling the call cancels the work."""
        if on_progress is not None:
            message = dataclasses.replace(message, tells_progress=True)
        found: FileTranscribed = await self._answer(pool, message, _Job(on_progress))
        return found

    async def diarise(self, pool: Pool, message: DiariseFile) -> FileDiarised:
        """As `transcribe`."""
        found: FileDiarised = await self._answer(pool, message, _Job(None))
        return found

    async def _answer(self, pool: Pool, message: TranscribeFile | DiariseFile, job: _Job) -> Any:
        return await pool.asked(lambda replica: self._ask(replica, message, job))

    async def _ask(self, replica: Replica, message: TranscribeFile | DiariseFile, job: _Job) -> Any:
        future = job.begin(replica)
        replica.send(message)
        self._jobs[message.request] = job
        try:
            return await future
        except BaseException as error:
            # Nobody waits for it any more, whether the client went or it differs from what was
            # told; an engine that has said no, or died, does not mind.
            if not isinstance(error, EngineRequestError):
                with contextlib.suppress(EngineUnavailable):
                    replica.send(CancelFile(message.request))
            raise
        finally:
            self._jobs.pop(message.request, None)

    def take(self, event: FileEvent) -> None:
        """About a recording; one that nobody waits for: ignored."""
        job = self._jobs.get(event.request)
        if job is None or job.future is None or job.future.done():
            return
        match event:
            case FileProgress():
                job.hear(event)
            case FileTranscribed() | FileDiarised():
                job.future.set_result(event)
            case FileFailed():
                job.future.set_exception(EngineRequestError(event.code, event.message))

    def lose(self, replica: Replica, message: str) -> None:
        """It died, and what it had with it. message: why."""
        for job in self._jobs.values():
            if job.replica is replica and job.future is not None and not job.future.done():
                job.future.set_exception(EngineUnavailable(message))

    def has(self, replica: Replica) -> bool:
        """Whether it has any."""
        return any(job.replica is replica for job in self._jobs.values())
