"""`lookhear transcribe`: files, as fast as they go or at the speed of speech."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.text import Text

from lookhear.client import AsyncClient
from lookhear.commands.live import transcribe_live
from lookhear.commands.server_choice import DELAYS, chosen_server, comma_separated
from lookhear.errors import InvalidRequest, OutputError, SourceError, UsageError
from lookhear.sources.audio import at_pace, read_source, require_playable
from lookhear.sources.files import is_url, require_file
from lookhear.sources.level_meter import LevelMeter
from lookhear.terminal.output import json_text, require_writable, write_file
from lookhear.terminal.progress import progress
from lookhear.terminal.status_line import StatusLine
from lookhear.terminal.subtitles import TranscriptFile

# What the server calls the formats, and how their files are named.
_WIRE = {"text": "text", "json": "verbose_json", "srt": "srt", "vtt": "vtt"}
_SUFFIXES = {".txt": "text", ".json": "json", ".srt": "srt", ".vtt": "vtt"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `lookhear transcribe` takes, but for the server."""
    parser.add_argument(
        "files", metavar="FILE", nargs="+",
        help="audio or video; `-` is stdin; a URL is fetched by the server",
    )  # fmt: skip
    parser.add_argument(
        "--live",
        action="store_true",
        help="stream it at the speed of speech, text as it comes: wav, flac, mp3 or ogg",
    )
    parser.add_argument("--language", metavar="CODE", help="default: found by the model")
    parser.add_argument("--prompt", metavar="TEXT", help="what the speech is about")
    parser.add_argument(
        "--keywords", metavar="WORDS", type=comma_separated, default=(),
        help="names and terms that are heard more readily, with commas between them",
    )  # fmt: skip
    parser.add_argument(
        "--speakers", action="store_true",
        help="who says what (text or json), where the server has a model that tells them apart",
    )  # fmt: skip
    parser.add_argument(
        "--delay", choices=DELAYS,
        help="live: how long text waits to be surer; default: as the server is set",
    )  # fmt: skip
    parser.add_argument(
        "--near-field", action="store_true",
        help="live: only who speaks near the microphone",
    )  # fmt: skip
    parser.add_argument(
        "--no-vad", action="store_true", help="write what no voice detector hears, too (singing)"
    )
    parser.add_argument("--format", choices=list(_WIRE), help="default: as --out says, or text")
    parser.add_argument(
        "--json", dest="format", action="store_const", const="json", help="same as --format json"
    )
    parser.add_argument(
        "--out", metavar="PATH", help="a file (.txt, .srt, .vtt, .json), or a folder for several"
    )


def run(parsed: argparse.Namespace) -> int:
    """Exit status. LookhearError."""
    for file in parsed.files:
        if file != "-":
            if not is_url(file):
                require_file(file)
        elif sys.stdin.isatty():
            raise UsageError("transcribe -: expected a file through a pipe, as `< talk.mp3`")
    if parsed.delay is not None and not parsed.live:
        raise UsageError("transcribe --delay: expected --live, a whole file has no delay")
    if parsed.near_field and not parsed.live:
        raise UsageError("transcribe --near-field: expected --live, it says where live turns end")
    return _live(parsed) if parsed.live else _whole(parsed)


def _outputs(parsed: argparse.Namespace) -> tuple[str, Callable[[str], Path] | None]:
    """The format, and where the text of a file goes: None for stdout. UsageError."""
    out = None if parsed.out is None else Path(parsed.out)
    several = len(parsed.files) > 1
    if out is None:
        if several and parsed.format in ("srt", "vtt"):
            raise UsageError(f"transcribe: several files as {parsed.format} need --out FOLDER")
        return parsed.format or "text", None
    named = _SUFFIXES.get(out.suffix.lower())
    is_folder = os.path.isdir(out) or str(parsed.out).endswith("/")
    if several and named is not None and not os.path.exists(out) and not is_folder:
        raise UsageError(
            f"--out: expected a folder for several files, got {out}; a new folder of that name is "
            f"--out {out}/"
        )
    if several or is_folder:
        form = parsed.format or "text"
        suffix = next(suffix for suffix, name in _SUFFIXES.items() if name == form)
        stems = Counter(_stem(file) for file in parsed.files)
        if twice := [stem for stem, count in stems.items() if count > 1]:
            raise UsageError(f"transcribe: several files would be written to {twice[0]}{suffix}")
        _make_folder(out)
        for stem in stems:
            require_writable(out / f"{stem}{suffix}")
        return form, lambda file: out / f"{_stem(file)}{suffix}"
    form = parsed.format or named
    if form is None:
        raise UsageError(f"--out: expected .txt, .srt, .vtt or .json, or --format, got {out}")
    if named not in (None, form):
        raise UsageError(f"--out {out} says {named} and --format {form}: expected one format")
    require_writable(out)
    return form, lambda file: out


def _name(file: str) -> str:
    """In messages, where nobody wants to read all of a recording."""
    return "the data URL" if file[:5].lower() == "data:" else file


def _stem(file: str) -> str:
    if file == "-":
        return "stdin"
    if file[:5].lower() == "data:":
        return "data"
    return Path(urlsplit(file).path if is_url(file) else file).stem or "file"


def _require_apart(files: Sequence[str], target: Callable[[str], Path]) -> None:
    """UsageError where a text would be written over a recording."""
    found = [os.stat(file) for file in files if file != "-" and not is_url(file)]
    heard = {(one.st_dev, one.st_ino) for one in found if stat.S_ISREG(one.st_mode)}
    for written in map(target, files):
        with contextlib.suppress(OSError):  # there is none of that name
            there = os.stat(written)
            if (there.st_dev, there.st_ino) in heard:
                raise UsageError(f"--out: expected another file than the recording, got {written}")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise OutputError(f"cannot write into {folder}: expected a folder, got a file") from None
    except OSError as error:
        raise OutputError(f"cannot write into {folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise OutputError(f"cannot write into {folder}: not allowed to")


def _whole(parsed: argparse.Namespace) -> int:
    """Whole files, each in one request. What is wrong with one does not keep the others."""
    form, target = _outputs(parsed)
    if target is not None:
        _require_apart(parsed.files, target)
    if parsed.speakers and form in ("srt", "vtt"):
        raise UsageError(f"transcribe --speakers: expected text or json, got {form}")
    console = Console(stderr=True)
    failed = 0
    count = len(parsed.files)
    titles = [
        f"transcribing {_name(file)}" + (f" ({number} of {count})" if count > 1 else "")
        for number, file in enumerate(parsed.files, 1)
    ]
    with (
        chosen_server(parsed, console) as (url, model),
        progress(console, titles[0]) as report,
    ):
        client = AsyncClient(url, parsed.api_key)
        for number, file in enumerate(parsed.files):
            if count > 1:
                report(titles[number], number / count)

            def show(share: float, number: int = number) -> None:
                report(titles[number], (number + share) / count)

            try:
                answer = asyncio.run(
                    client.transcribe_raw(
                        sys.stdin.buffer.read() if file == "-" else file,
                        "diarized_json" if parsed.speakers else _WIRE[form],
                        model=model,
                        language=parsed.language,
                        prompt=parsed.prompt,
                        fields=_fields(parsed),
                        on_share=show,
                    )
                )
            except (InvalidRequest, SourceError) as error:
                if isinstance(error, InvalidRequest) and error.param in ("file", "url"):
                    error = error.about(_name(file))
                if isinstance(error, InvalidRequest) and error.code == "file_too_large":
                    hint = "its sound alone is smaller: ffmpeg -i FILE -vn -b:a 48k sound.ogg"
                    error = InvalidRequest(f"{error.message}; {hint}", error.code, error.param)
                if count == 1:
                    raise error from None
                failed += 1
                said = str(error)
                said = said if said.startswith(f"{_name(file)}: ") else f"{_name(file)}: {said}"
                console.print(f"lookhear: {said}", soft_wrap=True, markup=False)
                continue
            if parsed.speakers and form == "text":
                answer = _dialogue(answer)
            _deliver(answer.rstrip("\n"), form, file, target, count > 1)
            if target is not None and console.is_terminal:
                console.print(Text(f"{_name(file)} → {target(file)}", style="dim"), soft_wrap=True)
    return 1 if failed else 0


def _fields(parsed: argparse.Namespace) -> list[tuple[str, str]]:
    """Of the form, beside those that every request has."""
    fields = [("keywords[]", word) for word in parsed.keywords]
    return [*fields, ("vad_filter", "false")] if parsed.no_vad else fields


def _dialogue(answer: str) -> str:
    """A line for each part that one speaker says."""
    parts = json.loads(answer)["segments"]
    return "\n".join(f"{part['speaker']}: {part['text'].strip()}" for part in parts)


def _deliver(
    answer: str, form: str, file: str, target: Callable[[str], Path] | None, several: bool
) -> None:
    if form == "json":
        data = json.loads(answer)
        if several and target is None:  # an object per line that says which file it is
            answer = json_text({"file": file, **data})
        elif target is None:
            answer = json_text(data, indent=2)
        else:
            answer = json.dumps(data, ensure_ascii=False, indent=2)
    if target is not None:
        try:
            write_file(target(file), answer + "\n")
        except OutputError:
            print(answer, flush=True)  # what took long to compute is not lost with a full disk
            raise
    elif several and form == "text":
        print(f"{file}: {answer}", flush=True)
    else:
        print(answer, flush=True)


def _live(parsed: argparse.Namespace) -> int:
    """Stream at the speed of speech; text as it is committed."""
    if is_url(parsed.files[0]):
        raise UsageError("transcribe --live: expected a FILE, a URL is for whole files")
    if len(parsed.files) > 1 or parsed.files == ["-"]:
        raise UsageError("transcribe --live: expected one FILE; `lookhear listen -` reads stdin")
    if parsed.no_vad:
        raise UsageError("transcribe --live: expected no --no-vad, it is for whole files")
    form = parsed.format or "text"
    out = None if parsed.out is None else TranscriptFile(parsed.out)
    if out is not None:
        _require_apart(parsed.files, lambda file: Path(parsed.out))
    try:
        require_playable(parsed.files[0])  # before a server is started for it
    except SourceError as error:
        raise SourceError(f"{error}; without --live it may be any audio or video") from None
    with chosen_server(parsed, Console(stderr=True)) as (url, model):
        session = transcribe_live(
            AsyncClient(url, parsed.api_key),
            at_pace(read_source(parsed.files[0]), 1.0),
            StatusLine(LevelMeter(), hint="Ctrl-C stops"),
            form=form,
            out=out,
            model=model,
            language=parsed.language,
            prompt=parsed.prompt,
            keywords=parsed.keywords,
            delay=parsed.delay,
            near_field=parsed.near_field,
            speakers=parsed.speakers,
        )
        return asyncio.run(session)
