"""JSON objects of Deepgram's API, as its SDKs' models describe them, built as plain dicts."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers

from lookhear.engine.messages import ModelCard, Word

Json = dict[str, Any]

_EDGES = ".,;:!?¡¿\"'()[]{}…-–—«»„“”‚‘’"  # of a word; not part of what was said
JOINERS = "-‐‑'’._@/:,"  # within a word, a part of which may be known before the rest
# Letters of scripts that write no blanks between words: at each of them one may begin.
_UNSPACED = (
    "\u0e00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_NEXT_WORD = re.compile(rf"[\s{_UNSPACED}]")
_NEXT_LETTER = re.compile(r"\s|[^\W_]")
_GOES_ON = re.compile(rf"[{JOINERS}]+[^\W_]")
MOST_IN_HEADER = 1000  # characters
# Words for what went wrong, by the status of the answer.
_CODES = {400: "Bad Request", 401: "INVALID_AUTH", 403: "FORBIDDEN", 404: "NOT_FOUND"} | {
    408: "TIMEOUT",
    413: "PAYLOAD_TOO_LARGE",
    429: "TOO_MANY_REQUESTS",
    503: "SERVICE_UNAVAILABLE",
}


def denial(message: str, request: str, status: int) -> tuple[Json, dict[str, str]]:
    """-> body and headers of the answer to what is refused. The reason is in a header, too: many
    clients of sockets show no body. request: its id."""
    code = _CODES.get(status, "Bad Request" if status < 500 else "INTERNAL_SERVER_ERROR")
    line = message.encode("ascii", "backslashreplace").decode()[:MOST_IN_HEADER]
    body = {"err_code": code, "err_msg": message, "request_id": request}
    return body, {"dg-error": line, "dg-request-id": request}


def is_theirs(headers: Headers) -> bool:
    """Whether a request for what other APIs have, too, is one of Deepgram's clients: their keys
    come by a scheme of their own."""
    return headers.get("authorization", "").lower().startswith("token ")


def model_uuid(card: ModelCard) -> str:
    """The same for the same model, wherever it is served."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"lookhear:{card.id}"))


def model_info(card: ModelCard) -> Json:
    """name: what it is really called. version: the day on which it was made."""
    day = datetime.fromtimestamp(card.created, UTC).date().isoformat()
    return {"name": card.id, "version": f"{day}.0", "arch": card.architecture}


def listed(card: ModelCard) -> Json:
    """As a list of models has it. All that transcribe do it live and from recordings."""
    about, name = model_info(card), {"name": card.id, "canonical_name": card.id}
    return {
        **name,
        "architecture": about["arch"],
        "languages": card.languages,
        "version": about["version"],
        "uuid": model_uuid(card),
        "batch": True,
        "streaming": True,
        "formatted_output": True,
    }


def words(said: Sequence[Word], start: float) -> list[Json]:
    """start: in seconds, where their times are counted from."""
    told = []
    for word in said:
        written = word.word.strip()
        shape = {
            "word": written.strip(_EDGES).lower() or written,
            "start": round(start + word.start, 3),
            "end": round(start + word.end, 3),
            "confidence": round(word.probability, 4),
            "punctuated_word": written,
        }
        told.append(shape if word.speaker is None else {**shape, "speaker": word.speaker})
    return told


def letters(parts: Iterable[str]) -> int:
    """Letters and digits of them all: where a sign stands is told in different ways."""
    return sum(char.isalnum() for part in parts for char in part)


def is_unspaced(text: str) -> bool:
    """Whether its first letter is of a script that writes no blanks between words."""
    return _IS_UNSPACED.match(text) is not None


def behind(before: str, text: str) -> str:
    """What of a text is of the last word before it, if it begins within that or with a sign."""
    is_within = is_unspaced(before.rstrip(JOINERS)[-1:])
    return (_NEXT_LETTER if is_within else _NEXT_WORD).split(text, 1)[0]


def rest(before: str, text: str) -> str:
    """What of a text a sign holds together with the last word before it; "": nothing."""
    more = behind(before, text)
    is_cut = before[-1:] in tuple(JOINERS) and more[:1].isalnum()
    return more if is_cut or _GOES_ON.match(more) else ""


def whole(said: Sequence[Word], text: str) -> list[Word]:
    """One for each word of the text, as far as they are known: to Whisper "cold-hearted" is two, of
    which the second begins with the sign."""
    told, first = list[Word](), 0
    for written in text.split():
        size, last, count = letters([written]), first, 0
        while last < len(said) and count < size:
            count += letters([said[last].word])
            last += 1
        parts = said[first:last]
        told += _joined(parts) if count == size else parts
        first = last
    return [*told, *said[first:]]


def _joined(parts: Sequence[Word]) -> list[Word]:
    """Where a sign holds them together. In languages without spaces all is one word of the text."""
    told = list(parts[:1])
    for part in parts[1:]:
        before = told[-1]
        if rest(before.word, part.word):
            sure = min(before.probability, part.probability)
            word = before.word + part.word
            told[-1] = replace(before, word=word, end=part.end, probability=sure)
        else:
            told.append(part)
    return told


def alternative(text: str, said: Sequence[Word], start: float, confidence: float | None) -> Json:
    """confidence: of the text, if it has no words; None: nobody knows it."""
    said = whole(said, text)
    if said:
        confidence = sum(word.probability for word in said) / len(said)
    return {
        "transcript": text,
        "confidence": round(confidence or 0.0, 4),
        "words": words(said, start),
    }


def metadata(
    card: ModelCard,
    *,
    request: str,
    sha256: str,
    created: float,
    seconds: float,
    channels: int = 1,
) -> Json:
    """Of all that was heard. sha256: of its bytes. created: Unix seconds."""
    at = datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds")
    key = model_uuid(card)
    return {
        "transaction_key": "deprecated",
        "request_id": request,
        "sha256": sha256,
        "created": at.replace("+00:00", "Z"),
        "duration": round(seconds, 3),
        "channels": channels,
        "models": [key],
        "model_info": {key: model_info(card)},
    }
