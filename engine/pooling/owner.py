"""One prompt that is read for its vectors. Pure; satisfies `Owner`."""

from __future__ import annotations

from collections.abc import Callable

from lookhear.engine.chat.prompt import ChatPrompt
from lookhear.engine.core.adapting import Adapter
from lookhear.engine.core.request import Cost, Priority, Result
from lookhear.engine.messages import Event
from lookhear.engine.paged.blocks import whole_blocks
from lookhear.engine.paged.request import PagedRequest
from lookhear.engine.paged.wanted.prompts import PooledResult, PooledTokens


class PooledPrompt:
    """pooled: what is wanted of it. on_result, on_failure: what that becomes; code and message.
    adapter: see `PagedRequest`."""

    is_urgent = False

    def __init__(
        self,
        key: str,
        prompt: ChatPrompt,
        pooled: PooledTokens,
        salt: bytes,
        on_result: Callable[[PooledResult, int], list[Event]],
        on_failure: Callable[[str, str], list[Event]],
        adapter: Adapter | None = None,
    ) -> None:
        self._adapter = adapter
        self._key = key
        self._prompt: ChatPrompt | None = prompt
        self._num_tokens = len(prompt.tokens)
        self._pooled = pooled
        self._salt = salt
        self._on_result, self._on_failure = on_result, on_failure
        self.is_done = False

    def wants_request(self) -> bool:
        """Once, when all its media can be read."""
        return self._prompt is not None and not self._prompt.awaited

    def cost(self) -> Cost:
        """Of its pictures and its tokens."""
        assert self._prompt is not None
        return Cost(self._prompt.num_encoded, whole_blocks(self._num_tokens))

    def make_request(self) -> PagedRequest:
        """The only one."""
        prompt, self._prompt = self._prompt, None
        assert prompt is not None
        return PagedRequest(
            key=self._key,
            priority=Priority.BATCH,
            tokens=tuple(prompt.tokens),
            media=tuple(prompt.media),
            max_new_tokens=0,
            salt=self._salt,
            pooled=self._pooled,
            adapter=self._adapter,
        )

    def absorb(self, result: Result) -> list[Event]:
        """It was read."""
        assert isinstance(result, PooledResult)
        self.is_done = True
        return self._on_result(result, self._num_tokens)

    def settle(self) -> list[Event]:
        """Nothing: all comes of its request."""
        return []

    def fail(self, code: str, message: str) -> list[Event]:
        """It could not be read."""
        self.is_done = True
        return self._on_failure(code, message)
