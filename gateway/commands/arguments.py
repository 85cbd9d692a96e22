"""The options of `lookhear serve`, and what was given as configurations."""

from __future__ import annotations

import argparse
import os
import re
from argparse import BooleanOptionalAction
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from lookhear.engine.config import (
    AUTO_MODEL,
    DEFAULT_REAL,
    DEFAULT_TOY,
    DTYPES,
    ConfigError,
    EngineConfig,
)
from lookhear.engine.config.log import FORMATS, LEVELS
from lookhear.gateway.config import GatewayConfig, folder
from lookhear.media.fetching.addresses import Network, parse_network

Fields = dict[str, Any]
DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?(,cuda:\d+)*")


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line: with so many options the usage hides it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; `{self.prog} --help` lists the options\n")


def serve_parser() -> argparse.ArgumentParser:
    """Defaults are those of the configurations."""
    gateway, engine = GatewayConfig(), EngineConfig()
    parser = _Parser(
        prog="lookhear serve",
        description="Serve live transcription and chat about pictures: the OpenAI Realtime API, "
        "chat completions and audio endpoints.",
        epilog="Every option may stand in the file of --config under its name, and in the "
        "environment: --max-sessions is LOOKHEAR_MAX_SESSIONS. The command line counts before the "
        "environment, the environment before the file.",
    )
    _add_serving(parser, gateway, engine)
    _add_access(parser, gateway)
    _add_limits(parser, gateway)
    _add_connections(parser, gateway)
    _add_turns(parser)
    _add_media(parser, gateway)
    _add_engine(parser, engine)
    return parser


def _add_serving(
    parser: argparse.ArgumentParser, gateway: GatewayConfig, engine: EngineConfig
) -> None:
    """What is served, where, and what is said of it."""
    add = parser.add_argument
    add("positional_models", nargs="*", metavar="MODEL", help="the same as --model MODEL")
    add("--model", action="append", metavar="[NAME=]MODEL", dest="models", default=[AUTO_MODEL],
        help="repo id, folder or packaged model, and its name on the wire; repeat it to serve "
        "several, the first is the default of clients that name none (default: "
        f"{AUTO_MODEL}: {DEFAULT_REAL} if it can be had, else the toy {DEFAULT_TOY})")  # fmt: skip
    add("--served-name", action="append", default=[], metavar="NAME",
        help="another way to give those names, in the order of --model")  # fmt: skip
    add("--alias", action="append", default=[], metavar="NAME=MODEL", dest="aliases",
        help="another name of a served model, as clients hard-wire them; repeatable")  # fmt: skip
    add("--strict-models", action=BooleanOptionalAction, default=gateway.strict_models,
        help="refuse names that no served model has; else the first that can is asked")  # fmt: skip
    add("--host", default=gateway.host, help="address to listen on (default: %(default)s)")
    add("--port", type=int, default=gateway.port, help="0: any free one (default: %(default)s)")
    _number(add, gateway, "--workers", "N", "processes that share the port and the limits, each "
        "with engines of its own: N times the memory")  # fmt: skip
    add("--log-level", choices=LEVELS, default=engine.log_level, help="the least that is logged; "
        "debug shows what users say and send (default: %(default)s)")  # fmt: skip
    add("--log-format", choices=FORMATS, default=engine.log_format,
        help="auto: text on a terminal, else JSON (default: %(default)s)")  # fmt: skip
    add("--config", type=Path, metavar="FILE", help="YAML with the names of options")
    add("--print-config", action="store_true",
        help="print what holds and where it comes from, and end")  # fmt: skip

    add("--otlp-endpoint", default=gateway.otlp_endpoint, metavar="URL",
        help="send traces and metrics to this OpenTelemetry collector, over HTTP (default: what "
        "OTEL_EXPORTER_OTLP_ENDPOINT says, else none)")  # fmt: skip


def _add_access(parser: argparse.ArgumentParser, gateway: GatewayConfig) -> None:
    """Who may come in, and how connections are encrypted."""
    add = parser.add_argument_group("access").add_argument
    add("--api-key", action="append", default=[], metavar="KEY", dest="api_keys",
        help="clients must present it; repeatable; better in the environment: LOOKHEAR_API_KEY"
    )  # fmt: skip
    add("--api-key-file", type=Path, metavar="FILE",
        help="more keys, one a line; read again on SIGHUP")  # fmt: skip
    add("--allow-unauthenticated", action=BooleanOptionalAction, default=False,
        help="listen on a public address without a key")  # fmt: skip
    add("--allow-origin", action="append", default=[], metavar="ORIGIN", dest="allow_origins",
        help='let pages of this origin in, like https://example.org, or "*"')  # fmt: skip
    add("--allow-host", action="append", default=[], metavar="NAME", dest="allow_hosts",
        help="another name by which this machine is reached without a key")  # fmt: skip
    add("--trusted-proxy", action="append", default=[], metavar="CIDR", dest="trusted_proxies",
        help="proxies in this network say whose a connection is (X-Forwarded-For), like 10.0.0.7 "
        "or 10.0.0.0/24; limits by address count that (default: nobody is believed)")  # fmt: skip
    add("--ssl-certfile", type=Path, metavar="FILE", help="it and its key: read again on SIGHUP")
    add("--ssl-keyfile", type=Path, metavar="FILE")


def _add_limits(parser: argparse.ArgumentParser, gateway: GatewayConfig) -> None:
    """Of sessions and requests."""
    add = parser.add_argument_group("limits").add_argument
    _number(add, gateway, "--max-sessions", "N")
    _number(add, gateway, "--max-session-seconds", "S", "a session is closed after this; 0: never")
    _number(add, gateway, "--max-turn-seconds", "S", "audio between two commits, or in one file")
    _number(add, gateway, "--max-upload-bytes", "N",
        "of one HTTP request, files and pictures in it included")  # fmt: skip
    _number(add, gateway, "--drain-seconds", "S",
        "for what is under way when SIGTERM comes; 0: none")  # fmt: skip


def _add_connections(parser: argparse.ArgumentParser, gateway: GatewayConfig) -> None:
    """Of what nobody has been served for yet."""
    doors = parser.add_argument_group("connections", "What anybody may hold without being served.")
    add = doors.add_argument
    _number(add, gateway, "--max-connections", "N",
        "open sockets; fewer where the process may not open so many files")  # fmt: skip
    _number(add, gateway, "--max-client-connections", "N",
        "of one address (but of those of --trusted-proxy); at most half of all")  # fmt: skip
    _number(add, gateway, "--max-client-sessions", "N",
        "of one API key, or of one address where there are no keys; 0: no limit")  # fmt: skip
    _number(add, gateway, "--head-seconds", "S", "for the head of an HTTP request")
    _number(add, gateway, "--body-seconds", "S",
        "a request is given up if no byte comes for so long")  # fmt: skip
    _number(add, gateway, "--first-message-seconds", "S",
        "a session that has sent nothing at all is closed after this; 0: never")  # fmt: skip
    _number(add, gateway, "--idle-seconds", "S",
        "a session in which nothing is said by anybody is closed after this; 0: never")  # fmt: skip
    _number(add, gateway, "--resume-seconds", "S",
        "a session whose connection was cut waits so long for its client; 0: it ends")  # fmt: skip
    _number(add, gateway, "--max-json-bytes", "N",
        "of one request or message, but for long strings in it, as media are")  # fmt: skip
    _number(add, gateway, "--max-bodies-bytes", "N",
        "of all HTTP requests together, received and not done with")  # fmt: skip
    _number(add, gateway, "--max-unfinished-bytes", "N",
        "of all WebSocket messages together that have begun to come")  # fmt: skip


def _add_turns(parser: argparse.ArgumentParser) -> None:
    """Who hears that a turn is over."""
    add = parser.add_argument_group("turns").add_argument
    add("--turn-model", default="auto", metavar="auto|off|FILE",
        help="hears whether a turn of semantic_vad is over (Smart Turn v3, ONNX); auto: where "
        "onnxruntime is installed and the model is here or can be fetched; else silence ends "
        "turns (default: %(default)s)")  # fmt: skip


def _add_media(parser: argparse.ArgumentParser, gateway: GatewayConfig) -> None:
    """Files, pictures and addresses."""
    media = parser.add_argument_group(
        "media", "How files are decoded, and what messages may point at with URLs."
    )
    add = media.add_argument
    add("--media-workers", type=int, default=max(3, (os.cpu_count() or 2) // 2), metavar="N",
        help="processes that decode files, pictures and videos, below the priority of live speech; "
        "one is kept for pictures (default: half the cores, 3 at least: %(default)s here)"
    )  # fmt: skip
    _number(
        add, gateway, "--media-memory-bytes", "N", "of each of them; what needs more is refused"
    )
    _number(add, gateway, "--media-seconds", "S", "of processor time to decode one file")
    add("--allow-network", action="append", default=[], metavar="CIDR", dest="allow_networks",
        help="fetch from this private network too, like 10.1.0.0/16; public addresses are "
        "always allowed")  # fmt: skip
    add("--media-folder", type=folder, metavar="FOLDER",
        help="file: URLs may name files below it (default: none may)")  # fmt: skip
    add("--adapters", type=folder, metavar="FOLDER", dest="adapter_folder",
        help="adapters (LoRA) below it may be loaded while the server runs, by POST "
        "/v1/load_lora_adapter (default: none may)")  # fmt: skip
    _number(add, gateway, "--fetch-timeout-seconds", "S", "of one URL, redirects included")
    _number(add, gateway, "--fetch-wait-seconds", "S", "until a URL is fetched, while others are")
    _number(add, gateway, "--max-media-bytes", "N", "of one image, video or recording in a message")
    _number(add, gateway, "--max-image-pixels", "N", "of one image or frame")
    _number(add, gateway, "--max-request-pixels", "N", "of all pictures of one question")
    _number(add, gateway, "--max-pictures", "N", "of one question, frames of videos among them")
    _number(add, gateway, "--max-video-frames", "N", "looked at of one video")
    _number(add, gateway, "--video-fps", "N",
        "frames of a video looked at per second, if they are not too many")  # fmt: skip


def _add_engine(parser: argparse.ArgumentParser, engine: EngineConfig) -> None:
    """What an engine is told."""
    models = parser.add_argument_group("engine", "These apply to every model.")
    add = models.add_argument
    add("--device", default=engine.device, help="cpu, cuda, cuda:1, auto; several for --replicas: "
        "cuda:0,cuda:1 (default: %(default)s)")  # fmt: skip
    add("--aligner", default=engine.aligner, metavar="MODEL",
        help="a Qwen3-ForcedAligner: Qwen3-ASR has word times with it (default: none)")  # fmt: skip
    _number(
        add, engine, "--replicas", "N", "engines of a model that share its sessions; of each worker"
    )
    _number(add, engine, "--max-replicas", "N", "engines of a model as its speakers need them, up "
        "to so many; 0: no more than --replicas")  # fmt: skip
    add("--encoders", action="append", default=[], metavar="[MODEL=]N", help="engines of a model, "
        "or of the one named so, that are its encoder alone; the replicas have all else then, and "
        "get what was seen from them (Qwen3-VL; default: none)")  # fmt: skip
    add("--ray", default=engine.ray, metavar="HOST:PORT|auto", help="run the engines on the nodes "
        "of this Ray cluster (default: on this machine)")  # fmt: skip
    _number(add, engine, "--recover-seconds", "S",
        "sessions wait so long for another engine when theirs died; 0: not")  # fmt: skip
    add("--dtype", default=engine.dtype, choices=DTYPES, help="int8: Whisper on a CPU, "
        "Qwen3, Qwen3-ASR, Qwen3-VL; fp8, int4: those on a GPU; auto: what this machine is fastest "
        "in (default: %(default)s)")  # fmt: skip
    add("--threads", type=int, default=engine.threads,
        help="0: all cores but one, or one for a small model")  # fmt: skip
    add("--tick", type=float, default=engine.tick_seconds, metavar="S", dest="tick_seconds",
        help="least new audio between two updates of a turn (default: %(default)s)")  # fmt: skip
    add("--window", default=engine.window, choices=["auto", "full", "short"],
        help="encoder windows: whole 30 s, as short as the audio, or what suits the model "
        "(default: %(default)s)")  # fmt: skip
    _number(add, engine, "--alternatives", "N",
        "places of a text where a Whisper was in doubt, thought over at most; 0: none")  # fmt: skip
    add("--draft-verification", action=BooleanOptionalAction, default=engine.draft_verification,
        help="check the last hypothesis in one pass; without, every update is decoded from its "
        "beginning")  # fmt: skip
    add("--draft", default=engine.draft, metavar="auto|ngram|off|MODEL",
        help="how answers go on is guessed from what was said before, and checked in one pass: "
        "where that pays, always, or never; or by a smaller model of the same vocabulary or an "
        "EAGLE3 head, where that pays; answers stay the same (default: %(default)s)")  # fmt: skip
    add("--enable-prompt-embeds", action=BooleanOptionalAction,
        default=engine.enable_prompt_embeds, help="parts of messages may be embeddings that "
        "clients made: any vectors, also such as no text would give")  # fmt: skip
    _number(add, engine, "--max-adapters", "N", "loaded at once for a model; 0: none may be")
    _number(add, engine, "--max-adapter-rank", "N", "of each adapter")
    _number(add, engine, "--max-segment-seconds", "S",
        "an open segment is cut beyond this; 0: what suits the model")  # fmt: skip
    add("--kv-cache-dtype", default=engine.kv_cache_dtype, choices=["auto", "fp8"], help="fp8: "
        "keys and values of a Qwen3 on a GPU in half the memory (default: auto)")  # fmt: skip
    add("--kv-cache-gigabytes", type=float, default=engine.kv_cache_gigabytes, metavar="GIB",
        help="for keys and values of models with a paged cache (0, the default: 1 on a CPU, "
        "two fifths of what is free on a GPU)")  # fmt: skip
    add("--token-budget", type=int, default=engine.token_budget, metavar="N",
        help="tokens read in one step, over all turns (0, the default: 512 on a CPU, 2048 on "
        "a GPU)")  # fmt: skip
    _number(add, engine, "--max-context-tokens", "N", "of prompt and answer together, where a "
        "model chats; no more than its checkpoint has")  # fmt: skip
    _number(add, engine, "--max-answer-tokens", "N", "of an answer whose client names no limit")
    _number(add, engine, "--max-picture-tokens", "N",
        "of one picture; larger ones are made smaller")  # fmt: skip
    add("--cuda-graphs", default=engine.cuda_graphs, choices=["auto", "off"],
        help="on a GPU, capture steps at the start and replay them "
        "(default: %(default)s)")  # fmt: skip
    _number(add, engine, "--graph-gigabytes", "GIB", "of GPU memory for captured steps")
    add("--overlap", type=int, default=engine.overlap, choices=[0, 1],
        help="steps launched before the one in front of them has been read: 1 hides the "
        "processor's work behind the GPU's (default: 0 on a CPU, 1 on a GPU)")  # fmt: skip
    add("--max-live-turns", type=int, default=engine.max_live_turns, metavar="N",
        help="turns open at once (0, the default: 64 on a CPU, 1024 on a GPU)")  # fmt: skip
    add("--max-lag", type=float, default=engine.max_lag_seconds, metavar="S",
        dest="max_lag_seconds", help="one more speaker is refused if it would take longer from a "
        "word to its text, for 95 of 100 words; 0: nobody is (default: %(default)s)")  # fmt: skip
    add("--max-rows", type=int, default=engine.max_rows, metavar="N",
        help="turns decoded together in one step (0, the default: 16 on a CPU, 192 on a GPU of 40 "
        "GiB, a Whisper's 64, half as many on a smaller one)")  # fmt: skip


def _number(
    add: Callable[..., object],
    config: GatewayConfig | EngineConfig,
    flag: str,
    metavar: str,
    help: str = "",
) -> None:
    """An option that is called as its field, and has its type and default."""
    default = getattr(config, flag.removeprefix("--").replace("-", "_"))
    help = f"{help} (default: %(default)s)".lstrip()
    add(flag, type=type(default), default=default, metavar=metavar, help=help)


def _given(options: argparse.Namespace, config: type[GatewayConfig | EngineConfig]) -> Fields:
    """The options that are fields of a configuration."""
    names = {field.name for field in fields(config)}
    return {name: value for name, value in vars(options).items() if name in names}


def gateway_config(options: argparse.Namespace) -> GatewayConfig:
    """Raises ConfigError."""
    given = _given(options, GatewayConfig)
    for name in ("allow_networks", "trusted_proxies"):
        option = "allow-network" if name == "allow_networks" else "trusted-proxy"
        given[name] = [_network(option, text) for text in given[name]]
    given["aliases"] = map(_alias, options.aliases)
    for name in (
        "api_keys", "allow_origins", "allow_hosts", "allow_networks", "trusted_proxies", "aliases"
    ):  # fmt: skip
        given[name] = tuple(given[name])
    return GatewayConfig(**given)


def engine_configs(options: argparse.Namespace) -> list[EngineConfig]:
    """One per model, in order. Raises ConfigError."""
    if not DEVICE.fullmatch(options.device):
        raise ConfigError(
            f"device: expected cpu, cuda, cuda:N, several of these or auto, got {options.device!r}"
        )
    models = [_name_and_model(given) for given in options.models]
    if not models:
        raise ConfigError("model: expected at least one, got none")
    names = list(options.served_name)
    if len(names) > len(models):
        raise ConfigError(
            f"served-name: expected at most one per --model ({len(models)}), got {len(names)}"
        )
    for index, name in enumerate(names):
        named, model = models[index]
        if named is not None:
            raise ConfigError(
                f"served-name: expected one name for {model}, got {name!r} and {named!r}"
            )
        models[index] = (name, model)
    given = _given(options, EngineConfig) | {"max_audio_seconds": options.max_turn_seconds}
    encoders = _encoders(options.encoders, [name or model for name, model in models])
    configs = [
        EngineConfig(
            **{**given, "model": model, "served_name": name, "encoders": encoders[name or model]}
        )
        for name, model in models
    ]
    served = [config.name for config in configs]
    if AUTO_MODEL in served:  # it will be called one of these
        served += [DEFAULT_REAL, DEFAULT_TOY]
    for name in served:
        if served.count(name) > 1:
            raise ConfigError(
                f"model: expected different names, got {name!r} {served.count(name)} times; "
                "NAME=MODEL gives a model another one"
            )
    return configs


def _encoders(given: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """How many each model has: N for all, NAME=N for one. Raises ConfigError."""
    found = dict.fromkeys(names, 0)
    for text in given:
        name, _, number = text.rpartition("=")
        if not number.isascii() or not number.isdecimal():
            raise ConfigError(f"encoders: expected N, or MODEL=N, got {text!r}")
        if name and name not in found:
            known = ", ".join(map(repr, names))
            raise ConfigError(f"encoders: expected MODEL=N of a model here ({known}), got {name!r}")
        found |= dict.fromkeys([name] if name else names, int(number))
    return found


def check_aliases(config: GatewayConfig, engines: Sequence[EngineConfig]) -> None:
    """Each is one name more, of a model that will be served. Raises ConfigError."""
    served = [engine.name for engine in engines]
    known = [*served, DEFAULT_REAL, DEFAULT_TOY] if AUTO_MODEL in served else served
    seen = list(served)
    for name, model in config.aliases:
        if model not in known or model == AUTO_MODEL:
            names = ", ".join(repr(one) for one in known if one != AUTO_MODEL)
            raise ConfigError(
                f"alias: expected NAME=MODEL of a model here ({names}), got {model!r}"
            )
        if name in seen:
            raise ConfigError(f"alias: expected a name that no other model has, got {name!r}")
        seen.append(name)


def _alias(given: str) -> tuple[str, str]:
    name, _, model = given.partition("=")
    if not name or not model or not name.isprintable() or " " in name:
        raise ConfigError(f"alias: expected NAME=MODEL, a name without spaces, got {given!r}")
    return name, model


def _network(option: str, text: str) -> Network:
    try:
        return parse_network(text)
    except ValueError as error:
        raise ConfigError(
            f"{option}: expected a network like 10.1.0.0/16, got {text!r} ({error})"
        ) from None


def _name_and_model(given: str) -> tuple[str | None, str]:
    """`NAME=MODEL`, or just the model. A path may hold a `=` of its own."""
    name, equals, model = given.partition("=")
    if not equals or name.startswith((".", "/", "~")) or os.path.isdir(given):
        return None, given
    if not name or not name.isprintable() or " " in name:
        raise ConfigError(f"model: expected a name without spaces before =, got {given!r}")
    return name, model
