"""The blocking client, for ordinary `for` and `with`: the asynchronous one on a thread of its own.

for event in Client().transcribe(Microphone()): ...
for text in Client().chat("What is this?", images=["cat.jpg"]): ...
with Client().conversation() as talk: ...
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

from lookhear.answers import BlockingAnswer
from lookhear.audio import Source
from lookhear.client import DEFAULT_URL, AsyncClient
from lookhear.content import Medium
from lookhear.conversation import Conversation
from lookhear.events import Event
from lookhear.results import Model, Transcript
from lookhear.stream import Retry

T = TypeVar("T")


class BlockingConversation:
    """The blocking twin of `Conversation`: same methods, same arguments. Made by
    `Client.conversation`; `with` connects and hangs up.

    run: runs a coroutine on the client's event loop and returns its result.
    """

    def __init__(self, talk: Conversation, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._talk = talk
        self._run = run

    @property
    def model(self) -> str | None:
        return self._talk.model

    @property
    def reconnects(self) -> int:
        return self._talk.reconnects

    def add(
        self,
        text: str = "",
        *,
        images: Sequence[Medium] = (),
        detail: str | None = None,
        role: str = "user",
    ) -> str:
        return str(self._run(self._talk.add(text, images=images, detail=detail, role=role)))

    def add_image(self, image: Medium, detail: str | None = None) -> str:
        return str(self._run(self._talk.add_image(image, detail)))

    def add_text(self, text: str, role: str = "user") -> str:
        return str(self._run(self._talk.add_text(text, role)))

    def add_audio(
        self, source: Source, *, rate: int | None = None, pace: float | None = None
    ) -> str:
        return str(self._run(self._talk.add_audio(source, rate=rate, pace=pace)))

    def show_frame(self, image: Medium, seconds: float | None = None) -> None:
        self._run(self._talk.show_frame(image, seconds))

    def forget_frames(self) -> None:
        self._run(self._talk.forget_frames())

    def delete(self, item_id: str) -> None:
        self._run(self._talk.delete(item_id))

    def respond(
        self,
        *,
        instructions: str | None = None,
        max_tokens: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> BlockingAnswer:
        answer = self._talk.respond(instructions=instructions, max_tokens=max_tokens, extra=extra)
        return BlockingAnswer(answer, self._run)

    def close(self) -> None:
        self._run(self._talk.aclose())

    def __enter__(self) -> Self:
        self._run(self._talk.__aenter__())
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
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="lookhear-client", daemon=True
        )
        self._thread.start()

    def transcribe(self, source: Source, **options: Any) -> Iterator[Event]:
        """As `AsyncClient.transcribe`. Leaving the loop early ends the session."""
        events = self._client.transcribe(source, **options)
        try:
            while True:
                event = self._run(_next(events))
                if event is None:
                    return
                yield event
        finally:
            self._run(events.aclose())

    def transcribe_text(self, source: Source, **options: Any) -> str:
        return self._run(self._client.transcribe_text(source, **options))

    def transcribe_file(self, file: str | os.PathLike[str] | bytes, **options: Any) -> Transcript:
        return self._run(self._client.transcribe_file(file, **options))

    def transcribe_raw(
        self, file: str | os.PathLike[str] | bytes, response_format: str, **options: Any
    ) -> str:
        return self._run(self._client.transcribe_raw(file, response_format, **options))

    def chat(self, question: str | Sequence[Mapping[str, Any]], **options: Any) -> BlockingAnswer:
        """As `AsyncClient.chat`, for an ordinary `for` loop."""
        return BlockingAnswer(self._client.chat(question, **options), self._run)

    def conversation(self, **options: Any) -> BlockingConversation:
        """As `AsyncClient.conversation`, for an ordinary `with`."""
        return BlockingConversation(self._client.conversation(**options), self._run)

    def models(self) -> list[Model]:
        return self._run(self._client.models())

    def close(self) -> None:
        """Stop the loop's thread. Nothing can be asked afterwards."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.run_coroutine_threadsafe(_start(work), self._loop).result()
        try:
            return asyncio.run_coroutine_threadsafe(_result(task), self._loop).result()
        except KeyboardInterrupt:
            asyncio.run_coroutine_threadsafe(_cancel(task), self._loop).result()
            raise


async def _next(events: AsyncGenerator[Event, None]) -> Event | None:
    return await anext(events, None)


async def _start(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    return asyncio.create_task(work)


async def _result(task: asyncio.Task[T]) -> T:
    return await task


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])
