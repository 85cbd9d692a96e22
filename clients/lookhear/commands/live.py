"""A source transcribed live on a terminal, into a pipe, and into a file."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from lookhear.client import AsyncClient
from lookhear.live.events import TurnCompleted, TurnFailed
from lookhear.terminal.output import print_event
from lookhear.terminal.status_line import StatusLine
from lookhear.terminal.subtitles import FORMATS, TranscriptFile
from lookhear.terminal.transcript import LiveTranscript


@contextlib.contextmanager
def first_interrupt(finish: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C calls `finish`, the next one ends the program, also where the loop is held
    up: by a pipe that nobody reads."""
    loop = asyncio.get_running_loop()

    def handle(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        loop.call_soon_threadsafe(finish)

    # A handler of the loop's would be called only when the loop gets on.
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


async def transcribe_live(
    client: AsyncClient,
    pieces: AsyncIterator[bytes],
    status: StatusLine,
    *,
    form: str,
    out: TranscriptFile | None = None,
    **session: Any,
) -> int:
    """Until the source ends and its last turn is done: the exit status, 1 if a turn failed.
    form: "text", "json", "srt", "vtt".

    pieces: 16-bit mono PCM at 24 kHz. session: as of `AsyncClient.transcribe`. LookhearError.
    """
    provisional = form in ("text", "json")
    heard = status.meter.watch(pieces)
    events = client.transcribe(heard, provisional=provisional, **session)
    completed: list[TurnCompleted] = []
    failed = 0
    console = Console(highlight=False)
    is_whole = False
    try:
        with contextlib.ExitStack() as shown:
            if form == "text":
                transcript = shown.enter_context(LiveTranscript(console, status))
            async with contextlib.aclosing(events):
                async for event in events:
                    if isinstance(event, TurnCompleted) and event.text.strip():
                        completed.append(event)
                        if out is not None:
                            out.add(event)
                    elif isinstance(event, TurnFailed):
                        failed += 1
                        if form != "text":  # which shows it in its place
                            print(f"lookhear: a turn failed: {event.message}", file=sys.stderr)
                    if form == "json":
                        print_event(event)
                    elif form == "text":
                        transcript.show(event)
        is_whole = True
    finally:  # what was said before Ctrl-C, or until the server was lost, is worth having too
        if form in FORMATS and (completed or is_whole):
            print(FORMATS[form](completed), end="", flush=True)
        # What is there is worth more than nothing.
        if out is not None and (completed or (is_whole and not failed)):
            out.save()
    if form == "text" and console.is_terminal:
        console.print(Text(status.summary(), style="dim"))
    return 1 if failed else 0
