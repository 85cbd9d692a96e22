"""Deepgram's `POST /v1/listen`: a recording in the body, or by its URL; its text and words out."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lookhear.engine.messages import FileTranscribed, ModelCard, TranscriptionSettings
from lookhear.gateway.checks.checks import ProtocolError, shown
from lookhear.gateway.checks.models import diariser
from lookhear.gateway.checks.outline import parse_json
from lookhear.gateway.deepgram import shapes
from lookhear.gateway.deepgram.options import FileOptions, file_options, listener
from lookhear.gateway.files.hearing import heard, with_who_speaks
from lookhear.gateway.files.languages import spoken
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
        raise ApiError(400, problem.message, code=problem.code, param=problem.param) from None
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
    result = await until_gone(request, work)
    told = shapes.metadata(
        card,
        request=claim.request,
        sha256=sha256,
        created=gateway.now(),
        seconds=result.duration,
    )
    answer = {"metadata": told, "results": _results(result, options)}
    headers = notes(card, options.ignored) | {"dg-request-id": claim.request}
    return JSONResponse(answer, headers=headers)


async def _transcribed(
    gateway: Services,
    claim: Claim,
    options: FileOptions,
    card: ModelCard,
    who: ModelCard | None,
    source: bytes | str,
) -> FileTranscribed:
    """who: tells speakers apart, if that is wanted. source: the recording, or its URL."""
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
    async with gateway.file_slots.held(claim):
        asked = ("url", source) if isinstance(source, str) else source
        file = await gateway.pictures.audio_file(asked, claim)
        if (format := options.format) is not None:
            file = await gateway.in_thread(lambda: file.as_samples(format))
        recording = await gateway.pictures.recording(file, claim, FILE_CONFIG)
        hearing = heard(gateway, claim, recording, settings, timestamps=True, params=PARAMS)
        if who is None:
            return await hearing
        return await with_who_speaks(gateway, claim, recording, who, hearing)


def _url(body: bytes) -> str:
    try:
        asked = parse_json(body)
    except (ValueError, RecursionError):
        raise wrong("body", "a JSON object with a url", "no JSON") from None
    url = asked.get("url") if isinstance(asked, dict) else None
    if not isinstance(url, str) or not url:
        raise wrong("url", "the URL of a recording", shown(url))
    return url


def _results(result: FileTranscribed, options: FileOptions) -> shapes.Json:
    said = shapes.alternative(result.text.strip(), result.words, 0.0, _confidence(result))
    channel: shapes.Json = {"alternatives": [said]}
    if options.tells_language and result.language is not None:
        channel["detected_language"] = result.language
        said["languages"] = spoken(result.segments) or [result.language]
    told: shapes.Json = {"channels": [channel]}
    if options.utterances:
        told["utterances"] = _utterances(result, options.split)
    return told


def _confidence(result: FileTranscribed) -> float | None:
    """Of a text without words."""
    sure = [token.logprob for token in result.logprobs or ()]
    return math.exp(sum(sure) / len(sure)) if sure else None


def _utterances(result: FileTranscribed, split: float) -> list[shapes.Json]:
    """What one speaker says between pauses of so many seconds; without words, the segments."""
    told = shapes.words(shapes.whole(result.words, result.text), 0.0)
    if not told:
        return [
            _utterance(i, segment.text.strip(), segment.start, segment.end, [])
            | {"confidence": round(math.exp(min(segment.avg_logprob, 0.0)), 4)}
            | ({} if segment.speaker is None else {"speaker": segment.speaker})
            for i, segment in enumerate(result.segments)
        ]
    groups: list[list[shapes.Json]] = []
    for word in told:
        last = groups[-1][-1] if groups else None
        is_others = last is not None and word.get("speaker") != last.get("speaker")
        if last is None or is_others or word["start"] - last["end"] >= split:
            groups.append([])
        groups[-1].append(word)
    return [
        _utterance(
            i,
            " ".join(word["punctuated_word"] for word in group),
            group[0]["start"],
            group[-1]["end"],
            group,
        )
        for i, group in enumerate(groups)
    ]


def _utterance(
    index: int, text: str, start: float, end: float, words: Sequence[shapes.Json]
) -> shapes.Json:
    sure = [word["confidence"] for word in words]
    speaker = words[0].get("speaker") if words else None
    return {
        "start": round(start, 3),
        "end": round(end, 3),
        "confidence": round(sum(sure) / len(sure), 4) if sure else 0.0,
        "channel": 0,
        "transcript": text,
        "words": list(words),
        "id": f"utterance_{index}",
        **({} if speaker is None else {"speaker": speaker}),
    }
