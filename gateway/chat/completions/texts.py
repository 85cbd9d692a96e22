"""OpenAI's older Completions, `POST /v1/completions`: a text, or tokens, is gone on with as it
stands, with nothing of a chat template around it. Each choice, whole or in chunks, is an object
about a text. With `echo` that begins with the prompt, and with `logprobs` too it is told how
probable the prompt is: so language models are compared.

What cannot be used is an `ApiError` (400) that names the field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import islice
from typing import Annotated, Any

from pydantic import Field, ValidationError

from lookhear.engine.messages import (
    AnswerSettings,
    ModelCard,
    TextPart,
)
from lookhear.gateway.chat.completions.parameters import CompletionFields
from lookhear.gateway.chat.completions.rendering import heading
from lookhear.gateway.chat.completions.text_reply import TextReply
from lookhear.gateway.chat.dialect import Asked
from lookhear.gateway.chat.lines import Line
from lookhear.gateway.chat.refusals import Absent, check_absent, invalid, unicode, wrong_type
from lookhear.gateway.checks.answers import INT32
from lookhear.gateway.checks.checks import shown
from lookhear.gateway.checks.unread import MOST, unread
from lookhear.gateway.http.errors import wrong

MAX_TEXTS = 32  # choices of all prompts of a request
MAX_TOLD = 1 << 18  # numbers about tokens of prompts in a request's answer: of JSON some 7 MB
CHARACTERS = 3  # of a token, as a rule one more
USUAL_LENGTH = 16  # tokens, if none are named: as at OpenAI
IN_CHATS = "POST /v1/chat/completions has it"

ABSENT: Absent = {
    "suffix": ((None, ""), "texts are gone on with at their end"),
    "response_format": ((None, {"type": "text"}), IN_CHATS),
    "structured_outputs": ((None,), IN_CHATS),
    "chat_template_kwargs": ((None, {}), "a text has no chat template around it"),
    "prompt_embeds": ((None,), IN_CHATS),
    "prompt_logprobs": ((None,), "say echo true, and logprobs"),
    "use_beam_search": ((None, False), "this server samples, it has no beams"),
}
HARMLESS = {*ABSENT, "prompt", "user", "best_of"}
# The field of the body for each setting that an engine's refusal may begin with.
FIELDS = {
    **{field.name: field.name for field in fields(AnswerSettings)},
    "messages": "prompt",
    "stop_tokens": "stop_token_ids",
    "ignore_end": "ignore_eos",
    "prompt_logprobs": "logprobs",
}


class TextParameters(CompletionFields):
    """The fields that are read, by their names on the wire, but for the prompt."""

    max_tokens: Annotated[int, Field(ge=0, lt=INT32)] | None = None
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    echo: bool | None = None

    @property
    def length(self) -> int:
        """Tokens that are written at most."""
        return USUAL_LENGTH if self.max_tokens is None else self.max_tokens

    def settings(self, *, tells_prompt: bool) -> AnswerSettings:
        """Of the first choice, in the engine's words, but for the model. tells_prompt: the tokens
        of the prompt are wanted, too."""
        return self.settings_with(
            max_tokens=max(1, self.length),  # where none is, its beginning is not told
            logprobs=self.logprobs,
            is_plain=True,
            prompt_logprobs=(self.logprobs or 0) if tells_prompt else None,
        )


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
    checked.check(checked.length)
    return checked


def parse_prompts(value: object) -> list[Line]:
    """The texts to go on with, or the tokens of them, each by itself. Raises ApiError."""
    if value is None:
        raise wrong("prompt", "a text", "nothing", code="missing_required_parameter")
    if isinstance(value, list):
        if value and all(isinstance(entry, int) for entry in value):
            return [_prompt(value, "prompt")]
        if not 0 < len(value) <= MAX_TEXTS:
            raise wrong("prompt", f"1 to {MAX_TEXTS} texts", str(len(value)))
        return [_prompt(entry, f"prompt[{i}]") for i, entry in enumerate(value)]
    return [_prompt(value, "prompt")]


def _prompt(value: object, path: str) -> Line:
    if isinstance(value, list):
        return Line("user", [], [], path, tokens=_tokens(value, path))
    if not isinstance(value, str):
        raise wrong_type(path, "a text", value)
    if not value:
        raise wrong(path, "a text", "an empty one")
    return Line("user", [TextPart(unicode(value, path))], [path], path)


def _tokens(value: list[object], path: str) -> list[int]:
    if not value:
        raise wrong(path, "token ids", "none")
    for i, token in enumerate(value):
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < INT32:
            raise wrong(f"{path}[{i}]", "a token id", shown(token))
    return [token for token in value if isinstance(token, int)]


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
        texts = [None if line.tokens else _text(line) for line in lines]
        tells_prompt = bool(asked.echo) and (asked.logprobs is not None or None in texts)
        if tells_prompt:
            _check_told(lines, each * (1 + (asked.logprobs or 0)))
        found = unread(body, TextParameters, harmless=HARMLESS)

        def reply(card: ModelCard) -> TextReply:
            head = heading(self._ids("cmpl").replace("_", "-", 1), int(self._now()), card)
            return TextReply(
                {**head, "object": "text_completion"},
                each,
                texts if asked.echo else [""] * len(texts),
                has_logprobs=asked.logprobs is not None,
                is_written=asked.length > 0,
                include_usage=asked.include_usage,
            )

        return Asked(
            lines=lines,
            model=asked.model,
            settings=asked.settings(tells_prompt=tells_prompt),
            reply=reply,
            fields=FIELDS,
            choices=each * len(lines),
            are_apart=True,
            seeds_anew=asked.seed is not None,  # one that was drawn is of no prompt in particular
            is_streamed=bool(asked.stream),
            ignored=tuple(islice((path for path, asks in found if asks), MOST)),
        )


def _check_told(lines: list[Line], each: int) -> None:
    """Refuse what would become an answer without end. each: numbers that are told of each token.
    Raises ApiError."""
    told = each * sum(len(line.tokens) or len(_text(line)) // CHARACTERS for line in lines)
    if told > MAX_TOLD:
        expected = f"at most {MAX_TOLD} log probabilities of prompts at once"
        raise wrong("prompt", expected, f"{told}: {each} of each token")


def _text(line: Line) -> str:
    return "".join(part.text for part in line.parts if isinstance(part, TextPart))
