"""`lookhear listen`: the microphone, or sound from a pipe, as text while it is spoken."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

from rich.console import Console

from lookhear.client import AsyncClient
from lookhear.commands.live import first_interrupt, transcribe_live
from lookhear.commands.server_choice import DELAYS, chosen_server, comma_separated
from lookhear.errors import SourceError, UsageError
from lookhear.sources.audio import read_source
from lookhear.sources.level_meter import LevelMeter
from lookhear.sources.microphone import Microphone, input_devices, require_microphone
from lookhear.sources.pcm import HIGHEST_RATE, LOWEST_RATE
from lookhear.sources.pcm_stream import read_stream
from lookhear.sources.standard_input import read_blocks
from lookhear.terminal.status_line import StatusLine
from lookhear.terminal.subtitles import TranscriptFile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `lookhear listen` takes, but for the server."""
    parser.add_argument(
        "source",
        metavar="-",
        nargs="?",
        choices=["-"],
        help="stdin instead of the microphone: WAV, or bare 16-bit mono PCM",
    )
    parser.add_argument("--stdin", action="store_true", help="the same as -")
    parser.add_argument(
        "--rate", metavar="HZ", type=int, help="of bare PCM on stdin; default: 24000"
    )
    parser.add_argument("--device", metavar="NAME", help="microphone: a name, or its number")
    parser.add_argument("--list-devices", action="store_true", help="list microphones and end")
    parser.add_argument("--language", metavar="CODE", help="default: found by the model")
    parser.add_argument("--prompt", metavar="TEXT", help="what the speech is about")
    parser.add_argument(
        "--keywords", metavar="WORDS", type=comma_separated, default=(),
        help="names and terms that are heard more readily, with commas between them",
    )  # fmt: skip
    parser.add_argument(
        "--speakers", action="store_true",
        help="who says what, where the server has a model that tells them apart",
    )  # fmt: skip
    parser.add_argument(
        "--delay", choices=DELAYS,
        help="how long text waits to be surer; default: as the server is set",
    )  # fmt: skip
    parser.add_argument(
        "--near-field", action="store_true",
        help="only who speaks near the microphone: no television, nobody at the next table",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="FILE", help="also write .srt, .vtt or .txt, whole after every turn"
    )
    parser.add_argument(
        "--json", dest="format", action="store_const", const="json", default="text",
        help="an event per line",
    )  # fmt: skip


def run(parsed: argparse.Namespace) -> int:
    """Exit status. LookhearError."""
    if parsed.list_devices:
        if not (devices := input_devices()):
            require_microphone()  # says what to do
        for number, name, default in devices:
            print(f"{'*' if default else ' '} {number:3}  {name}")
        return 0
    if parsed.rate is not None and not LOWEST_RATE <= parsed.rate <= HIGHEST_RATE:
        expected = f"{LOWEST_RATE} to {HIGHEST_RATE} Hz"
        raise UsageError(f"listen --rate: expected {expected}, got {parsed.rate}")
    piped = parsed.stdin or parsed.source == "-"
    device = parsed.device
    device = int(device) if device is not None and device.isdecimal() else device
    if not piped:
        require_microphone(device)
    elif sys.stdin.isatty():
        raise UsageError(
            "listen -: expected sound through a pipe, as `ffmpeg -i SOURCE -f wav - | lookhear "
            "listen -`"
        )
    out = None if parsed.out is None else TranscriptFile(parsed.out)
    with chosen_server(parsed, Console(stderr=True)) as (url, model):
        client = AsyncClient(url, parsed.api_key)
        source = None if piped else Microphone(device)
        return asyncio.run(_listen(client, source, model, parsed, out))


async def _listen(
    client: AsyncClient,
    microphone: Microphone | None,
    model: str | None,
    parsed: argparse.Namespace,
    out: TranscriptFile | None,
) -> int:
    status, stop = StatusLine(LevelMeter()), asyncio.Event()

    def finish() -> None:
        """What was said last is still transcribed."""
        status.finishing()
        stop.set()
        if microphone is not None:
            microphone.stop()

    pieces: AsyncIterator[bytes]
    with first_interrupt(finish), microphone or contextlib.nullcontext():
        if microphone is not None:
            pieces = read_source(microphone)
        else:
            blocks = _something(read_blocks(sys.stdin.fileno(), stop), stop)
            pieces = read_stream(blocks, parsed.rate)
        return await transcribe_live(
            client,
            pieces,
            status,
            form=parsed.format,
            out=out,
            model=model,
            language=parsed.language,
            prompt=parsed.prompt,
            keywords=parsed.keywords,
            delay=parsed.delay,
            near_field=parsed.near_field,
            speakers=parsed.speakers,
        )


async def _something(blocks: AsyncIterator[bytes], stop: asyncio.Event) -> AsyncIterator[bytes]:
    """The same; a pipe into which nothing was written is not a silent success: what should have
    written has failed. SourceError."""
    is_empty = True
    async for block in blocks:
        is_empty = False
        yield block
    if is_empty and not stop.is_set():
        raise SourceError("stdin: expected sound, got nothing")
