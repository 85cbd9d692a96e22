"""The command line of `lookhear serve` as configurations."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from pathlib import Path

from lookhear.engine.config import ConfigError, EngineConfig
from lookhear.gateway.config import GatewayConfig
from lookhear.media.fetching.addresses import Network, parse_network

KEY_VARIABLE = "LOOKHEAR_API_KEY"
DEFAULT_MODEL = "demo-whisper"
DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


def serve_parser() -> argparse.ArgumentParser:
    """Defaults are those of the configurations."""
    gateway, engine = GatewayConfig(), EngineConfig()
    parser = argparse.ArgumentParser(
        prog="lookhear serve",
        description="Serve live transcription and chat about pictures: the OpenAI Realtime API, "
        "chat completions and audio endpoints.",
    )
    add = parser.add_argument
    add("--model", action="append", metavar="[NAME=]MODEL", help="repo id, folder or packaged "
        "model, and its name on the wire; repeat it to serve several, the first is the default of "
        f"clients that name none (default: {DEFAULT_MODEL}, a toy)")  # fmt: skip
    add("--served-name", action="append", default=[], metavar="NAME",
        help="another way to give those names, in the order of --model")  # fmt: skip
    add("--host", default=gateway.host, help="address to listen on (default: %(default)s)")
    add("--port", type=int, default=gateway.port, help="0: any free one (default: %(default)s)")
    add("--log-level", choices=["debug", "info", "warning", "error"], default="info")

    access = parser.add_argument_group("access")
    add = access.add_argument
    add("--api-key", action="append", metavar="KEY", help="clients must present it; repeatable; "
        f"better in the environment: {KEY_VARIABLE}")  # fmt: skip
    add("--allow-unauthenticated", action="store_true",
        help="listen on a public address without a key")  # fmt: skip
    add("--allow-origin", action="append", default=[], metavar="ORIGIN",
        help='let pages of this origin in, like https://example.org, or "*"')  # fmt: skip
    add("--allow-host", action="append", default=[], metavar="NAME",
        help="another name by which this machine is reached without a key")  # fmt: skip
    add("--ssl-certfile", type=Path, metavar="FILE")
    add("--ssl-keyfile", type=Path, metavar="FILE")

    limits = parser.add_argument_group("limits")
    add = limits.add_argument
    add("--max-sessions", type=int, default=gateway.max_sessions, metavar="N",
        help="(default: %(default)s)")  # fmt: skip
    add("--max-session-seconds", type=float, default=gateway.max_session_seconds, metavar="S",
        help="a session is closed after this; 0: never (default: %(default)s)")  # fmt: skip
    add("--max-turn-seconds", type=float, default=gateway.max_turn_seconds, metavar="S",
        help="audio between two commits, or in one file (default: %(default)s)")  # fmt: skip

    add("--max-upload-bytes", type=int, default=gateway.max_upload_bytes, metavar="N",
        help="of one HTTP request, files and pictures in it included "
        "(default: %(default)s)")  # fmt: skip

    media = parser.add_argument_group("media", "What messages may point at with URLs.")
    add = media.add_argument
    add("--allow-network", action="append", default=[], metavar="CIDR",
        help="fetch from this private network too, like 10.1.0.0/16; public addresses are "
        "always allowed")  # fmt: skip
    add("--media-folder", type=Path, metavar="FOLDER",
        help="file: URLs may name files below it (default: none may)")  # fmt: skip
    add("--fetch-timeout-seconds", type=float, default=gateway.fetch_timeout_seconds, metavar="S",
        help="of one URL, redirects included (default: %(default)s)")  # fmt: skip
    add("--max-media-bytes", type=int, default=gateway.max_media_bytes, metavar="N",
        help="of one image, video or recording in a message (default: %(default)s)")  # fmt: skip
    add("--max-image-pixels", type=int, default=gateway.max_image_pixels, metavar="N",
        help="of one image or frame (default: %(default)s)")  # fmt: skip
    add("--max-request-pixels", type=int, default=gateway.max_request_pixels, metavar="N",
        help="of all pictures of one question (default: %(default)s)")  # fmt: skip
    add("--max-pictures", type=int, default=gateway.max_pictures, metavar="N",
        help="of one question, frames of videos among them (default: %(default)s)")  # fmt: skip
    add("--max-video-frames", type=int, default=gateway.max_video_frames, metavar="N",
        help="looked at of one video (default: %(default)s)")  # fmt: skip
    add("--video-fps", type=float, default=gateway.video_fps, metavar="N",
        help="frames of a video looked at per second, if they are not too many "
        "(default: %(default)s)")  # fmt: skip

    models = parser.add_argument_group("engine", "These apply to every model.")
    add = models.add_argument
    add("--device", default=engine.device, help="cpu, cuda, cuda:1, auto (default: %(default)s)")
    add("--dtype", default=engine.dtype, choices=["auto", "float32", "bfloat16", "float16"],
        help="auto: what this machine is fastest in (default: %(default)s)")  # fmt: skip
    add("--threads", type=int, default=engine.threads, help="0: torch's own choice")
    add("--tick", type=float, default=engine.tick_seconds, metavar="S",
        help="least new audio between two updates of a turn (default: %(default)s)")  # fmt: skip
    add("--window", default=engine.window, choices=["auto", "full", "short"],
        help="encoder windows: whole 30 s, as short as the audio, or what suits the model "
        "(default: %(default)s)")  # fmt: skip
    add("--no-draft-verification", action="store_true",
        help="decode every update from its beginning")  # fmt: skip
    add("--max-segment-seconds", type=float, default=engine.max_segment_seconds, metavar="S",
        help="an open segment is cut beyond this; 0: what suits the model "
        "(default: %(default)s)")  # fmt: skip
    add("--kv-cache-gigabytes", type=float, default=engine.kv_cache_gigabytes, metavar="GIB",
        help="for keys and values of models with a paged cache (0, the default: 1 on a CPU, "
        "two fifths of what is free on a GPU)")  # fmt: skip
    add("--token-budget", type=int, default=engine.token_budget, metavar="N",
        help="tokens read in one step, over all turns (0, the default: 512 on a CPU, 2048 on "
        "a GPU)")  # fmt: skip
    add("--cuda-graphs", default=engine.cuda_graphs, choices=["auto", "off"],
        help="on a GPU, capture steps at the start and replay them "
        "(default: %(default)s)")  # fmt: skip
    add("--graph-gigabytes", type=float, default=engine.graph_gigabytes, metavar="GIB",
        help="of GPU memory for captured steps (default: %(default)s)")  # fmt: skip
    add("--overlap", type=int, default=engine.overlap, choices=[0, 1],
        help="steps launched before the one in front of them has been read: 1 hides the "
        "processor's work behind the GPU's (default: 0 on a CPU, 1 on a GPU)")  # fmt: skip
    add("--max-live-turns", type=int, default=engine.max_live_turns, metavar="N",
        help="turns open at once (0, the default: 64 on a CPU, 1024 on a GPU)")  # fmt: skip
    add("--max-rows", type=int, default=engine.max_rows, metavar="N",
        help="turns decoded together in one step (0, the default: 16 on a CPU, 192 on a GPU of 40 "
        "GiB, a Whisper's 64, half as many on a smaller one)")  # fmt: skip
    return parser


def gateway_config(options: argparse.Namespace, environ: Mapping[str, str]) -> GatewayConfig:
    """Raises ConfigError."""
    keys = options.api_key or [key for key in [environ.get(KEY_VARIABLE)] if key]
    return GatewayConfig(
        host=options.host,
        port=options.port,
        api_keys=tuple(keys),
        allow_unauthenticated=options.allow_unauthenticated,
        allow_origins=tuple(options.allow_origin),
        allow_hosts=tuple(options.allow_host),
        max_sessions=options.max_sessions,
        max_session_seconds=options.max_session_seconds,
        max_turn_seconds=options.max_turn_seconds,
        max_upload_bytes=options.max_upload_bytes,
        media_threads=max(2, (os.cpu_count() or 2) // 2),
        allow_networks=tuple(_network(text) for text in options.allow_network),
        media_folder=options.media_folder,
        fetch_timeout_seconds=options.fetch_timeout_seconds,
        max_media_bytes=options.max_media_bytes,
        max_image_pixels=options.max_image_pixels,
        max_request_pixels=options.max_request_pixels,
        max_pictures=options.max_pictures,
        max_video_frames=options.max_video_frames,
        video_fps=options.video_fps,
        ssl_certfile=options.ssl_certfile,
        ssl_keyfile=options.ssl_keyfile,
    )


def engine_configs(options: argparse.Namespace) -> list[EngineConfig]:
    """One per model, in order. Raises ConfigError."""
    if not DEVICE.fullmatch(options.device):
        raise ConfigError(f"device: expected cpu, cuda, cuda:N or auto, got {options.device!r}")
    models = [_name_and_model(given) for given in options.model or [DEFAULT_MODEL]]
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
    configs = [
        EngineConfig(
            model=model,
            served_name=name,
            device=options.device,
            dtype=options.dtype,
            threads=options.threads,
            tick_seconds=options.tick,
            window=options.window,
            draft_verification=not options.no_draft_verification,
            max_segment_seconds=options.max_segment_seconds,
            kv_cache_gigabytes=options.kv_cache_gigabytes,
            cuda_graphs=options.cuda_graphs,
            graph_gigabytes=options.graph_gigabytes,
            overlap=options.overlap,
            token_budget=options.token_budget,
            max_live_turns=options.max_live_turns,
            max_rows=options.max_rows,
            max_audio_seconds=options.max_turn_seconds,
        )
        for name, model in models
    ]
    served = [config.name for config in configs]
    for name in served:
        if served.count(name) > 1:
            raise ConfigError(
                f"model: expected different names, got {name!r} {served.count(name)} times; "
                "NAME=MODEL gives a model another one"
            )
    return configs


def _network(text: str) -> Network:
    try:
        return parse_network(text)
    except ValueError as error:
        raise ConfigError(
            f"allow-network: expected a network like 10.1.0.0/16, got {text!r} ({error})"
        ) from None


def _name_and_model(given: str) -> tuple[str | None, str]:
    """`NAME=MODEL`, or just the model. A path may hold a `=` of its own."""
    name, equals, model = given.partition("=")
    if not equals or name.startswith((".", "/", "~")) or Path(given).is_dir():
        return None, given
    if not name or not name.isprintable() or " " in name:
        raise ConfigError(f"model: expected a name without spaces before =, got {given!r}")
    return name, model
