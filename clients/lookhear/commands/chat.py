"""`lookhear chat`: one question, typed, piped or spoken; or a conversation on the terminal."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from lookhear.blocking import Client
from lookhear.chat.answers import AnswerCompleted, AnswerEvent, QuestionHeard
from lookhear.chat.content import named
from lookhear.client import AsyncClient
from lookhear.commands.chat_loop import ChatLoop
from lookhear.commands.live import first_interrupt
from lookhear.commands.server_choice import chosen_server
from lookhear.errors import InvalidRequest, ServerError, SourceError, UsageError
from lookhear.sources.audio import Source
from lookhear.sources.files import is_url, require_file
from lookhear.sources.microphone import Microphone
from lookhear.terminal.answer import AnswerDisplay, what_is_missing
from lookhear.terminal.output import print_event

# What a private server serves if no model is named: what looks, and what hears.
LOOKS, HEARS = "demo-qwen3-vl", "demo-qwen3-asr"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `lookhear chat` takes, but for the server."""
    parser.add_argument(
        "question", metavar="QUESTION", nargs="?", help="without one: a conversation, or stdin"
    )
    parser.add_argument(
        "--image", metavar="FILE", action="append", default=[], help="or a URL; may be repeated"
    )
    parser.add_argument(
        "--video", metavar="FILE", action="append", default=[], help="or a URL; may be repeated"
    )
    parser.add_argument(
        "--audio", metavar="FILE", help="the question, spoken; `-` records until Ctrl-C"
    )
    parser.add_argument("--system", metavar="TEXT", help="how to answer")
    parser.add_argument("--max-tokens", metavar="N", type=int, help="of an answer")
    parser.add_argument("--temperature", metavar="T", type=float, help="0: always the same")
    parser.add_argument(
        "--json-schema", metavar="FILE", help="the answer is JSON that keeps to this schema"
    )
    parser.add_argument("--json", action="store_true", help="an event per line")


def _check(parsed: argparse.Namespace) -> None:
    """Before any server is started: whether it can be asked, with stdin read. UsageError."""
    for medium in (*parsed.image, *parsed.video, *([parsed.audio] if parsed.audio else [])):
        if medium != "-" and not is_url(medium):
            require_file(medium)
    if parsed.max_tokens is not None and parsed.max_tokens < 1:
        raise UsageError(f"chat: --max-tokens: expected at least 1, got {parsed.max_tokens}")
    if parsed.temperature is not None and not math.isfinite(parsed.temperature):
        raise UsageError(f"chat: --temperature: expected a number, got {parsed.temperature}")
    parsed.extra = None
    if parsed.json_schema is not None:
        parsed.extra = {"response_format": _response_format(parsed.json_schema)}
    if parsed.audio is not None:
        if parsed.question is not None:
            raise UsageError("chat: expected a QUESTION or --audio, got both")
        if parsed.video:
            raise UsageError("chat: --audio goes with --image, not with --video")
        if parsed.json_schema is not None:
            raise UsageError("chat: --json-schema goes with a QUESTION, not with --audio")
        if is_url(parsed.audio):
            raise UsageError(f"chat: --audio: expected a file, got {parsed.audio}")
        return
    if parsed.question is None and not sys.stdin.isatty():
        parsed.question = _piped_question()
    elif parsed.question is None and parsed.json:
        raise UsageError("chat: --json needs a QUESTION")
    if parsed.question is not None and not parsed.question.strip():
        raise UsageError("chat: the question is empty")


def _piped_question() -> str:
    try:
        question = sys.stdin.read().strip()
        question.encode()  # some locales let bytes through that are no text
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise SourceError(
            f"stdin: expected a question as text, got bytes that are not {error.encoding}; "
            "--image and --audio take files"
        ) from None
    return question


def _response_format(path: str) -> dict[str, Any]:
    """Of the schema in a file."""
    require_file(path)
    try:
        schema = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SourceError(
            f"{path}: expected a JSON Schema, got what is no JSON ({error})"
        ) from None
    if not isinstance(schema, dict):
        raise SourceError(f"{path}: expected a JSON Schema, an object; got {schema!r:.40}")
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def run(parsed: argparse.Namespace) -> int:
    """Exit status. LookhearError."""
    _check(parsed)
    served = [parsed.model or LOOKS, *([HEARS] if parsed.audio is not None else [])]
    abilities = ["chat", *(["transcribe"] if parsed.audio is not None else [])]
    with chosen_server(parsed, Console(stderr=True), served, abilities) as (url, parsed.model):
        if parsed.audio is not None:
            return asyncio.run(_spoken(parsed, AsyncClient(url, parsed.api_key)))
        return _typed(parsed, url)


def _typed(parsed: argparse.Namespace, url: str) -> int:
    """The question is an argument or comes from stdin; or there are many, on the terminal."""
    settings: dict[str, Any] = {
        "model": parsed.model,
        "max_tokens": parsed.max_tokens,
        "temperature": parsed.temperature,
        "extra": parsed.extra,
    }
    console = Console(highlight=False)
    with Client(url, parsed.api_key) as client:
        if parsed.question is None:
            loop = ChatLoop(client, console, settings, parsed.system)
            loop.show_media(parsed.image, parsed.video)
            loop.run()
            return 0
        answer = client.chat(
            parsed.question,
            images=parsed.image,
            videos=parsed.video,
            system=parsed.system,
            **settings,
        )
        try:
            with answer, _display(parsed, console) as show:
                for event in answer.events():
                    show(event)
        except InvalidRequest as error:
            asked = int(parsed.system is not None)  # where the question stands
            raise named(error, [*parsed.image, *parsed.video], asked) from error
    return _status(answer.completed, parsed, console)


@contextlib.contextmanager
def _display(
    parsed: argparse.Namespace, console: Console
) -> Iterator[Callable[[AnswerEvent], None]]:
    """What shows the events of an answer. JSON goes to stdout as it is: on a terminal whatever is
    printed while a display spins is broken into lines."""
    if parsed.json:
        yield print_event
        return
    with AnswerDisplay(console) as display:
        yield display.show


async def _spoken(parsed: argparse.Namespace, client: AsyncClient) -> int:
    """The question is a recording: it travels with the pictures over one socket."""
    console = Console(highlight=False)
    source: Source = parsed.audio
    extension = None if parsed.temperature is None else {"temperature": parsed.temperature}
    conversation = client.conversation(
        model=parsed.model,
        instructions=parsed.system,
        max_tokens=parsed.max_tokens,
        extension=extension,
    )
    async with conversation as talk:
        for image in parsed.image:
            try:
                await talk.add_image(image)
            except InvalidRequest as error:
                raise error.about(image) from error
        with contextlib.ExitStack() as recording:
            if parsed.audio == "-":
                source = microphone = Microphone()
                recording.enter_context(first_interrupt(microphone.stop))
                Console(stderr=True).print("ask; Ctrl-C ends the question", style="dim")
            question = (await talk.add_audio(source)).strip()
        if parsed.json:
            print_event(QuestionHeard(question))
        else:
            console.print(Text(question, style="bold cyan"), soft_wrap=True)
        try:
            async with talk.respond() as answer:
                with _display(parsed, console) as show:
                    async for event in answer.events():
                        show(event)
        except ServerError as error:
            if question or error.code != "nothing_to_answer":
                raise
            name = "the microphone" if parsed.audio == "-" else parsed.audio
            raise SourceError(f"{name}: expected a spoken question, got no words") from error
    return _status(answer.completed, parsed, console)


def _status(completed: AnswerCompleted | None, parsed: argparse.Namespace, console: Console) -> int:
    """Exit status: 1, and a line on stderr where no display says it, if the answer is not whole."""
    missing = None if completed is None else what_is_missing(completed)
    if missing is not None and (parsed.json or not console.is_terminal):
        print(f"lookhear: the answer is not whole: {missing}", file=sys.stderr)
    return 0 if missing is None else 1
