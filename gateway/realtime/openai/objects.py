"""The objects inside server events: sessions, items, responses, usage, errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from lookhear.engine.messages import AnswerUsage, TokenLogprob
from lookhear.gateway.checks.answers import Sampling
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.openai.session_updates import LOGPROBS
from lookhear.gateway.realtime.protocol.conversation import (
    AudioContent,
    CallContent,
    Content,
    ImageContent,
    Item,
    OutputContent,
    TextContent,
)
from lookhear.gateway.realtime.protocol.dialect import Json
from lookhear.gateway.realtime.protocol.events import ResponseDone, ResponseHead, ResumeOffer
from lookhear.gateway.realtime.settings import (
    ConverseSettings,
    SessionSettings,
    TurnDetection,
)


def session(
    settings: SessionSettings,
    session_id: str,
    expires_at: int | None,
    toys: Sequence[str] = (),
    resume: ResumeOffer | None = None,
) -> Json:
    """The whole effective configuration, as `session.created` and `session.updated` show it."""
    format: Json = {"type": settings.format.kind}
    if settings.format.kind == "audio/pcm":
        format["rate"] = settings.format.rate
    audio: Json = {"format": format}
    converse = settings.converse
    if settings.model is not None:
        transcription: Json = {"model": settings.model}
        if settings.language is not None:
            transcription["language"] = settings.language
        if settings.languages:
            transcription["languages"] = list(settings.languages)
        if settings.prompt:
            transcription["prompt"] = settings.prompt
        if settings.keywords:
            transcription["keywords"] = list(settings.keywords)
        if settings.delay is not None:
            transcription["delay"] = settings.delay
        audio["transcription"] = transcription
    if settings.noise_reduction is not None:
        audio["noise_reduction"] = {"type": settings.noise_reduction}
    if settings.turn_detection is not None:
        audio["turn_detection"] = _detection(settings.turn_detection, answers=converse is not None)
    session: Json = {
        "type": "transcription",
        "id": session_id,
        "object": "realtime.transcription_session",
        "audio": {"input": audio},
    }
    if converse is not None:
        session |= {"type": "realtime", "object": "realtime.session", **_converse(converse)}
    if settings.logprobs:
        session["include"] = [LOGPROBS]
    if expires_at is not None:
        session["expires_at"] = expires_at
    extensions: Json = {}
    if settings.ignored:
        extensions["ignored"] = list(settings.ignored)
    if settings.asked:
        extensions["asked"] = dict(settings.asked)
    if settings.extended:
        extensions |= {"provisional": settings.provisional, "words": settings.words}
        if settings.diariser is not None:
            extensions["speakers"] = True
        detection = settings.turn_detection
        if detection is not None and detection.type == "semantic_vad":
            extensions["turn_end"] = settings.turn_end
        if converse is not None or settings.eager is not None:
            extensions["eager"] = settings.eager
        if toys:
            extensions["toys"] = list(toys)
        if converse is not None:
            extensions |= _sampling(converse.sampling)
            extensions["camera"] = asdict(converse.camera)
    if resume is not None:
        extensions["resume"] = asdict(resume)
    if extensions:
        session["lookhear"] = extensions
    return session


def _detection(settings: TurnDetection, *, answers: bool) -> Json:
    names = ["type"]
    if settings.type == "semantic_vad":
        names.append("eagerness")
    else:
        names += ["threshold", "prefix_padding_ms", "silence_duration_ms"]
    if answers:
        names += ["create_response", "interrupt_response"]
    if answers and settings.type == "server_vad":
        names.append("idle_timeout_ms")
    return {name: getattr(settings, name) for name in names}


def _converse(settings: ConverseSettings) -> Json:
    """The fields that a transcription session has not."""
    return {
        "model": settings.model,
        "output_modalities": ["text"],
        "instructions": settings.instructions,
        "max_output_tokens": settings.max_output_tokens or "inf",
        "tools": [{"type": "function", **tool.on_wire()} for tool in settings.tools],
        "tool_choice": settings.tool_choice.on_wire,
        "parallel_tool_calls": settings.parallel_calls,
        "truncation": settings.truncation
        if settings.retention is None
        else {"type": "retention_ratio", "retention_ratio": settings.retention},
    }


def _sampling(sampling: Sampling) -> Json:
    """What differs from the defaults."""
    default = Sampling()
    values = {f.name: getattr(sampling, f.name) for f in fields(sampling)}
    changed = {name: v for name, v in values.items() if v != getattr(default, name)}
    if "response_format" in changed:
        changed["response_format"] = sampling.response_format.on_wire()
    return changed


def item(item: Item) -> Json:
    """An item as it is now."""
    head = {"id": item.id, "object": "realtime.item", "status": item.status}
    match item.content:
        case [CallContent(call_id, name, arguments)]:
            # Arguments that are still being written are told by their deltas.
            told = "" if item.status == "in_progress" else arguments
            call = {"call_id": call_id, "name": name, "arguments": told}
            return {**head, "type": "function_call", **call}
        case [OutputContent(call_id, output)]:
            return {**head, "type": "function_call_output", "call_id": call_id, "output": output}
    return {
        "id": item.id,
        "object": "realtime.item",
        "type": "message",
        "status": item.status,
        "role": item.role,
        "content": [_part(part, item.role) for part in item.content],
    }


def _part(part: Content, role: str) -> Json:
    match part:
        case TextContent():
            return {
                "type": "output_text" if role == "assistant" else "input_text",
                "text": part.text,
            }
        case ImageContent():
            wire = {"type": "input_image", "detail": part.detail}
            return wire if part.url is None else {**wire, "image_url": part.url}
        case AudioContent():
            return {"type": "input_audio", "transcript": part.transcript}
        case CallContent() | OutputContent():
            raise AssertionError("calls and their outputs are no parts of a message")


def response(head: ResponseHead, status: str, output: Sequence[Json] = ()) -> Json:
    """A response that has said `output` so far."""
    response: Json = {
        "object": "realtime.response",
        "id": head.id,
        "status": status,
        "output": list(output),
        "output_modalities": ["text"],
        "max_output_tokens": head.settings.max_output_tokens or "inf",
    }
    if head.conversation is not None:
        response["conversation_id"] = head.conversation
    if head.metadata is not None:
        response["metadata"] = head.metadata
    return response


def status_details(done: ResponseDone) -> Json:
    """Why a response ended as it did."""
    details: Json = {"type": done.status}
    if done.reason is not None:
        details["reason"] = done.reason
    if done.problem is not None:
        details["error"] = failure(done.problem)
    return details


def usage(usage: AnswerUsage) -> Json:
    """Tokens; frames of videos are counted with the images."""
    seen = usage.image + usage.video
    return {
        "total_tokens": usage.prompt + usage.output,
        "input_tokens": usage.prompt,
        "output_tokens": usage.output,
        "input_token_details": {
            "text_tokens": usage.prompt - seen - usage.audio,
            "audio_tokens": usage.audio,
            "image_tokens": seen,
            "cached_tokens": usage.cached,
        },
        "output_token_details": {"text_tokens": usage.output, "audio_tokens": 0},
    }


def failure(problem: ProtocolError) -> dict[str, Any]:
    """What every error says."""
    return {"type": problem.type, "code": problem.code, "message": problem.message}


def logprobs(logprobs: Sequence[TokenLogprob]) -> list[Json]:
    """Of the tokens of a text."""
    return [{"token": p.token, "logprob": p.logprob, "bytes": list(p.bytes)} for p in logprobs]
