"""What is told of texts that were gone on with, whole or in chunks."""

from __future__ import annotations

from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from lookhear.engine.messages import (
    AnswerCompleted,
    AnswerStarted,
    AnswerText,
    AnswerUsage,
    ChosenToken,
    PromptTokens,
    TokenLogprob,
)
from lookhear.gateway.chat.answers import ChoiceEvent
from lookhear.gateway.chat.completions.rendering import usage
from lookhear.gateway.chat.dialect import Json, frame
from lookhear.gateway.chat.logprobs import NEVER
from lookhear.gateway.http.errors import ApiError, error_body


@dataclass(slots=True)
class _Choice:
    """offset: where its next token begins, in characters: not where its text has come to, some of
    which may be held back. decoder: has the bytes of its tokens. reason: why it ended."""

    usage: AnswerUsage
    offset: int = 0
    reason: str | None = None
    decoder: IncrementalDecoder = field(
        default_factory=lambda: getincrementaldecoder("utf-8")("replace")
    )

    def offsets(self, pieces: Iterable[bytes]) -> list[int]:
        """Where each of the next tokens begins, of which these are the bytes."""
        found = []
        for piece in pieces:
            found.append(self.offset)
            self.offset += len(self.decoder.decode(piece))
        return found

    def begins(self, offset: int) -> None:
        """The next token is the first behind so many characters."""
        self.offset = offset
        self.decoder.reset()


class TextReply:
    """The answer to one request, whole or in chunks. each: choices of a prompt. echoes: for each
    prompt what stands in front of them; None: the text of its tokens. is_written: anything else is
    wanted."""

    def __init__(
        self,
        head: Json,
        each: int,
        echoes: Sequence[str | None],
        *,
        has_logprobs: bool,
        is_written: bool,
        include_usage: bool,
    ) -> None:
        self._head = head
        self._each = each
        self._echoes = echoes
        self._has_logprobs = has_logprobs
        self._is_written = is_written
        self._include_usage = include_usage
        self._choices = [_Choice(AnswerUsage()) for _ in range(each * len(echoes))]

    def whole(self, events: Iterable[tuple[int, ChoiceEvent]]) -> Json:
        """The body of an answer that is not streamed: its chunks, put together."""
        parts = [[self._told(index, "")] for index in range(len(self._choices))]
        for index, event in events:
            parts[index] += self._take(index, event)
        told = [_joined(each) for each in parts]
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
                return self._echoed(index, event.tokens)
            case AnswerText() if self._is_written and (event.text or event.tokens):
                chosen = None
                if (told := event.tokens) is not None:
                    chosen = _logprobs(told, choice.offsets(bytes(each.bytes) for each in told))
                return [self._told(index, event.text, chosen)]
            case AnswerCompleted():
                choice.usage, choice.reason = event.usage, event.reason
                if not self._is_written:
                    choice.usage, choice.reason = replace(event.usage, output=0), "length"
                return [self._told(index, "")]
            case _:
                return []

    def _echoed(self, index: int, prompt: PromptTokens | None) -> list[Json]:
        """What stands in front of a choice. prompt: its tokens, if they are known."""
        echo = self._echoes[index // self._each]
        pieces = [] if prompt is None else [prompt.pieces[token] for token in prompt.tokens]
        if echo is None:
            echo = b"".join(pieces).decode("utf-8", errors="replace")
        choice, told = self._choices[index], None
        if prompt is not None and self._has_logprobs:
            told = _of_prompt(prompt, choice.offsets(pieces))
        choice.begins(len(echo))
        return [self._told(index, echo, told)] if echo or told else []

    def _told(self, index: int, text: str, logprobs: Json | None = None) -> Json:
        return {
            "index": index,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": self._choices[index].reason,
        }


def _sum(counts: list[Json]) -> Json:
    """Of what was counted for each prompt."""
    first, *others = counts
    for other in others:
        first = {
            name: _sum([count, other[name]]) if isinstance(count, dict) else count + other[name]
            for name, count in first.items()
        }
    return first


def _joined(parts: Sequence[Json]) -> Json:
    """Neighbouring parts of a choice as one."""
    told = [part["logprobs"] for part in parts if part["logprobs"]]
    logprobs = {
        name: list(chain.from_iterable(each[name] for each in told))
        for name in (told[0] if told else ())
    }
    text = "".join(part["text"] for part in parts)
    return {**parts[-1], "text": text, "logprobs": logprobs or None}


def _logprobs(tokens: list[ChosenToken], offsets: list[int]) -> Json:
    """offsets: of each of them, in characters of the choice's text. What was chosen is among the
    likeliest, even where it is not one of them."""
    return {
        "tokens": [_named(token) for token in tokens],
        "token_logprobs": [max(token.logprob, NEVER) for token in tokens],
        "top_logprobs": [_probable(token.top) | _probable([token]) for token in tokens],
        "text_offset": offsets,
    }


def _of_prompt(prompt: PromptTokens, offsets: list[int]) -> Json:
    """As `_logprobs`. The first stands behind nothing."""
    spelt = [_spelt(piece) for piece in prompt.pieces]
    own = [max(logprob, NEVER) for logprob in prompt.logprobs]
    likeliest = [
        {spelt[other]: max(logprob, NEVER) for other, logprob in zip(top, probable, strict=True)}
        for top, probable in zip(prompt.top, prompt.top_logprobs, strict=True)
    ]
    for token, logprob, told in zip(prompt.tokens, own, likeliest, strict=True):
        told[spelt[token]] = logprob
    return {
        "tokens": [spelt[token] for token in prompt.tokens],
        "token_logprobs": [None, *own[1:]],
        "top_logprobs": [None, *likeliest[1:]],
        "text_offset": offsets,
    }


def _probable(tokens: Sequence[ChosenToken | TokenLogprob]) -> dict[str, float]:
    return {_named(token): max(token.logprob, NEVER) for token in tokens}


def _named(token: ChosenToken | TokenLogprob) -> str:
    """Special ones, which have no bytes, would all be the same by these."""
    return _spelt(bytes(token.bytes)) if token.bytes else token.token


def _spelt(piece: bytes) -> str:
    """A token's text; its bytes, as OpenAI writes them, where it is no more than a part of a
    character: as text all such are the same."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)
