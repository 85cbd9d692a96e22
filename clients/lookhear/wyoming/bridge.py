"""A server of the Wyoming protocol (Home Assistant's voice services) before a lookhear server.

Each client's commands are transcribed live, each as one turn, so their text is nearly there when
they end. Wyoming knows no keys and no encryption: whoever reaches it may use it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit

from wyoming.asr import Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
from wyoming.error import Error
from wyoming.event import Event, async_write_event
from wyoming.info import AsrModel, AsrProgram, Attribution, Info
from wyoming.ping import Pong

import lookhear
from lookhear.client import AsyncClient
from lookhear.errors import LookhearError, ServerError, UsageError
from lookhear.live.events import Reconnecting, TextDelta, TurnCompleted, TurnFailed
from lookhear.results import Model
from lookhear.sources.raw import RawConverter
from lookhear.transport.retry import Retry
from lookhear.wyoming.events import MAX_LINE, BadEvent, Incoming, read_event

PROGRAM = "lookhear"
MADE_BY = Attribution(name="the lookhear authors", url="https://pypi.org/project/lookhear/")
AHEAD = 64  # chunks of a command that wait for the server; then its client waits
LINGER = 5.0  # seconds for which a client that was told of an error may hang up first
# Somebody stands there and waits: better an error soon than an answer in minutes.
RETRY = Retry(loading=30.0, seconds=30.0, refused=5.0)
MAX_KEYWORDS, MAX_KEYWORD = 100, 100  # that a server takes, and characters of one
PORT = 10300  # that Home Assistant's own speech recognition has
ONE_LANGUAGE = ("en",)  # of a model that lists none
NOTHING_ASKED = Incoming("transcribe", {}, b"")

Say = Callable[[str], None]


class Bridge:
    """client: of the server behind it. model: that hears, if a client names none; None: the
    server's first. log: takes a line about what went wrong."""

    def __init__(self, client: AsyncClient, model: str | None, log: Say) -> None:
        self._client = client
        self._model = model
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, uri: str, listening: Say, stop: asyncio.Event) -> None:
        """Until `stop`. uri: tcp://HOST:PORT or unix:///PATH. listening: is told the uri once
        clients can come, with the port that was found for port 0. UsageError."""
        try:
            server, found = await self._listen(uri)
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(f"--uri: cannot listen on {uri}: {reason}") from None
        try:
            listening(found)
            await stop.wait()
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self, uri: str) -> tuple[asyncio.AbstractServer, str]:
        host, port = parsed_uri(uri)
        if port is None:
            return await asyncio.start_unix_server(self._meet, host, limit=MAX_LINE), uri
        server = await asyncio.start_server(self._meet, host, port, limit=MAX_LINE)
        shown = f"[{host}]" if ":" in host else host
        return server, f"tcp://{shown}:{server.sockets[0].getsockname()[1]}"

    def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(self._client, self._model, reader, writer, self._log)
        task = asyncio.create_task(connection.run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Connection:
    """One client, from its first event to its last. See `Bridge`."""

    def __init__(
        self,
        client: AsyncClient,
        model: str | None,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        log: Say,
    ) -> None:
        self._client = client
        self._model = model
        self._reader = reader
        self._writer = writer
        self._log = log
        self._asked = NOTHING_ASKED  # of the next command
        self._command: Command | None = None  # that is being said
        self._hearing: asyncio.Task[None] | None = None  # of the last command
        self._is_over = False  # the client was told why, and what it still sends is dropped
        self._closing: asyncio.TimerHandle | None = None  # of one that does not hang up

    async def run(self) -> None:
        """Whatever goes wrong is an error event, and the end: clients wait for a transcript, and
        else would wait for ever."""
        try:
            try:
                while (event := await read_event(self._reader)) is not None:
                    if not self._is_over:
                        await self._take(event)
            except BadEvent as error:
                if self._hearing is not None and self._command is None:
                    await self._hearing  # what was said before is told first
                await self._fail(error)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LINGER):
                        while await self._reader.read(MAX_LINE):
                            pass
        except ConnectionError:
            pass  # it is gone
        finally:
            try:
                if self._hearing is not None:
                    self._hearing.cancel()
                    await asyncio.gather(self._hearing, return_exceptions=True)
            finally:  # the bridge may end meanwhile
                self._hearing = self._command = None  # the task's frames hold this connection
                await self._close()

    async def _take(self, event: Incoming) -> None:
        match event.type:
            case "describe":
                await self._describe()
            case "ping":
                await self._tell(Pong(text=event.text("text")).event())
            case "select-program":
                if event.text("name") != PROGRAM:
                    got = event.data.get("name")
                    raise BadEvent(f'select-program: name: expected "{PROGRAM}", got {got!r}')
            case "transcribe":
                self._check_quiet(event)
                self._asked = event
                event.text("name"), event.text("language")  # they are what they may be
                event.texts("transcript_names"), event.texts("transcript_terms")
            case "audio-start":
                self._check_quiet(event)
                await self._begin(event)
            case "audio-chunk":
                if self._command is None:  # some begin with their first chunk
                    if self._hearing is not None and self._asked is NOTHING_ASKED:
                        return  # of the last command, later than its end
                    await self._begin(event)
                assert self._command is not None and self._hearing is not None
                await self._command.add(event, self._hearing)
            case "audio-stop":
                if self._command is None and self._hearing is not None:
                    return  # some say it once for the button and once for the silence
                if self._command is None or self._hearing is None:
                    raise BadEvent("audio-stop: expected audio-start before it, got none")
                command, self._command = self._command, None
                self._asked = NOTHING_ASKED
                await command.end(self._hearing)
            case _:
                pass  # as of all that servers do not know

    def _check_quiet(self, event: Incoming) -> None:
        if self._command is not None:
            raise BadEvent(f"{event.type}: expected audio-stop first, the last command goes on")

    async def _begin(self, event: Incoming) -> None:
        """The next command is being said, once all was said of the last one."""
        if self._hearing is not None:
            await self._hearing
        self._command = Command(RawConverter(event.format()))
        self._hearing = asyncio.create_task(self._hear(self._command, self._asked))

    async def _hear(self, command: Command, asked: Incoming) -> None:
        """Transcribe it, and tell its text."""
        names = [*asked.texts("transcript_names"), *asked.texts("transcript_terms")]
        events = self._client.transcribe(
            command.pieces(),
            turn_detection=None,
            model=asked.text("name") or self._model,
            language=asked.text("language"),
            keywords=[name for name in names if len(name) <= MAX_KEYWORD][:MAX_KEYWORDS],
        )
        said, told, language = "", "", None
        try:
            await self._tell(TranscriptStart(language=asked.text("language")).event())
            async with contextlib.aclosing(events):
                async for event in events:
                    match event:
                        case TextDelta(text=text):
                            said = (said + text).lstrip()
                            # After a lost connection it is said again, perhaps in other words.
                            if said.startswith(told) and (more := said.rstrip()[len(told) :]):
                                told += more
                                await self._tell(TranscriptChunk(text=more).event())
                        case Reconnecting(superseded=superseded) if superseded:
                            said = ""
                        case TurnCompleted():
                            language = event.language
                        case TurnFailed(code=code, message=message):
                            raise ServerError(message, code)
                        case _:
                            pass
            await self._tell(Transcript(text=said.rstrip(), language=language).event())
            await self._tell(TranscriptStop().event())
        except ConnectionError:
            pass  # the client is gone
        except LookhearError as error:
            await self._fail(error)
        except Exception as error:  # ours: its client must not wait for ever
            await self._fail(LookhearError(f"lookhear wyoming failed: {error!r}"))

    async def _describe(self) -> None:
        try:
            models = await self._client.models()
        except LookhearError as error:
            await self._fail(error)
            return
        able = [model for model in models if not model.abilities or "transcribe" in model.abilities]
        if self._model is not None:
            able = [model for model in able if model.id == self._model] or able
        await self._tell(info(able).event())

    async def _fail(self, error: LookhearError) -> None:
        """Say what is wrong, and that nothing follows. To close at once would be to lose it: what
        the client still sends would reset the connection."""
        if self._is_over:
            return
        self._is_over = True
        code = error.code if isinstance(error, ServerError) else None
        code = "bad-event" if isinstance(error, BadEvent) else code
        self._log(str(error))
        with contextlib.suppress(ConnectionError):
            await self._tell(Error(text=str(error), code=code).event())
        with contextlib.suppress(OSError, RuntimeError):  # it is closed
            self._writer.write_eof()
        self._closing = asyncio.get_running_loop().call_later(LINGER, self._writer.close)

    async def _close(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
        self._writer.close()
        try:
            async with asyncio.timeout(LINGER):  # for which it may read the last of it
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()

    async def _tell(self, event: Event) -> None:
        await async_write_event(event, self._writer)


class Command:
    """What a client says, on its way to the server."""

    def __init__(self, converter: RawConverter) -> None:
        self._converter = converter
        self._pieces = asyncio.Queue[bytes | None](AHEAD)

    async def add(self, event: Incoming, hearing: asyncio.Task[None]) -> None:
        """hearing: the one who takes it; what comes when it has given up is dropped. BadEvent."""
        if (format := event.format()) != self._converter.format:
            expected = f"{self._converter.format} as before"
            raise BadEvent(f"audio-chunk: expected {expected}, got {format}")
        await self._put(self._converter.feed(event.payload), hearing)

    async def end(self, hearing: asyncio.Task[None]) -> None:
        """All of it was said."""
        await self._put(self._converter.feed(b"", last=True), hearing)
        await self._put(None, hearing)

    async def pieces(self) -> AsyncIterator[bytes]:
        """16-bit mono PCM at 24 kHz, until the end."""
        while (piece := await self._pieces.get()) is not None:
            yield piece

    async def _put(self, piece: bytes | None, hearing: asyncio.Task[None]) -> None:
        putting = asyncio.ensure_future(self._pieces.put(piece))
        try:
            await asyncio.wait((putting, hearing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            putting.cancel()


def info(models: list[Model]) -> Info:
    """What a client is told of them."""
    heard = [
        AsrModel(
            name=model.id,
            attribution=Attribution(name=model.owned_by or PROGRAM, url=MADE_BY.url),
            installed=True,
            description=model.id,
            version=None,
            languages=list(model.languages or ONE_LANGUAGE),
        )
        for model in models
    ]
    program = AsrProgram(
        name=PROGRAM,
        attribution=MADE_BY,
        installed=True,
        description="live transcription",
        version=lookhear.__version__,
        models=heard,
        supports_transcript_streaming=True,
    )
    return Info(asr=[program])


def parsed_uri(uri: str) -> tuple[str, int | None]:
    """(host, port), or (path of a socket, None). UsageError."""
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        raise _no_uri(uri) from None
    if parts.scheme == "unix" and parts.path:
        return parts.path, None
    if parts.scheme != "tcp" or not parts.hostname:
        raise _no_uri(uri)
    return parts.hostname, PORT if port is None else port


def _no_uri(uri: str) -> UsageError:
    return UsageError(f"--uri: expected tcp://HOST[:PORT] or unix:///PATH, got {uri!r}")
