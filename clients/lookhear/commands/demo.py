"""`make demo`: a server, a recording streamed to it live, and the numbers."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from lookhear.client import AsyncClient
from lookhear.commands.private_server import (
    NEEDS_SERVER,
    ServerProcess,
    free_port,
    server_installed,
)
from lookhear.commands.server_choice import about_toy, started_server
from lookhear.errors import LookhearError, SourceError, UsageError
from lookhear.live.events import TextDelta, TurnCompleted, TurnFailed
from lookhear.sources.audio import at_pace, read_source
from lookhear.sources.files import require_file
from lookhear.sources.pcm import RATE, SAMPLE_BYTES
from lookhear.terminal.transcript import LiveTranscript
from lookhear.wer import WordErrors, word_errors

MOST_PORT = 65_535
QUIET_SECONDS = 1.5  # of silence after the recording, as after a person who has finished
# The first hears the recording: a real one if it can be had, as of `lookhear serve`; the second
# sees pictures.
HEARS, SEES = "auto", "demo-qwen3-vl"
PERSON = "kennedy.opus"
SYNTHESISED = "hello.opus"  # what a toy understands: it cannot hear people


@dataclass(frozen=True, slots=True)
class Recording:
    """An audio file and what is said in it. words: (start, end) in seconds, in order."""

    audio: Path
    text: str
    words: tuple[tuple[float, float], ...]


def bundled_recording(name: str) -> Path:
    """One of the recordings beside the demo models; from lookhear-demo. SourceError."""
    found = importlib.util.find_spec("lookhear_demo")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        audio = Path(folder) / "recordings" / name
        if audio.is_file():
            return audio
    raise SourceError(
        "the bundled recordings are not installed (pip install lookhear-demo); name one with --file"
    )


def read_recording(audio: Path) -> Recording:
    """Reads the JSON of the same name beside the audio. SourceError.

    {text, words: [{word, start_s, end_s}]}, or {text, sentences: [{words: …}]}.
    """
    try:
        require_file(audio)
        if not audio.with_suffix(".json").exists():
            missing = f"no such file: {audio.with_suffix('.json')}"
            raise SourceError(f"{missing}, which tells what is said in {audio.name}, and when")
        data = json.loads(audio.with_suffix(".json").read_text("utf-8"))
        spoken = [word for part in data.get("sentences", [data]) for word in part["words"]]
        words = tuple((float(w["start_s"]), float(w["end_s"])) for w in spoken)
        if not words:
            raise ValueError("no words")
        return Recording(audio, str(data["text"]), words)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{audio.with_suffix('.json')}: {error!r}") from error


def demo_models(usual: str) -> tuple[str, ...]:
    """Those of the demo. usual: what `auto` means here, one or a list in brackets; "": whatever can
    be had."""
    return (HEARS,) if SEES in re.findall(r"[^\s,\[\]\"']+", usual) else (HEARS, SEES)


@dataclass(slots=True)
class Measurement:
    """What is seen while the recording is streamed; times on the recording's own clock."""

    turns: list[TurnCompleted] = field(default_factory=list)
    first_text: float | None = None
    finals: list[float] = field(default_factory=list)  # seconds after the end of speech, per turn
    failed: list[str] = field(default_factory=list)

    def report(self, recording: Recording) -> Table:
        """The numbers as people read them, a row each."""
        errors = self.errors(recording)
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold")
        table.add_column(justify="right", style="green")
        table.add_column(style="dim")
        table.add_row(
            "word error rate", f"{errors.rate:.1%}", f"{errors.wrong} of {errors.words} words"
        )
        if self.first_text is not None:
            first = self.first_text - recording.words[0][0]
            table.add_row("first text", f"{first:.2f} s", "after the first word began")
        if self.finals:
            note = "after the end of speech, the wait for silence included"
            if len(self.finals) > 1:
                note += f" (median of {len(self.finals)}; worst {max(self.finals):.2f} s)"
            table.add_row("final text", f"{statistics.median(self.finals):.2f} s", note)
        return table

    def errors(self, recording: Recording) -> WordErrors:
        """The words that were heard against those of the recording."""
        said = sorted(self.turns, key=lambda turn: turn.start)
        return word_errors(recording.text, " ".join(turn.text for turn in said))


async def stream(client: AsyncClient, recording: Recording, console: Console) -> Measurement:
    """Stream it at the speed of speech, show the text as it comes, and measure. LookhearError."""
    started, seen = 0.0, Measurement()  # started: when its first sample was spoken

    async def spoken() -> AsyncIterator[bytes]:
        nonlocal started
        started = time.monotonic()
        async for piece in read_source(recording.audio):
            yield piece
        yield bytes(int(QUIET_SECONDS * RATE) * SAMPLE_BYTES)

    events = client.transcribe(at_pace(spoken(), 1.0), provisional=True)
    with LiveTranscript(console) as transcript:
        async with aclosing(events):
            async for event in events:
                transcript.show(event)
                now = time.monotonic() - started
                if isinstance(event, TextDelta) and seen.first_text is None:
                    seen.first_text = now
                elif isinstance(event, TurnFailed):
                    seen.failed.append(event.message)
                elif isinstance(event, TurnCompleted) and event.text.strip():
                    seen.turns.append(event)
                    ends = [end for start, end in recording.words if start < event.end]
                    seen.finals += [now - ends[-1]] if ends else []
    return seen


def run(*, once: bool, port: int, file: str | None, model: str | None) -> int:
    """The whole demo. Exit status: 0, 1 if the stream failed, 2 if something is not installed."""
    if not 0 <= port <= MOST_PORT:
        raise UsageError(f"demo: --port: expected 0 to {MOST_PORT}, got {port}")
    console = Console(highlight=False)
    if not server_installed():
        console.print(f"lookhear demo needs {NEEDS_SERVER}", style="red", markup=False)
        return 2
    try:
        if file is not None:
            person = synthesised = read_recording(Path(file))
        else:
            person, synthesised = (
                read_recording(bundled_recording(name)) for name in (PERSON, SYNTHESISED)
            )
        if (chosen := free_port(port)) != port and port != 0:
            console.print(f"port {port} is taken: using {chosen}", style="yellow")
        served = demo_models(os.environ.get("LOOKHEAR_MODEL", "")) if model is None else (model,)
        with started_server(console, chosen, served) as server:
            return _show(console, person, synthesised, server, once)
    except LookhearError as error:
        console.print(f"the demo failed: {error}", style="red", markup=False)
        return 1


def _show(
    console: Console,
    person: Recording,
    synthesised: Recording,
    server: ServerProcess,
    once: bool,
) -> int:
    """synthesised: what is played if a toy hears it."""
    client = AsyncClient(server.address.base_url)
    models = asyncio.run(client.models())
    sees = any("image" in model.abilities for model in models)
    about = [f"{model.id}: {model.reason}" for model in models if model.reason]
    about += [about_toy(model) for model in models if model.toy]
    recording = synthesised if models[0].toy else person
    if about:
        said = Text("\n".join(about))
        console.print(Panel(said, title="lookhear", title_align="left", border_style="cyan"))
    console.print(
        f"[dim]{models[0].id} hears[/] {recording.audio.name} [dim]at the speed of speech; "
        "text that may still change is dim[/]\n"
    )
    seen = asyncio.run(stream(client, recording, console))
    console.print()
    console.print(seen.report(recording))
    if seen.failed or not seen.turns:
        problem = seen.failed[0] if seen.failed else "no text came"
        console.print(f"the stream failed: {problem}", style="red", markup=False)
        return 1
    if once:
        return 0
    console.print(
        f"\nOpen [bold cyan]{server.address.base_url}/[/] and speak"
        f"{', or show it a picture' if sees else ''}. Ctrl-C ends the server."
    )
    try:
        return server.wait()
    except KeyboardInterrupt:
        console.print("ending the server", style="dim")
        return 0
