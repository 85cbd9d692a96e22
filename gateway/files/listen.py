"""Deepgram's `POST /v1/listen`: a recording in the body, or by its URL; its text and words out."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lookhear.engine.messages import FileTranscribed, ModelCard, TranscriptionSettings
from lookhear.gateway.checks.checks import ProtocolError, shown, valid_unicode
from lookhear.gateway.checks.models import diariser
from lookhear.gateway.checks.outline import parse_json
from lookhear.gateway.deepgram import shapes
from lookhear.gateway.deepgram.options import MAX_CHANNELS, FileOptions, file_options, listener
from lookhear.gateway.deepgram.paragraphs import paragraphs, utterances
from lookhear.gateway.files.hearing import heard, with_who_speaks
from lookhear.gateway.files.languages import spoken
from lookhear.gateway.files.sources import opened
from lookhear.gateway.http.errors import ApiError, wrong
from lookhear.gateway.http.notes import notes
from lookhear.gateway.http.requests import done_with_body, limited, until_gone
from lookhear.gateway.services.services import Services, services
from lookhear.gateway.slots import Claim
from lookhear.media.voice.stretches import FILE_CONFIG

MAX_URL = 64 * 1024  # bytes of a body that names one
PARAMS = {"language": "language", "prompt": "keyterm"}


async def listen(request: Request) -> Response:
    """Raises ApiError."""
    gateway = services(request)
    gateway.check_loaded()
    try:
        who = diariser(gateway.models)
        options = file_options(request.query_params, diarises=who is not None)
        card = listener(options, gateway.models)
    except ProtocolError as problem:
        raise _refused(problem) from None
    who = who if options.diarise else None
    by_url = request.headers.get("content-type", "").lower().startswith("application/json")
    most = MAX_URL if by_url else gateway.config.max_upload_bytes
    body = await limited(request, most, "body" if by_url else "file").body()
    url = _url(body) if by_url else None
    if not body:
        raise wrong("body", "a recording, or JSON with its url", "nothing")
    for model in (card,) if who is None else (card, who):
        await until_gone(request, gateway.until_ready(model.id))
    claim = gateway.claim(request, gateway.ids("file"))
    sha256 = await gateway.in_thread(lambda: hashlib.sha256(body).hexdigest())
    if by_url:
        done_with_body(request)
    work = _transcribed(gateway, claim, options, card, who, body if url is None else url)
    results = await until_gone(request, work)
    told = shapes.metadata(
        card,
        request=claim.request,
        sha256=sha256,
        created=gateway.now(),
        seconds=max(result.duration for result in results),
        channels=len(results),
    )
    answer = {"metadata": told, "results": _results(results, options)}
    headers = notes(card, options.ignored) | {"dg-request-id": claim.request}
    return JSONResponse(answer, headers=headers)


def _refused(problem: ProtocolError) -> ApiError:
    return ApiError(400, problem.message, code=problem.code, param=problem.param)


async def _transcribed(
    gateway: Services,
    claim: Claim,
    options: FileOptions,
    card: ModelCard,
    who: ModelCard | None,
    source: bytes | str,
) -> list[FileTranscribed]:
    """Of each channel, if they are wanted apart. who: tells speakers apart, if that is wanted.
    source: the recording, or its URL."""
    language = options.language or (options.hints[0] if len(options.hints) == 1 else None)
    has_words = card.untimed(language) is None
    settings = TranscriptionSettings(
        model=card.id,
        language=language,
        languages=() if language else options.hints,
        keywords=options.keyterms,
        words=has_words,
        logprobs=not has_words,
    )
    asked = ("url", source) if isinstance(source, str) else source
    async with opened(gateway, asked, claim) as file:
        if (format := options.format) is not None and file.is_bare:
            if isinstance(format, ProtocolError):
                raise _refused(format)
            file = await gateway.in_thread(lambda: file.as_samples(format))
        results: list[FileTranscribed] = []
        channel, count = (0 if options.multichannel else None), 1
        while len(results) < count:
            recording = await gateway.pictures.recording(file, claim, FILE_CONFIG, channel=channel)
            if channel is not None:
                channel, count = channel + 1, recording.channels
                _check_channels(count)
            hearing = heard(gateway, claim, recording, settings, timestamps=True, params=PARAMS)
            if who is not None:
                hearing = with_who_speaks(gateway, claim, recording, who, hearing)
            results.append(await hearing)
        return results


def _check_channels(count: int) -> None:
    if count > MAX_CHANNELS:
        raise wrong("multichannel", f"a recording of at most {MAX_CHANNELS} channels", str(count))


def _url(body: bytes) -> str:
    try:
        asked = parse_json(body)
    except (ValueError, RecursionError):
        raise wrong("body", "a JSON object with a url", "no JSON") from None
    url = asked.get("url") if isinstance(asked, dict) else None
    if not isinstance(url, str) or not url:
        raise wrong("url", "the URL of a recording", shown(url))
    try:
        return valid_unicode(url)
    except ValueError:
        raise wrong("url", "valid Unicode text", shown(url)) from None


def _results(heard: Sequence[FileTranscribed], options: FileOptions) -> shapes.Json:
    """heard: of each channel."""
    told: shapes.Json = {"channels": [_channel(result, options) for result in heard]}
    if options.utterances:
        parts = [u for i, result in enumerate(heard) for u in utterances(result, options.split, i)]
        parts.sort(key=lambda part: part["start"])
        told["utterances"] = [part | {"id": f"utterance_{i}"} for i, part in enumerate(parts)]
    return told


def _channel(result: FileTranscribed, options: FileOptions) -> shapes.Json:
    said = shapes.alternative(result.text.strip(), result.words, 0.0, _confidence(result))
    channel: shapes.Json = {"alternatives": [said]}
    if options.paragraphs:
        said["paragraphs"] = paragraphs(result)
    if options.tells_language and result.language is not None:
        channel["detected_language"] = result.language
        said["languages"] = spoken(result.segments) or [result.language]
    return channel


def _confidence(result: FileTranscribed) -> float | None:
    """Of a text without words."""
    sure = [token.logprob for token in result.logprobs or ()]
    return math.exp(sum(sure) / len(sure)) if sure else None
