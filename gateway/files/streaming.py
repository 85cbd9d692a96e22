"""A recording's text while it is written, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import asdict
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from lookhear.engine.messages import FileProgress, FileTranscribed
from lookhear.gateway.files.speakers import diarized_segments
from lookhear.gateway.http.errors import ApiError, error_body

HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
OnProgress = Callable[[FileProgress], None]
Json = dict[str, Any]


class FileWork:
    """One transcription under way, and what is told of it meanwhile."""

    def __init__(self, start: Callable[[OnProgress], Coroutine[Any, Any, FileTranscribed]]) -> None:
        """start: the work; it tells its argument how it gets on."""
        self._told: asyncio.Queue[FileProgress | None] = asyncio.Queue()  # None: nothing follows
        self._first: FileProgress | None = None
        self._task = asyncio.create_task(start(self._told.put_nowait))
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[FileTranscribed]) -> None:
        self._told.put_nowait(None)
        if not task.cancelled():
            task.exception()  # who has gone does not ask

    async def begin(self) -> None:
        """Wait for the first that is told. What is refused before that raises ApiError."""
        self._first = await self._told.get()
        if self._first is None:
            await self._task

    async def progress(self) -> AsyncIterator[FileProgress]:
        """All of it, in order."""
        told = self._first
        while told is not None:
            yield told
            told = await self._told.get()

    async def result(self) -> FileTranscribed:
        """Once all was told. Raises ApiError."""
        return await self._task

    def close(self) -> None:
        """Nobody wants it any more."""
        self._task.cancel()


class FileStream(StreamingResponse):
    """However the response ends, its work ends with it."""

    def __init__(self, work: FileWork, events: AsyncIterator[Json], told: dict[str, str]) -> None:
        super().__init__(_lines(events), media_type="text/event-stream", headers=HEADERS | told)
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._work.close()


async def events(
    work: FileWork,
    *,
    tells_progress: bool,
    whole: Callable[[FileTranscribed], str] | None,
    diarized: bool = False,
) -> AsyncIterator[Json]:
    """What a client is told: the text, segment by segment, then all of it. Joined deltas are the
    text. tells_progress: it wants to know how far the work is. whole: writes the answer that it
    would have had at once, if it wants that besides. diarized: it wants to know who said what."""
    told = heard = ""
    async for progress in work.progress():
        heard = (heard + "".join(segment.text for segment in progress.segments)).lstrip()
        if more := heard.rstrip()[len(told) :]:
            told += more
            yield _delta(more)
        if tells_progress and progress.duration:
            yield {
                "type": "lookhear.progress",
                "seconds": round(progress.seconds, 3),
                "duration": round(progress.duration, 3),
            }
    try:
        result = await work.result()
    except ApiError as error:  # too late for a status
        yield error_body(error.message, error.type, error.code, error.param)
        return
    assert result.text.startswith(told), "what was told is the beginning of the text"
    if result.text != told or not told:
        yield _delta(result.text[len(told) :])
    if diarized:  # who they are is only known when all was heard
        for segment in diarized_segments(result):
            yield segment
    done: Json = {"type": "transcript.text.done", "text": result.text, "usage": usage(result)}
    if result.logprobs is not None:
        done["logprobs"] = [asdict(token) for token in result.logprobs]
    if whole is not None:
        done["lookhear"] = {"answer": whole(result)}
    yield done


def usage(result: FileTranscribed) -> Json:
    """In tokens: places of the encoder's output and tokens of prompts that the model has read, in
    all windows, and tokens of the text."""
    read = result.num_audio_tokens + result.num_text_tokens
    return {
        "type": "tokens",
        "input_tokens": read,
        "input_token_details": {
            "audio_tokens": result.num_audio_tokens,
            "text_tokens": result.num_text_tokens,
        },
        "output_tokens": result.num_tokens,
        "total_tokens": read + result.num_tokens,
    }


def _delta(text: str) -> Json:
    return {"type": "transcript.text.delta", "delta": text}


async def _lines(told: AsyncIterator[Json]) -> AsyncIterator[str]:
    event: Json = {}
    async for event in told:
        yield f"data: {json.dumps(event)}\n\n"
    if "error" not in event:
        yield "data: [DONE]\n\n"
