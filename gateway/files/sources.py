"""A recording that is to be heard, with the slot in which that is done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from lookhear.gateway.fetching.pictures import AudioFile
from lookhear.gateway.services.services import Services
from lookhear.gateway.slots import Claim


@asynccontextmanager
async def opened(
    gateway: Services, source: bytes | tuple[str, str], claim: Claim
) -> AsyncIterator[AudioFile]:
    """source: see `Pictures.audio_file`. What is behind an address comes in the time that this one
    likes, so its slot is taken once it is there; until then it has one among those who fetch, for
    who waits with a recording in its hands has it in memory. Raises ApiError."""
    async with AsyncExitStack() as fetching, AsyncExitStack() as hearing:
        if isinstance(source, bytes) or source[1][:4].lower() != "http":
            await hearing.enter_async_context(gateway.file_slots.held(claim))
            file = await gateway.pictures.audio_file(source, claim)
        else:
            await fetching.enter_async_context(gateway.fetch_slots.held(claim))
            file = await gateway.pictures.audio_file(source, claim)
            await hearing.enter_async_context(gateway.file_slots.held(claim))
            await fetching.aclose()
        yield file
