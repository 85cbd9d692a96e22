"""What a person sees while the server starts."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from lookhear.engine.config import AUTO_MODEL, DEFAULT_REAL, DEFAULT_TOY, EngineConfig
from lookhear.engine.messages import ModelCard, Starting
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.telemetry.log import log_event

# What is instead of a toy for people, by what the toy knows a little of.
REAL_MODELS = {
    "speech": "openai/whisper-large-v3-turbo",
    "pictures": "Qwen/Qwen3-VL-2B-Instruct",
}


class Stdout:
    """Stdout, for as long as somebody takes what is said: a server does not end for a pipe that was
    closed, as by `| head`, or a disk that is full."""

    def write(self, text: str) -> int:
        with self._or_never():
            sys.stdout.write(text)
        return len(text)

    def flush(self) -> None:
        with self._or_never():
            sys.stdout.flush()

    @contextlib.contextmanager
    def _or_never(self) -> Iterator[None]:
        try:
            yield
        except OSError:  # what it holds back would fail again at exit
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stdout, name)


def server_console() -> Console:
    """Where a server says what people want to know."""
    return Console(file=None if sys.stdout is None else cast(TextIO, Stdout()))


class LoadingBar:
    """The engines' progress: a bar for each on a terminal, a line per stage elsewhere.

    several: more than one model is loaded, so each line says which it is about.
    """

    def __init__(self, console: Console, *, several: bool = False) -> None:
        self._console = console
        self._several = several
        self._stages: dict[str, str] = {}  # by model
        self._tasks: dict[str, TaskID] = {}
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> LoadingBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, model: str, progress: Starting) -> None:
        """Show how far the engine of a model is."""
        stage = progress.stage
        if self._several and not stage.endswith(f" {model}"):
            stage = f"{model}: {stage}"
        if self._console.is_terminal:
            if model not in self._tasks:
                self._tasks[model] = self._bar.add_task(stage, total=1.0)
            self._bar.update(self._tasks[model], description=stage, completed=progress.fraction)
        elif stage != self._stages.get(model):
            self._stages[model] = stage
            _say(self._console, f"{stage} ...")


def _say(console: Console, line: str) -> None:
    """As it is: rich neither colours nor wraps it."""
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def url(config: GatewayConfig, port: int, *, web_socket: bool = False, host: str = "") -> str:
    """The base URL of the server. host: instead of the address that works on this machine."""
    scheme = ("ws" if web_socket else "http") + ("s" if config.ssl_certfile else "")
    host = host or {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.host, config.host)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def addresses(host: str) -> list[str]:
    """Of this machine as others see it, if it listens on all of them: that of the default route,
    and its name. Nothing is sent to find out."""
    if host not in ("0.0.0.0", "::"):
        return []
    found = [socket.gethostname()]
    for family, anywhere in ((socket.AF_INET6, "2001:db8::1"), (socket.AF_INET, "192.0.2.1")):
        if host == "::" or family is socket.AF_INET:
            with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((anywhere, 9))
                found.insert(0, probe.getsockname()[0])
    return found


def greet(console: Console, config: GatewayConfig, engines: Sequence[EngineConfig]) -> None:
    """Before loading: which models."""
    for engine in engines:
        named = f" as {engine.served_name}" if engine.served_name else ""
        told = [value for value in (engine.device, engine.dtype) if value != "auto"]
        place = f" ({', '.join(told)})" if told else ""
        model = engine.model
        if model == AUTO_MODEL:
            model = f"{DEFAULT_REAL}, or {DEFAULT_TOY} if that cannot be had"
        _say(console, f"lookhear: loading {model}{named}{place}")
    if not config.has_keys and not config.loopback:
        console.print("  Warning: anyone who reaches this address may use it (no API key).")


def _about_toy(card: ModelCard) -> str:
    subject = "pictures" if card.can("image") else "speech"
    return (
        f"  {card.id} is a toy: it knows a small closed vocabulary. For real {subject}: "
        f"--model {REAL_MODELS[subject]}"
    )


def tell_ready(
    console: Console, config: GatewayConfig, port: int, models: Sequence[ModelCard]
) -> None:
    """After loading: which models were chosen and why, which are toys, where to reach what."""
    base = url(config, port)
    hears = any(card.can("transcribe") for card in models)
    query = "?intent=transcription" if hears else ""
    lines = [
        f"ready: {', '.join(card.id for card in models)}",
        *(f"  {card.id}: {card.reason}" for card in models if card.reason),
        *(_about_toy(card) for card in models if card.toy),
        f"  realtime  {url(config, port, web_socket=True)}/v1/realtime{query}",
    ]
    if hears:
        lines.append(f"  files     {base}/v1/audio/transcriptions")
    if any(card.can("chat") for card in models):
        lines.append(f"  chat      {base}/v1/chat/completions")
    lines.append(f"  browser   {base}/")
    others = [url(config, port, host=address) for address in addresses(config.host)]
    lines += [f"  from elsewhere: {' or '.join(others)}"] if others else []
    lines.append("  Ctrl-C ends it")
    for line in lines:
        _say(console, line)


def tell_served(
    console: Console, config: GatewayConfig, port: int, models: Sequence[ModelCard]
) -> None:
    """People are told, and the log."""
    tell_ready(console, config, port, models)
    log_event("server.ready", models=[card.id for card in models], url=url(config, port))


def tell_workers(console: Console, count: int) -> None:
    """Before loading: that there are several."""
    _say(console, f"  {count} workers, each with engines of its own; the first one loads first")
