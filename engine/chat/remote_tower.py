"""What an engine without a tower knows of the media of its prompts: their embeddings are made
elsewhere (`engine.messages.encoding`). Pure.

    prompt --complete--> what is known is put in | the rest is asked for, each medium once
    MediumEncoded ------> cache, and all prompts that await it; who awaits nothing more may begin
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from lookhear.engine.chat.prompt import ChatPrompt
from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import (
    EncodeMedium,
    EncodingFailed,
    Event,
    MediumEncoded,
    Message,
)
from lookhear.engine.paged.encoder_cache import EncoderCache


class RemoteTower:
    """Takes the messages about media, too; see `Desk`. max_bytes: of embeddings that are kept for
    who asks again, on the host. parts: see `PagedPasses`; width: of the decoder."""

    def __init__(self, max_bytes: int, parts: int, width: int) -> None:
        self._cache = EncoderCache(max_bytes)
        self._width = parts * width
        self._waiting: dict[bytes, dict[str, ChatPrompt]] = {}  # by digest, then by owner

    def complete(self, key: str, prompt: ChatPrompt) -> list[Event]:
        """Of an owner that is about to be added. Returns what is asked for."""
        asked: list[Event] = []
        for medium in [m for _, m in prompt.media if not m.is_given]:
            if (rows := self._cache.find(medium.digest)) is not None:
                prompt.put(medium.digest, rows.numpy())
                continue
            prompt.awaited.add(medium.digest)
            if medium.digest not in self._waiting:
                self._waiting[medium.digest] = {}
                asked.append(EncodeMedium(medium.digest, medium.num_tokens, medium.features))
            self._waiting[medium.digest][key] = prompt
        return asked

    def take(self, message: Message, core: EngineCore) -> list[Event]:
        """See `Desk`."""
        match message:
            case MediumEncoded(digest, rows):
                if rows.ndim != 2 or rows.shape[1] != self._width:
                    text = f"expected embeddings of width {self._width}, got {list(rows.shape)}"
                    return self._failed(EncodingFailed(digest, "server_error", text), core)
                self._add(digest, rows)
                for key, prompt in self._waiting.pop(digest, {}).items():
                    prompt.put(digest, rows)
                    core.owner(key)  # its ticket is looked at again
            case EncodingFailed():
                return self._failed(message, core)
        return []

    def _add(self, digest: bytes, rows: NDArray[np.float32]) -> None:
        # What came off the wire may not be written to, as torch would have it.
        self._cache.add(digest, torch.from_numpy(rows.copy()))

    def _failed(self, failure: EncodingFailed, core: EngineCore) -> list[Event]:
        """Whoever awaits it has failed."""
        events: list[Event] = []
        for key, prompt in self._waiting.pop(failure.digest, {}).items():
            owner = core.owner(key)
            if owner is not None and failure.digest in prompt.awaited:
                events += owner.fail(failure.code, failure.message)
                core.drop(key)
        return events

    def close(self, session: str) -> None:
        """Media are of no session; who is gone is found gone."""

    def left(self, key: str, session: str, core: EngineCore) -> list[Event]:
        """It need not be told any more."""
        for prompts in self._waiting.values():
            prompts.pop(key, None)
        return []

    def stats(self, core: EngineCore) -> dict[str, int]:
        """What is awaited now, and what is kept: the runner's own cache is of no use here."""
        return {"media_awaited": len(self._waiting), "media_bytes": self._cache.num_bytes}
