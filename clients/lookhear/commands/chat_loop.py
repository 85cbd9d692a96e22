"""The conversation of `lookhear chat` on a terminal: typed questions, named pictures, answers."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from lookhear.blocking import BlockingAnswer, Client
from lookhear.chat.answers import AnswerDelta
from lookhear.chat.content import message, named
from lookhear.errors import InvalidRequest, LookhearError, SourceError
from lookhear.sources.files import is_url, require_file
from lookhear.terminal.answer import AnswerDisplay

HELP = (
    ("/image FILE …", "show pictures, then ask about them"),
    ("/video FILE …", "show videos"),
    ("/clear", "forget everything and begin anew"),
    ("/quit", "end, as Ctrl-D does; Ctrl-C stops an answer"),
)


class ChatLoop:
    """Holds the conversation: every question is sent with all that came before, and the server
    finds that in its cache. read: asks for a line, as `input` does."""

    def __init__(
        self,
        client: Client,
        console: Console,
        settings: Mapping[str, Any],
        system: str | None = None,
        read: Callable[[str], str] | None = None,
    ) -> None:
        self._client = client
        self._console = console
        self._settings = settings
        self._system = system
        self._read = read or _line_reader(console)
        self._messages: list[dict[str, Any]] = []
        self._images: list[str] = []  # shown, and not asked about yet
        self._videos: list[str] = []
        self._forget()

    def run(self) -> None:
        """Until /quit or the end of the input. KeyboardInterrupt: Ctrl-C at the prompt."""
        self._note("Ask something. /image FILE shows a picture, /help tells the rest.")
        while True:
            try:
                line = self._read("› ").strip()
            except EOFError:
                self._console.print()  # the prompt's line is not ended
                return
            except KeyboardInterrupt:
                self._console.print()
                raise
            command, _, rest = line.partition(" ")
            if command in ("/quit", "/exit"):
                return
            try:
                if command in ("/image", "/video"):
                    files = _files(rest)
                    if not files:
                        self._problem(f"{command}: expected a FILE")
                    self.show_media(*((files, []) if command == "/image" else ([], files)))
                elif command == "/clear":
                    self._forget()
                    self._note("forgotten")
                elif line in ("/help", "/?"):
                    self._help()
                elif command.startswith("/") and "/" not in command[1:]:
                    self._problem(f"{command}: no such command; /help tells which there are")
                elif line:
                    self._ask(line)
            except LookhearError as error:
                self._problem(str(error))

    def show_media(self, images: Sequence[str], videos: Sequence[str]) -> None:
        """They go with the next question."""
        for kept, files in ((self._images, images), (self._videos, videos)):
            for file in files:
                if not is_url(file):
                    file = os.path.expanduser(file)
                    try:
                        require_file(file)
                    except SourceError as error:
                        self._problem(str(error))
                        continue
                kept.append(file)
                self._note(f"{file} goes with your next question")

    def _forget(self) -> None:
        self._messages = [] if self._system is None else [message("system", self._system)]
        self._images.clear()
        self._videos.clear()

    def _ask(self, line: str) -> None:
        question = message("user", line, images=self._images, videos=self._videos)
        media = [*self._images, *self._videos]
        answer = self._client.chat([*self._messages, question], **self._settings)
        said = ""
        try:
            said = self._show(answer)
        except InvalidRequest as error:
            # Asking again with the same pictures would fail again.
            if self._images or self._videos:
                self._note("the pictures are taken back")
            self._images.clear()
            self._videos.clear()
            if error.code == "context_length_exceeded":
                self._note("/clear begins anew")
            raise named(error, media, len(self._messages)) from error
        if said:  # else it was stopped before it began: as if it had not been asked
            self._messages += [question, message("assistant", said)]
            self._images.clear()
            self._videos.clear()

    def _show(self, answer: BlockingAnswer) -> str:
        """The answer, or as much as there was when Ctrl-C stopped it."""
        said = []
        try:
            with answer, AnswerDisplay(self._console) as display:
                for event in answer.events():
                    if isinstance(event, AnswerDelta):
                        said.append(event.text)
                    display.show(event)
        except KeyboardInterrupt:
            self._note("stopped")
        return "".join(said)

    def _help(self) -> None:
        for command, meaning in HELP:
            self._console.print(Text.assemble((f"{command:16}", "cyan"), meaning))

    def _note(self, text: str) -> None:
        self._console.print(Text(text, style="dim"))

    def _problem(self, text: str) -> None:
        self._console.print(Text(text, style="red"))


def _files(rest: str) -> list[str]:
    """Names as a shell would take them: terminals quote what is dropped on them. On Windows a
    backslash stands between folders."""
    shell = shlex.shlex(rest, posix=True, punctuation_chars=False)
    shell.whitespace_split, shell.commenters = True, ""
    if os.name == "nt":
        shell.escape = ""
    try:
        return [*shell]
    except ValueError:  # a lone quote: then it is part of the name
        return [rest.strip()]


def _line_reader(console: Console) -> Callable[[str], str]:
    """`input` with history and a coloured prompt, where there are such things."""
    try:
        import readline  # noqa: F401 (importing it is what turns it on)
    except ImportError:  # not on Windows
        return input
    if console.no_color or not console.is_terminal:
        return input
    # \x01 and \x02 tell readline what has no width.
    return lambda prompt: input(f"\x01\x1b[1;36m\x02{prompt}\x01\x1b[0m\x02")
