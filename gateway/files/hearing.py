"""A decoded recording on its way through the engine, whatever API asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from lookhear.engine.client.client import EngineRequestError, EngineUnavailable
from lookhear.engine.messages import (
    SAMPLE_RATE,
    DiariseFile,
    FileProgress,
    FileTranscribed,
    ModelCard,
    TranscribeFile,
    TranscriptionSettings,
)
from lookhear.gateway.checks.checks import is_clients_fault
from lookhear.gateway.decoding.results import Recording
from lookhear.gateway.files.languages import last_language
from lookhear.gateway.files.speakers import with_speakers
from lookhear.gateway.http.errors import ApiError, unavailable
from lookhear.gateway.services.services import Services
from lookhear.gateway.slots import Claim


async def heard(
    gateway: Services,
    claim: Claim,
    recording: Recording,
    settings: TranscriptionSettings,
    *,
    timestamps: bool,
    temperature: float = 0.0,
    before: FileTranscribed | None = None,
    params: Mapping[str, str],
    on_progress: Callable[[FileProgress], None] | None = None,
) -> FileTranscribed:
    """Its transcript. before: what was heard in front of it. params: where the request sets what an
    engine's refusal may name. on_progress: hears of the text as it is written. Raises ApiError."""
    samples = recording.samples
    gateway.metrics.audio_seconds.labels("file").inc(len(samples) / SAMPLE_RATE)
    message = TranscribeFile(
        request=claim.request,
        settings=settings,
        samples=samples,
        timestamps=timestamps,
        temperature=temperature,
        speech=recording.speech,
        continues=before is not None and bool(before.text),
        language_before=None if before is None else last_language(before),
    )
    try:
        return await gateway.engine.transcribe_file(message, on_progress)
    except EngineRequestError as error:
        raise _refused(error.code, str(error), params) from None
    except EngineUnavailable as error:
        raise unavailable(error) from None


async def with_who_speaks(
    gateway: Services,
    claim: Claim,
    recording: Recording,
    diariser: ModelCard,
    hearing: Coroutine[Any, Any, FileTranscribed],
) -> FileTranscribed:
    """The transcript, with the speaker of each word and segment, who are told apart meanwhile.
    Raises ApiError."""
    message = DiariseFile(f"{claim.request}/speakers", diariser.id, recording.samples)
    asking = asyncio.ensure_future(gateway.engine.diarise_file(message))
    try:
        result = await hearing
        try:
            return with_speakers(result, (await asking).turns)
        except EngineRequestError as error:
            raise _refused(error.code, str(error), {}) from None
        except EngineUnavailable as error:
            raise unavailable(error) from None
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


def _refused(code: str, message: str, params: Mapping[str, str]) -> ApiError:
    """The engine's refusal of a file. It begins with the setting that is to blame, if one is."""
    if not is_clients_fault(code):
        return ApiError(500, message, code=code)
    return ApiError(400, message, code=code, param=params.get(message.partition(":")[0]))
