"""`POST /v1/audio/transcriptions` and `/v1/audio/translations`: a file in, its text out."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from python_multipart.exceptions import MultipartParseError
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from lookhear.engine.messages import FileTranscribed, ModelCard, TranscriptionSettings
from lookhear.gateway.checks.checks import MAX_PROMPT, shown
from lookhear.gateway.checks.languages import language_code
from lookhear.gateway.checks.models import NO_WHO, NONE, diariser
from lookhear.gateway.decoding.results import Recording
from lookhear.gateway.files import subtitles
from lookhear.gateway.files.form import boolean, ignored, text, texts
from lookhear.gateway.files.hearing import heard, with_who_speaks
from lookhear.gateway.files.opening import heard_from_the_first
from lookhear.gateway.files.sources import opened
from lookhear.gateway.files.speakers import diarized_json
from lookhear.gateway.files.streaming import FileStream, FileWork, OnProgress, events
from lookhear.gateway.files.voices import read_voices
from lookhear.gateway.http.errors import ApiError, wrong
from lookhear.gateway.http.notes import notes
from lookhear.gateway.http.requests import limited, until_gone
from lookhear.gateway.services.services import Services, served, services
from lookhear.gateway.slots import Claim
from lookhear.gateway.telemetry.log import log_event
from lookhear.media.voice.vad import VadConfig

FORMATS = ("json", "text", "srt", "verbose_json", "vtt")
DIARIZED = "diarized_json"
KINDS = ("multipart/form-data", "application/x-www-form-urlencoded")  # the latter with a URL
MAX_KEYWORDS, MAX_KEYWORD = 100, 100  # of them, and characters of one
MAX_FIELDS = 1000  # of a form; each keyword is one
GRANULARITIES = ("segment", "word")
PROGRESS = "lookhear_progress"
URLS = ("url", "file_url")  # where others look for the address of a recording
READ = {
    *("file", "model", "language", "prompt", "keywords", "hotwords", "response_format"),
    *("temperature", "timestamp_granularities", "include", "stream", "vad_filter"),
    *("chunking_strategy", "user", "url", "file_url", "diarize", PROGRESS),
}
# The field of the form for each setting that an engine's refusal may name.
PARAMS = {name: name for name in ("file", "language", "prompt", "temperature")} | {
    "words": "timestamp_granularities[]",
}


@dataclass(frozen=True, slots=True)
class FileRequest:
    """The checked fields of one request. file: the recording, or (field, its URL)."""

    file: bytes | tuple[str, str]
    settings: TranscriptionSettings
    format: str
    temperature: float
    granularities: frozenset[str]
    stream: bool
    tells_progress: bool
    diariser: ModelCard | None  # who tells speakers apart, if that is wanted
    voices: VadConfig | None  # how voices are sought; None: all of the file is speech
    told: dict[str, str]  # headers of the answer


async def transcriptions(request: Request) -> Response:
    """Answer with the text in the language that was spoken."""
    return await _serve(request, "transcribe")


async def translations(request: Request) -> Response:
    """Answer with the text in English."""
    return await _serve(request, "translate")


async def _serve(request: Request, task: str) -> Response:
    gateway = services(request)
    gateway.check_loaded()
    asked = await _read(request, gateway, task)
    await until_gone(request, gateway.until_ready(asked.settings.model))
    if asked.diariser is not None:
        await until_gone(request, gateway.until_ready(asked.diariser.id))
    claim = gateway.claim(request, gateway.ids("file"))
    if asked.stream:
        return await _streamed(request, gateway, asked, claim)
    result = await until_gone(request, _transcribe(gateway, asked, claim))
    answer = _answer(asked, result)
    answer.headers.update(asked.told)
    return answer


async def _streamed(
    request: Request, gateway: Services, asked: FileRequest, claim: Claim
) -> Response:
    """The text as it is written. What cannot be done is still an answer of its own, unless some of
    it was told."""
    work = FileWork(lambda on_progress: _transcribe(gateway, asked, claim, on_progress))
    try:
        await until_gone(request, work.begin())
    except BaseException:
        work.close()
        raise

    def whole(result: FileTranscribed) -> str:
        return bytes(_answer(asked, result).body).decode()

    progress = asked.tells_progress
    told = events(
        work,
        tells_progress=progress,
        whole=whole if progress else None,
        diarized=asked.format == DIARIZED,
    )
    return FileStream(work, told, asked.told)


async def _transcribe(
    gateway: Services, asked: FileRequest, claim: Claim, on_progress: OnProgress | None = None
) -> FileTranscribed:
    async def decode(first_seconds: float | None = None) -> Recording:
        return await gateway.pictures.recording(file, claim, asked.voices, first_seconds)

    async def hear(
        recording: Recording,
        on_progress: OnProgress | None = None,
        before: FileTranscribed | None = None,
    ) -> FileTranscribed:
        return await heard(
            gateway,
            claim,
            recording,
            asked.settings,
            timestamps=asked.format in ("srt", "vtt", "verbose_json", DIARIZED),
            temperature=asked.temperature,
            before=before,
            params=PARAMS,
            on_progress=on_progress,
        )

    async with opened(gateway, asked.file, claim) as file:
        if asked.diariser is not None:
            recording = await decode()
            hearing = hear(recording, on_progress)
            return await with_who_speaks(gateway, claim, recording, asked.diariser, hearing)
        if on_progress is None:
            return await hear(await decode())
        return await heard_from_the_first(decode, hear, on_progress)


def _answer(asked: FileRequest, result: FileTranscribed) -> Response:
    match asked.format:
        case "text":
            return PlainTextResponse(result.text + "\n")
        case "srt":
            return PlainTextResponse(subtitles.srt(result.segments))
        case "vtt":
            return Response(subtitles.vtt(result.segments), media_type="text/vtt")
        case "verbose_json":
            body = subtitles.verbose_json(
                result,
                task=asked.settings.task,
                segments="segment" in asked.granularities or not asked.granularities,
                words="word" in asked.granularities,
            )
            return JSONResponse(body)
        case "diarized_json":
            return JSONResponse(diarized_json(result, subtitles.usage(result)))
        case _:
            return JSONResponse(subtitles.plain_json(result))


# --- the form ------------------------------------------------------------------------------------


async def _read(request: Request, gateway: Services, task: str) -> FileRequest:
    kind = request.headers.get("content-type", "")
    if not kind.lower().startswith(KINDS):
        message = f"Content-Type: expected {KINDS[0]}, got {kind!r}"
        raise ApiError(400, message, code="invalid_content_type", param="content-type")
    most = gateway.config.max_upload_bytes
    request = limited(request, most)
    try:
        # A recording in a data URL is a field.
        async with request.form(max_files=4, max_fields=MAX_FIELDS, max_part_size=most) as form:
            card = served(text(form, "model") or None, gateway.models, task)
            settings = _settings(form, card, task)
            who = diariser(gateway.models) if task == "transcribe" else None
            format = _format(form, who)
            asked = FileRequest(
                file=await _source(form),
                settings=replace(settings, logprobs=_wants_logprobs(form, format)),
                format=format,
                temperature=_temperature(form),
                granularities=_granularities(form, format),
                stream=boolean(form, "stream"),
                tells_progress=boolean(form, PROGRESS),
                diariser=_diariser(form, format, who),
                voices=read_voices(form),
                told=notes(card, ignored(form, _read_fields(form, format))),
            )
    except (MultipartParseError, HTTPException) as error:
        detail = error.detail if isinstance(error, HTTPException) else error
        message = f"body: expected a multipart form, got: {detail}"
        raise ApiError(400, message, code="invalid_form", param="body") from None
    except OSError as error:  # what is larger than a megabyte waits in a temporary file
        raise _no_room(error) from None
    if "word" in asked.granularities:
        if (reason := card.untimed(asked.settings.language)) is not None:
            expected = f"segment, {reason}"
            raise wrong("timestamp_granularities[]", expected, "word", "invalid_words")
        asked = replace(asked, settings=replace(asked.settings, words=True))
    if asked.diariser is not None:
        words = card.untimed(asked.settings.language) is None
        asked = replace(asked, settings=replace(asked.settings, words=words))
    return asked


def _no_room(error: OSError) -> ApiError:
    reason = error.strerror or str(error)
    log_event("upload.no_room", level=logging.ERROR, reason=reason)
    message = f"file: expected room for it on the server's disk, got: {reason}; try again later"
    return ApiError(507, message, code="insufficient_storage", param="file")


async def _source(form: FormData) -> bytes | tuple[str, str]:
    """The recording, or the field with its URL, and that."""
    file, urls = form.get("file"), [(name, url) for name in URLS if (url := text(form, name))]
    if urls and file:
        raise wrong(urls[0][0], "none beside a file", shown(urls[0][1]))
    if urls:
        return urls[0]
    if not isinstance(file, UploadFile):
        if file is None:
            code = "missing_required_parameter"
            raise wrong("file", "an uploaded audio file, or its url", "nothing", code)
        raise wrong("file", "an uploaded audio file", "text")
    return await file.read()


def _read_fields(form: FormData, format: str) -> set[str]:
    read = set(READ)
    if not text(form, "language"):
        read.add("languages")
    if format != "verbose_json":
        read.remove("timestamp_granularities")
    is_plain = boolean(form, "stream") and not boolean(form, PROGRESS)
    if is_plain and format not in ("json", DIARIZED):  # the events are the same in all the others
        read -= {"response_format", "timestamp_granularities"}
    return read


def _settings(form: FormData, card: ModelCard, task: str) -> TranscriptionSettings:
    language = language_code(text(form, "language"))
    languages = [] if language else texts(form, "languages")
    among = list(dict.fromkeys(code for code in map(language_code, languages) if code))
    for name, code in (("language", language), *(("languages[]", code) for code in among)):
        if code is not None and card.languages and code not in card.languages:
            known = f"one of {', '.join(card.languages)}"
            raise wrong(name, known, shown(code), "invalid_language")
    return TranscriptionSettings(
        model=card.id,
        language=among[0] if len(among) == 1 else language,
        languages=() if len(among) == 1 else tuple(among),
        task=task,
        # Of a long text before it only the end counts, as with OpenAI: nobody need cut it.
        prompt=(text(form, "prompt") or "")[-MAX_PROMPT:],
        keywords=_keywords(form),
    )


def _keywords(form: FormData) -> tuple[str, ...]:
    """Those of OpenAI, and `hotwords` as faster-whisper has them: in one text, with commas."""
    separate = ((f"{name}[]", word) for name in ("keywords",) for word in texts(form, name))
    joined = (("hotwords", word) for text in texts(form, "hotwords") for word in text.split(","))
    words: dict[str, None] = {}
    for name, given in (*separate, *joined):
        word = " ".join(given.split())
        if len(word) > MAX_KEYWORD:
            raise wrong(name, f"at most {MAX_KEYWORD} characters", shown(word))
        if word:
            words[word] = None
        if len(words) > MAX_KEYWORDS:
            raise wrong(name, f"at most {MAX_KEYWORDS} words", "more")
    return tuple(words)


def _format(form: FormData, who: ModelCard | None) -> str:
    format = text(form, "response_format") or "json"
    known = FORMATS if who is None else (*FORMATS, DIARIZED)
    if format == DIARIZED and who is None:
        raise wrong("response_format", f"one of {', '.join(FORMATS)}{NONE}", shown(format), NO_WHO)
    if format not in known:
        raise wrong("response_format", f"one of {', '.join(known)}", shown(format))
    return format


def _diariser(form: FormData, format: str, who: ModelCard | None) -> ModelCard | None:
    """who: tells speakers apart, if anybody does. None: nobody is asked to."""
    if text(form, "known_speaker_names") or texts(form, "known_speaker_names"):
        raise wrong("known_speaker_names[]", "none, speakers are not known by their voices", "some")
    if not boolean(form, "diarize"):
        return who if format == DIARIZED else None
    if who is None:
        raise wrong("diarize", f"false{NONE}", "'true'", NO_WHO)
    if format not in (DIARIZED, "verbose_json"):
        raise wrong("diarize", f"{DIARIZED} or verbose_json with it", shown(format))
    return who


def _temperature(form: FormData) -> float:
    given = text(form, "temperature") or "0"
    try:
        temperature = float(given)
    except ValueError:
        temperature = -1.0
    if not 0 <= temperature <= 1:
        raise wrong("temperature", "a number from 0 to 1", shown(given))
    return temperature


def _granularities(form: FormData, format: str) -> frozenset[str]:
    name = "timestamp_granularities[]"
    values = texts(form, "timestamp_granularities")
    for value in values:
        if value not in GRANULARITIES:
            raise wrong(name, "segment or word", shown(value))
    # Clients ask for them with every format; in the others they have no place, and are named.
    return frozenset(values if format == "verbose_json" else ())


def _wants_logprobs(form: FormData, format: str) -> bool:
    name = "include[]"
    values = texts(form, "include")
    for value in values:
        if value != "logprobs":
            raise wrong(name, "logprobs", shown(value))
    if values and format != "json":
        raise wrong(name, "response_format json with it", format)
    return bool(values)
