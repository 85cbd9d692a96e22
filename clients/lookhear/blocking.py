"""The blocking client, for ordinary `for` and `with`: the asynchronous one on a thread of its own.

for event in Client().transcribe(Microphone()): ...
for text in Client().chat("What is this?", images=["cat.jpg"]): ...
with Client().conversation() as talk: ...
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, Generic, Self, TypeVar, Unpack

from lookhear.chat.answers import Answer, AnswerCompleted, AnswerEvent
from lookhear.chat.conversation import Conversation
from lookhear.client import DEFAULT_URL, AsyncClient
from lookhear.live.events import Event
from lookhear.options import (
    ChatOptions,
    FileOptions,
    RawFileOptions,
    TalkOptions,
    TranscribeOptions,
)
from lookhear.results import Model, Transcript
from lookhear.sources.audio import Source
from lookhear.sources.files import Medium
from lookhear.transport.retry import Retry

T = TypeVar("T")


Run = Callable[[Callable[[], Awaitable[Any]]], Any]
"""Does work on a client's event loop and returns its result."""


class BlockingAnswer(Iterator[str]):
    """The blocking twin of `Answer`, for an ordinary `for` loop."""

    def __init__(self, answer: Answer, run: Run) -> None:
        self._answer = answer
        self._run = run

    @property
    def completed(self) -> AnswerCompleted | None:
        """How it ended; None before."""
        return self._answer.completed

    def events(self) -> Iterator[AnswerEvent]:
        """All that is told about the answer, as `Answer.events`."""
        while (event := self._run(self._answer.next_event)) is not None:
            yield event

    def __next__(self) -> str:
        text = self._run(lambda: _next_text(self._answer))
        if text is None:
            raise StopIteration
        return str(text)

    def read(self) -> AnswerCompleted:
        """Wait for the end, as `Answer.read`."""
        completed = self._run(self._answer.read)
        assert isinstance(completed, AnswerCompleted)
        return completed

    def close(self) -> None:
        """Cancel it if it still runs."""
        self._run(self._answer.aclose)

    def __enter__(self) -> BlockingAnswer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlockingConversation:
    """The blocking twin of `Conversation`: same methods, same arguments. Made by
    `Client.conversation`; `with` connects and hangs up.

    run: does work on the client's event loop and returns its result.
    """

    def __init__(self, talk: Conversation, run: Run) -> None:
        self._talk = talk
        self._run = run

    @property
    def model(self) -> str | None:
        """What answers, once connected and if the server says."""
        return self._talk.model

    @property
    def reconnects(self) -> int:
        """How often the connection was lost and made anew."""
        return self._talk.reconnects

    def add(
        self,
        text: str = "",
        *,
        images: Sequence[Medium] = (),
        detail: str | None = None,
        role: str = "user",
    ) -> str:
        """One message of pictures and text, as `Conversation.add`. Its item id."""
        return str(self._run(lambda: self._talk.add(text, images=images, detail=detail, role=role)))

    def add_image(self, image: Medium, detail: str | None = None) -> str:
        """A picture as a message of its own. Its item id."""
        return str(self._run(lambda: self._talk.add_image(image, detail)))

    def add_text(self, text: str, role: str = "user") -> str:
        """A message of text. Its item id."""
        return str(self._run(lambda: self._talk.add_text(text, role)))

    def add_audio(
        self, source: Source, *, rate: int | None = None, pace: float | None = None
    ) -> str:
        """Say something, as `Conversation.add_audio`. Its transcript."""
        return str(self._run(lambda: self._talk.add_audio(source, rate=rate, pace=pace)))

    def show_frame(self, image: Medium, seconds: float | None = None) -> None:
        """A frame of a live camera, as `Conversation.show_frame`."""
        self._run(lambda: self._talk.show_frame(image, seconds))

    def forget_frames(self) -> None:
        """What the camera showed is taken out of the conversation."""
        self._run(self._talk.forget_frames)

    def delete(self, item_id: str) -> None:
        """Take a message out of the conversation."""
        self._run(lambda: self._talk.delete(item_id))

    def respond(
        self,
        *,
        instructions: str | None = None,
        max_tokens: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> BlockingAnswer:
        """Let the model answer what was said, as `Conversation.respond`."""
        answer = self._talk.respond(instructions=instructions, max_tokens=max_tokens, extra=extra)
        return BlockingAnswer(answer, self._run)

    def close(self) -> None:
        """Hang up. The server forgets the conversation and stops what it does for it."""
        self._run(self._talk.aclose)

    def __enter__(self) -> Self:
        self._run(self._talk.__aenter__)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Client:
    """The blocking twin of `AsyncClient`: same arguments, events from an ordinary `for` loop.

    Its event loop runs on a thread of its own, so audio goes on being sent while your loop body
    works. Close it, or use it in a `with` block.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        *,
        retry: Retry = Retry(),  # noqa: B008 (frozen)
    ) -> None:
        self._client = AsyncClient(base_url, api_key, retry=retry)
        self._abandoned: list[Future[None]] = []  # sessions that end without being waited for
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="lookhear-client", daemon=True
        )
        self._thread.start()

    def transcribe(self, source: Source, **options: Unpack[TranscribeOptions]) -> Iterator[Event]:
        """As `AsyncClient.transcribe`. Leaving the loop early ends the session."""
        events = self._client.transcribe(source, **options)
        try:
            while True:
                event = self._run(lambda: _next(events))
                if event is None:
                    return
                yield event
        finally:
            if threading.current_thread() is self._thread:
                # Nobody held it any more, and garbage happened to be collected here: no waiting.
                call = _LoopCall(events.aclose)
                call.begin()
                self._abandoned.append(call.outcome)
            else:
                self._run(events.aclose)

    def transcribe_text(self, source: Source, **options: Unpack[TranscribeOptions]) -> str:
        """All the text of a source, as `AsyncClient.transcribe_text`."""
        return self._run(lambda: self._client.transcribe_text(source, **options))

    def transcribe_file(
        self, file: str | os.PathLike[str] | bytes, **options: Unpack[FileOptions]
    ) -> Transcript:
        """A whole file in one request, as `AsyncClient.transcribe_file`."""
        return self._run(lambda: self._client.transcribe_file(file, **options))

    def transcribe_raw(
        self,
        file: str | os.PathLike[str] | bytes,
        response_format: str,
        **options: Unpack[RawFileOptions],
    ) -> str:
        """The server's answer as it is, as `AsyncClient.transcribe_raw`."""
        return self._run(lambda: self._client.transcribe_raw(file, response_format, **options))

    def chat(
        self, question: str | Sequence[Mapping[str, Any]], **options: Unpack[ChatOptions]
    ) -> BlockingAnswer:
        """As `AsyncClient.chat`, for an ordinary `for` loop."""
        return BlockingAnswer(self._client.chat(question, **options), self._run)

    def conversation(self, **options: Unpack[TalkOptions]) -> BlockingConversation:
        """As `AsyncClient.conversation`, for an ordinary `with`."""
        return BlockingConversation(self._client.conversation(**options), self._run)

    def models(self) -> list[Model]:
        """What the server serves, its default first."""
        return self._run(self._client.models)

    def close(self) -> None:
        """Stop the loop's thread. Nothing can be asked afterwards."""
        if not self._loop.is_closed():
            wait(self._abandoned)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, work: Callable[[], Awaitable[T]]) -> T:
        call = _LoopCall(work)
        try:
            self._loop.call_soon_threadsafe(call.begin)
            return call.outcome.result()
        except KeyboardInterrupt:
            # Whenever it came, nothing of the work is under way afterwards.
            self._loop.call_soon_threadsafe(call.cancel)
            call.outcome.exception()
            raise


class _LoopCall(Generic[T]):
    """Work for the loop's thread. It begins there too: Ctrl-C may come between any two steps of the
    thread that waits, and must find no coroutine that is made and not begun."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self.outcome: Future[T] = Future()
        self._work = work
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._do())
        self._task.add_done_callback(self._done)

    def cancel(self) -> None:
        """Give it up; `outcome` is there once it is over."""
        if self._task is not None:
            self._task.cancel()
        else:
            self.outcome.set_exception(asyncio.CancelledError())

    async def _do(self) -> T:
        return await self._work()

    def _done(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.outcome.set_exception(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


async def _next(events: AsyncGenerator[Event, None]) -> Event | None:
    return await anext(events, None)


async def _next_text(answer: Answer) -> str | None:
    return await anext(answer, None)
