"""The blocking client, for ordinary `for` and `with`: the asynchronous one on a thread of its own.

for event in Client().transcribe(Microphone()): ...
for text in Client().chat("What is this?", images=["cat.jpg"]): ...
with Client().conversation() as talk: ...
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future, wait
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar
from weakref import WeakSet

from lookhear.chat.answers import Answer, AnswerCompleted, AnswerEvent
from lookhear.chat.conversation import Conversation
from lookhear.client import AsyncClient
from lookhear.live.events import Event
from lookhear.transport.retry import Retry

CLOSED = "the client was closed"


class _Closable(Protocol):
    def aclose(self) -> Awaitable[None]: ...


A = TypeVar("A")
B = TypeVar("B", bound=_Closable)
P = ParamSpec("P")
T = TypeVar("T")


class _LoopThread:
    """A thread that runs an event loop for whoever blocks."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._abandoned: list[Future[None]] = []  # sessions that end without being waited for
        self._calls: set[_LoopCall[Any]] = set()  # that threads wait for
        self._is_closing = False
        self.held = WeakSet[_Closable]()  # what was begun on it, as long as anybody keeps it
        self._thread = threading.Thread(
            target=self.loop.run_forever, name="lookhear-client", daemon=True
        )
        self._thread.start()

    def run(self, work: Callable[[], Awaitable[T]], *, closes: bool = False) -> T:
        """Do it on the loop, and wait for its result. closes: it is of `close`."""
        if self.loop.is_closed():
            raise RuntimeError(CLOSED)
        call = _LoopCall(work)
        self._calls.add(call)
        try:
            self.loop.call_soon_threadsafe(self._begin, call, closes)
            return call.outcome.result()
        except KeyboardInterrupt:
            # Whenever it came, nothing of the work is under way afterwards.
            self.loop.call_soon_threadsafe(call.cancel)
            call.outcome.exception()
            raise
        except asyncio.CancelledError:
            if self._is_closing:
                raise RuntimeError(CLOSED) from None
            raise
        finally:
            self._calls.discard(call)

    def _begin(self, call: _LoopCall[Any], closes: bool) -> None:
        """On the loop's thread, as `_cancel`: who comes behind that begins nothing any more."""
        if self._is_closing and not closes:
            call.outcome.set_exception(RuntimeError(CLOSED))
        else:
            call.begin()

    def end(self, work: Callable[[], Awaitable[None]]) -> None:
        """As `run`, from whatever thread; after `close` there is nothing to do."""
        if self.loop.is_closed():
            return
        if threading.current_thread() is self._thread:
            # Nobody held it any more, and garbage happened to be collected here: no waiting.
            call = _LoopCall(work)
            call.begin()
            self._abandoned.append(call.outcome)
        else:
            try:
                self.run(work)
            except RuntimeError:
                if not self._is_closing:  # else `close` ends it
                    raise

    def close(self) -> None:
        """End what goes on, and stop the thread."""
        if not self.loop.is_closed():
            wait(self._abandoned)
            self.run(self._cancel, closes=True)
            for begun in list(self.held):
                self.run(begun.aclose, closes=True)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()
            for call in list(self._calls):  # that came meanwhile
                if not call.outcome.done():
                    call.outcome.set_exception(RuntimeError(CLOSED))

    async def _cancel(self) -> None:
        """What other threads wait for is given up."""
        self._is_closing = True
        tasks, own = [call.task for call in list(self._calls)], asyncio.current_task()
        others = [task for task in tasks if task is not None and task is not own]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class _LoopCall(Generic[T]):
    """Work for the loop's thread. It begins there too: Ctrl-C may come between any two steps of the
    thread that waits, and must find no coroutine that is made and not begun."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self.outcome: Future[T] = Future()
        self._work = work
        self.task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        self.task = asyncio.create_task(self._do())
        self.task.add_done_callback(self._done)

    def cancel(self) -> None:
        """Give it up; `outcome` is there once it is over."""
        if self.task is not None:
            self.task.cancel()
        elif not self.outcome.done():
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


class _Blocking(Generic[A]):
    """Stands for something asynchronous, and waits for it on its loop's thread."""

    def __init__(self, twin: A, thread: _LoopThread) -> None:
        self._twin = twin
        self._thread = thread

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _waited(
    method: Callable[Concatenate[A, P], Awaitable[T]],
) -> Callable[Concatenate[_Blocking[A], P], T]:
    """The same method, and waiting for what it returns."""

    @functools.wraps(method)
    def blocking(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.run(lambda: method(self._twin, *args, **kwargs))

    return blocking


def _standing_for(
    method: Callable[Concatenate[A, P], B], blocking_twin: Callable[[B, _LoopThread], T]
) -> Callable[Concatenate[_Blocking[A], P], T]:
    """The same method; what it returns is asynchronous, and its blocking twin stands for it."""

    @functools.wraps(method)
    def blocking(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        twin = method(self._twin, *args, **kwargs)
        self._thread.held.add(twin)
        return blocking_twin(twin, self._thread)

    return blocking


class BlockingAnswer(_Blocking[Answer], Iterator[str]):
    """The blocking twin of `Answer`, for an ordinary `for` loop."""

    @property
    def completed(self) -> AnswerCompleted | None:
        """How it ended; None before."""
        return self._twin.completed

    def events(self) -> Iterator[AnswerEvent]:
        """All that is told about the answer, as `Answer.events`."""
        while (event := self._thread.run(self._twin.next_event)) is not None:
            yield event

    def __next__(self) -> str:
        text = self._thread.run(lambda: _next(self._twin))
        if text is None:
            raise StopIteration
        return text

    read = _waited(Answer.read)
    close = _waited(Answer.aclose)


class BlockingConversation(_Blocking[Conversation]):
    """The blocking twin of `Conversation`: same methods, same arguments. Made by
    `Client.conversation`; `with` connects and hangs up.
    """

    @property
    def model(self) -> str | None:
        """What answers, once connected and if the server says."""
        return self._twin.model

    @property
    def reconnects(self) -> int:
        """How often the connection was lost and made anew."""
        return self._twin.reconnects

    add = _waited(Conversation.add)
    add_image = _waited(Conversation.add_image)
    add_text = _waited(Conversation.add_text)
    add_audio = _waited(Conversation.add_audio)
    show_frame = _waited(Conversation.show_frame)
    forget_frames = _waited(Conversation.forget_frames)
    delete = _waited(Conversation.delete)
    respond = _standing_for(Conversation.respond, BlockingAnswer)
    close = _waited(Conversation.aclose)

    def __enter__(self) -> Self:
        self._thread.run(self._twin.__aenter__)
        return self


def _iterate(events: AsyncGenerator[Event, None], thread: _LoopThread) -> Iterator[Event]:
    """Leaving the loop early ends the session."""
    try:
        while (event := thread.run(lambda: _next(events))) is not None:
            yield event
    finally:
        thread.end(events.aclose)


class Client(_Blocking[AsyncClient]):
    """The blocking twin of `AsyncClient`: same arguments, events from an ordinary `for` loop.

    Its event loop runs on a thread of its own, so audio goes on being sent while your loop body
    works. Close it, or use it in a `with` block.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        retry: Retry = Retry(),  # noqa: B008 (frozen)
    ) -> None:
        super().__init__(AsyncClient(base_url, api_key, retry=retry), _LoopThread())

    transcribe = _standing_for(AsyncClient.transcribe, _iterate)
    transcribe_text = _waited(AsyncClient.transcribe_text)
    transcribe_file = _waited(AsyncClient.transcribe_file)
    transcribe_raw = _waited(AsyncClient.transcribe_raw)
    chat = _standing_for(AsyncClient.chat, BlockingAnswer)
    conversation = _standing_for(AsyncClient.conversation, BlockingConversation)
    models = _waited(AsyncClient.models)

    def close(self) -> None:
        """End what still goes on, and stop the loop's thread. Nothing can be asked afterwards."""
        self._thread.close()


async def _next(items: AsyncIterator[T]) -> T | None:
    return await anext(items, None)
