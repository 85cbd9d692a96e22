"""OpenAI's older Completions, `POST /v1/completions`: a text is gone on with as it stands, with
nothing of a chat template around it. Each choice, whole or in chunks, is an object about a text.

What cannot be used is an `ApiError` (400) that names the field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import islice
from typing import Annotated, Any

from pydantic import Field, ValidationError

from lookhear.engine.messages import (
    AnswerCompleted,
    AnswerSettings,
    AnswerStarted,
    AnswerText,
    AnswerUsage,
    ChosenToken,
    ModelCard,
    TextPart,
)
from lookhear.gateway.chat.answers import ChoiceEvent
from lookhear.gateway.chat.completions.parameters import CompletionFields
from lookhear.gateway.chat.completions.rendering import heading, usage
from lookhear.gateway.chat.dialect import Asked, Json, frame
from lookhear.gateway.chat.lines import Line
from lookhear.gateway.chat.logprobs import NEVER
from lookhear.gateway.chat.refusals import Absent, check_absent, invalid, unicode, wrong_type
from lookhear.gateway.checks.checks import shown
from lookhear.gateway.checks.unread import MOST, unread
from lookhear.gateway.http.errors import ApiError, error_body, wrong

MAX_TEXTS = 32  # choices of all prompts of a request
USUAL_LENGTH = 16  # tokens, if none are named: as at OpenAI
IN_CHATS = "POST /v1/chat/completions has it"

ABSENT: Absent = {
    "suffix": ((None, ""), "texts are gone on with at their end"),
    "response_format": ((None, {"type": "text"}), IN_CHATS),
    "structured_outputs": ((None,), IN_CHATS),
    "chat_template_kwargs": ((None, {}), "a text has no chat template around it"),
    "prompt_embeds": ((None,), IN_CHATS),
    "prompt_logprobs": ((None,), "this server has log probabilities of answers only"),
    "use_beam_search": ((None, False), "this server samples, it has no beams"),
}
HARMLESS = {*ABSENT, "prompt", "user", "best_of"}
# The field of the body for each setting that an engine's refusal may begin with.
FIELDS = {
    **{field.name: field.name for field in fields(AnswerSettings)},
    "messages": "prompt",
    "stop_tokens": "stop_token_ids",
    "ignore_end": "ignore_eos",
}


class TextParameters(CompletionFields):
    """The fields that are read, by their names on the wire, but for the prompt."""

    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    echo: bool | None = None

    def settings(self) -> AnswerSettings:
        """Of the first choice, in the engine's words, but for the model."""
        most = self.max_tokens or USUAL_LENGTH
        return self.settings_with(max_tokens=most, logprobs=self.logprobs, is_plain=True)


def parse_text_parameters(body: Mapping[str, Any]) -> TextParameters:
    """Raises ApiError, naming the field."""
    check_absent(body, ABSENT)
    try:
        checked = TextParameters.model_validate(body)
    except ValidationError as error:
        raise invalid(error) from None
    each, best_of = checked.n or 1, body.get("best_of")
    if best_of not in (None, each):
        expected = f"{each}, as many as are wanted: each choice is written once"
        raise wrong("best_of", expected, shown(best_of), code="unsupported_parameter")
    checked.check(checked.max_tokens or USUAL_LENGTH)
    if checked.echo and checked.logprobs is not None:
        expected = "false with logprobs, which are of what is written only"
        raise wrong("echo", expected, "true", code="unsupported_parameter")
    return checked


def parse_prompts(value: object) -> list[Line]:
    """The texts to go on with, each by itself. Raises ApiError."""
    if value is None:
        raise wrong("prompt", "a text", "nothing", code="missing_required_parameter")
    if isinstance(value, list):
        if any(isinstance(entry, int | list) for entry in value):
            expected = "texts, token ids are not read here"
            raise wrong("prompt", expected, "a list of numbers", code="unsupported_parameter")
        if not 0 < len(value) <= MAX_TEXTS:
            raise wrong("prompt", f"1 to {MAX_TEXTS} texts", str(len(value)))
        return [_prompt(entry, f"prompt[{i}]") for i, entry in enumerate(value)]
    return [_prompt(value, "prompt")]


def _prompt(value: object, path: str) -> Line:
    if not isinstance(value, str):
        raise wrong_type(path, "a text", value)
    if not value:
        raise wrong(path, "a text", "an empty one")
    return Line("user", [TextPart(unicode(value, path))], [path], path)


class TextCompletions:
    """ids: makes a fresh id of a prefix. now: Unix seconds."""

    def __init__(self, ids: Callable[[str], str], now: Callable[[], float]) -> None:
        self._ids = ids
        self._now = now

    def parse(self, body: dict[str, Any], max_media: int, owner: str) -> Asked:
        """Read a request; see `Dialect`. Nothing is kept, so nobody owns anything."""
        asked, lines = parse_text_parameters(body), parse_prompts(body.get("prompt"))
        each = asked.n or 1
        if each * len(lines) > MAX_TEXTS:
            expected = f"at most {MAX_TEXTS} choices, of all prompts together"
            raise wrong("n", expected, f"{each} of {len(lines)} prompts")
        texts = [part.text for line in lines for part in line.parts if isinstance(part, TextPart)]
        found = unread(body, TextParameters, harmless=HARMLESS)

        def reply(card: ModelCard) -> TextReply:
            head = heading(self._ids("cmpl").replace("_", "-", 1), int(self._now()), card)
            return TextReply(
                {**head, "object": "text_completion"},
                each,
                texts if asked.echo else [""] * len(texts),
                include_usage=asked.include_usage,
            )

        return Asked(
            lines=lines,
            model=asked.model,
            settings=asked.settings(),
            reply=reply,
            fields=FIELDS,
            choices=each * len(lines),
            are_apart=True,
            is_streamed=bool(asked.stream),
            ignored=tuple(islice((path for path, asks in found if asks), MOST)),
        )


@dataclass(slots=True)
class _Choice:
    """length: of its text so far, in characters. reason: why it ended."""

    usage: AnswerUsage
    length: int = 0
    reason: str | None = None


class TextReply:
    """The answer to one request, whole or in chunks. each: choices of a prompt. echoes: for each
    prompt what stands in front of them."""

    def __init__(self, head: Json, each: int, echoes: list[str], *, include_usage: bool) -> None:
        self._head = head
        self._each = each
        self._echoes = echoes
        self._include_usage = include_usage
        self._choices = [_Choice(AnswerUsage()) for _ in range(each * len(echoes))]

    def whole(self, events: Iterable[tuple[int, ChoiceEvent]]) -> Json:
        """The body of an answer that is not streamed: its chunks, put together."""
        told = [self._told(index, "") for index in range(len(self._choices))]
        for index, event in events:
            for part in self._take(index, event):
                told[index] = _joined(told[index], part)
        return {**self._head, "choices": told, "usage": self._usage()}

    def of(self, choice: int, event: ChoiceEvent) -> list[str]:
        """What one event becomes."""
        more = {"usage": None} if self._include_usage else {}
        return [
            frame({**self._head, "choices": [part], **more}) for part in self._take(choice, event)
        ]

    def end(self) -> list[str]:
        """What follows when every choice is complete."""
        last = {**self._head, "choices": [], "usage": self._usage()}
        return [*([frame(last)] if self._include_usage else []), "data: [DONE]\n\n"]

    def failed(self, error: ApiError) -> list[str]:
        """An event that is an error, as over HTTP."""
        return [frame(error_body(error.message, error.type, error.code, error.param))]

    def close(self) -> None:
        """Nothing of it is kept."""

    def _usage(self) -> Json:
        used, each = [choice.usage for choice in self._choices], self._each
        return _sum([usage(used[at : at + each]) for at in range(0, len(used), each)])

    def _take(self, index: int, event: ChoiceEvent) -> list[Json]:
        choice = self._choices[index]
        match event:
            case AnswerStarted():
                choice.usage = event.usage
                echo = self._echoes[index // self._each]
                return [self._told(index, echo)] if echo else []
            case AnswerText() if event.text or event.tokens:
                return [self._told(index, event.text, event.tokens)]
            case AnswerCompleted():
                choice.usage, choice.reason = event.usage, event.reason
                return [self._told(index, "")]
            case _:
                return []

    def _told(self, index: int, text: str, tokens: list[ChosenToken] | None = None) -> Json:
        choice = self._choices[index]
        told = {
            "index": index,
            "text": text,
            "logprobs": None if tokens is None else _logprobs(tokens, choice.length),
            "finish_reason": choice.reason,
        }
        choice.length += len(text)
        return told


def _sum(counts: list[Json]) -> Json:
    """Of what was counted for each prompt."""
    first, *others = counts
    for other in others:
        first = {
            name: _sum([count, other[name]]) if isinstance(count, dict) else count + other[name]
            for name, count in first.items()
        }
    return first


def _joined(first: Json, second: Json) -> Json:
    """Two neighbouring parts of a choice as one."""
    logprobs = first["logprobs"] or second["logprobs"]
    if first["logprobs"] and second["logprobs"]:
        logprobs = {
            name: [*first["logprobs"][name], *second["logprobs"][name]] for name in logprobs
        }
    return {**second, "text": first["text"] + second["text"], "logprobs": logprobs}


def _logprobs(tokens: list[ChosenToken], start: int) -> Json:
    """start: of the first of them, in characters of the choice's text. What was chosen is among
    the likeliest, even where it is not one of them."""
    offsets = []
    for token in tokens:
        offsets.append(start)
        start += len(token.token)
    return {
        "tokens": [token.token for token in tokens],
        "token_logprobs": [max(token.logprob, NEVER) for token in tokens],
        "top_logprobs": [
            {each.token: max(each.logprob, NEVER) for each in token.top}
            | {token.token: max(token.logprob, NEVER)}
            for token in tokens
        ],
        "text_offset": offsets,
    }
