"""What is longer by far than a model reads, as is known without its tokenizer. Pure.

A hundred megabytes of text are a message that nobody needs to pack, send and take apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lookhear.engine.messages import ModelCard, TextPart
from lookhear.gateway.chat.dialect import Asked
from lookhear.gateway.chat.lines import Line
from lookhear.gateway.chat.refusals import TOO_LONG, too_long
from lookhear.gateway.chat.truncation import remaining
from lookhear.gateway.http.errors import ApiError

# Characters of a token, at most: the longest that vocabularies have are a line of 128 blanks.
LONGEST = 1024


def least_tokens(lines: Iterable[Line], more: int = 0) -> int:
    """That these texts have. more: characters besides theirs."""
    for line in lines:
        more += len(line.thinking) + sum(len(call.arguments) for call in line.calls)
        more += sum(len(part.text) for part in line.parts if isinstance(part, TextPart))
    return more // LONGEST


def readable(asked: Asked, card: ModelCard) -> Asked:
    """Without the beginning that leaves no room for the rest, if it may be left out. Raises
    ApiError (400)."""
    lines, settings = asked.lines, asked.settings
    tools = sum(len(tool.description) + len(tool.parameters) for tool in settings.tools)

    def least() -> int:
        prompts: Sequence[Sequence[Line]] = (
            [[each] for each in lines] if asked.are_apart else [lines]
        )
        return max(least_tokens(prompt, tools) for prompt in prompts)

    while (tokens := least()) > card.context_tokens:
        kept = remaining(lines) if asked.truncates else None
        if kept is None:
            name, most = asked.fields["messages"], card.context_tokens
            expected = f"expected at most {most} tokens of prompt and answer"
            got = f"got {tokens} or more + {settings.max_tokens or 1}"
            message = too_long(f"{name}: {expected}, {got}")
            raise ApiError(400, message, code=TOO_LONG, param=name)
        lines = [lines[i] for i in kept]
    return replace(asked, lines=lines)
