"""What a person sees while the server starts."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from lookhear.engine.config import EngineConfig
from lookhear.engine.messages import ModelCard, Starting
from lookhear.gateway.catalogue import is_packaged
from lookhear.gateway.config import GatewayConfig

# What is instead of a toy for people, by what the toy knows a little of.
REAL_MODELS = {
    "speech": "openai/whisper-large-v3-turbo",
    "pictures": "Qwen/Qwen3-VL-2B-Instruct",
}


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
        stage = progress.stage
        if self._several and not stage.endswith(f" {model}"):
            stage = f"{model}: {stage}"
        if self._console.is_terminal:
            if model not in self._tasks:
                self._tasks[model] = self._bar.add_task(stage, total=1.0)
            self._bar.update(self._tasks[model], description=stage, completed=progress.fraction)
        elif stage != self._stages.get(model):
            self._stages[model] = stage
            self._console.print(f"{stage} ...", highlight=False, markup=False, soft_wrap=True)


def url(config: GatewayConfig, port: int, *, web_socket: bool = False) -> str:
    scheme = ("ws" if web_socket else "http") + ("s" if config.ssl_certfile else "")
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}.get(config.host, config.host)
    return f"{scheme}://{host}:{port}"


def greet(console: Console, config: GatewayConfig, engines: Sequence[EngineConfig]) -> None:
    """Before loading: which models, and which of them are toys."""
    for engine in engines:
        named = f" as {engine.served_name}" if engine.served_name else ""
        place = f"{engine.device}, {engine.dtype}"
        line = f"lookhear: loading {engine.model}{named} ({place})"
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    for toy in dict.fromkeys(engine.model for engine in engines if is_packaged(engine.model)):
        subject = "pictures" if toy.endswith("-vl") else "speech"
        console.print(
            f"  {toy} is a toy: it knows a small closed vocabulary. For real {subject}: "
            f"--model {REAL_MODELS[subject]}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    if not config.api_keys and not config.loopback:
        console.print("  Warning: anyone who reaches this address may use it (no API key).")


def tell_ready(
    console: Console, config: GatewayConfig, port: int, models: Sequence[ModelCard]
) -> None:
    base = url(config, port)
    hears = any(card.can("transcribe") for card in models)
    query = "?intent=transcription" if hears else ""
    lines = [
        f"ready: {', '.join(card.id for card in models)}",
        f"  realtime  {url(config, port, web_socket=True)}/v1/realtime{query}",
    ]
    if hears:
        lines.append(f"  files     {base}/v1/audio/transcriptions")
    if any(card.can("chat") for card in models):
        lines.append(f"  chat      {base}/v1/chat/completions")
    lines += [f"  browser   {base}/", "  Ctrl-C ends it"]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
