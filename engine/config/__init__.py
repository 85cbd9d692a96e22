"""One frozen configuration per engine process, validated once at the edge."""

from __future__ import annotations

from dataclasses import dataclass

from lookhear.engine.config.log import FORMATS, LEVELS

AUTO_MODEL = "auto"  # the first of the next two that can be had
DTYPES = ("auto", "float32", "bfloat16", "float16", "int8", "fp8", "int4")
DEFAULT_REAL, DEFAULT_TOY = "openai/whisper-base", "demo-whisper"


class ConfigError(ValueError):
    """A setting cannot be used; the message names the field, the value and what was expected."""


def _is_cluster(address: str) -> bool:
    host, _, port = address.rpartition(":")
    return address == "auto" or (bool(host) and "/" not in host and port.isdecimal())


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Everything the engine is told at start. Raises `ConfigError` for what cannot be.

    What is left to the device (0, or None for overlap): see `engine.families.parts.capacity`.
    """

    # A repo id, a folder, a .pt of openai/whisper, a packaged name, or "auto"
    # (`engine.checkpoints.choice`).
    model: str = DEFAULT_TOY
    served_name: str | None = None  # name on the wire; None: the model string itself
    # A Qwen3-ForcedAligner, as `model` is named: with it Qwen3-ASR has word times. "": none.
    aligner: str = ""
    # "cpu", "cuda", "cuda:1", or "auto": cuda if there is one, since Ampere; several: one replica
    # after another.
    device: str = "auto"
    # "float32", "bfloat16", "float16", "int8" (Whisper on a CPU, Qwen3's on a GPU), "fp8", "int4"
    # (Qwen3's on a GPU), or "auto": what this machine is fastest in.
    dtype: str = "auto"
    # Engines that share the model's sessions; each has a copy of the weights. To one of them: how
    # many share its device.
    replicas: int = 1
    max_replicas: int = 0  # as many as speakers need, up to this; 0: no more than `replicas`
    # Engines of a model beside them that have its encoder alone; then the replicas have all else.
    encoders: int = 0
    # Which part of the model this engine has, where encoders are apart: "encoder" or "language";
    # "": all of it.
    role: str = ""
    # Gateway processes on one port, each with engines of its own; whose this one is, from 1.
    workers: int = 1
    worker: int = 1
    # A Ray cluster whose nodes run the engines: HOST:PORT of its head, or "auto"; "": this machine.
    ray: str = ""
    # How long sessions wait for an engine, after theirs has died, before they are told; 0: not.
    recover_seconds: float = 30.0
    threads: int = 0  # torch intra-op threads; 0: one for a small model, else all but one
    max_live_turns: int = 0  # turns that may be open at once, over all sessions; 0: the device's
    # p95 of the commit lag within which speakers are let in (`engine.admission`); 0: everybody is.
    max_lag_seconds: float = 2.0
    max_rows: int = 0  # requests decoded together in one step; 0: the device's
    max_audio_seconds: float = 3600.0  # of one turn or file
    tick_seconds: float = 0.25  # least new audio between two ticks of one turn
    # Encoder windows: "full" always encodes 30 s, as Whisper was published; "short" only as much as
    # there is audio, and takes the rest for silence; "auto": short on a CPU, and for checkpoints
    # that say they were trained for it.
    window: str = "auto"
    window_step_seconds: float = 0.0  # by which a short window grows; 0: what suits the checkpoint
    min_window_seconds: float = 0.0  # of the shortest window; 0: what suits the checkpoint
    max_segment_seconds: float = 0.0  # then an open one is cut; 0: what suits the checkpoint
    freeze_windows: bool = True  # Qwen3-ASR: full windows are read once (off: for comparison)
    # Tokens fed to the decoder in one step, over all requests; 0: the device's.
    token_budget: int = 0
    max_context_tokens: int = 4096  # tokens of one request with a paged cache, prompt and answer
    max_picture_tokens: int = 16_384  # tokens of one image at most; less makes large ones smaller
    max_answer_tokens: int = 1024  # tokens of an answer whose client names no limit
    max_answers: int = 64  # answers at once, over all sessions
    # Whether a question may hold embeddings: any vectors, also such as no text would give.
    enable_prompt_embeds: bool = False
    kv_cache_gigabytes: float = 0.0  # GiB for the paged cache at most; 0: the device's
    kv_cache_dtype: str = "auto"  # of it: "fp8" (Qwen3's on a GPU), or "auto": that of the weights
    # New audio during which a word must have been heard alike to be committed; None: what suits the
    # checkpoint.
    evidence_seconds: float | None = None
    # Of new audio more, at most, for a token that is in doubt; None: what suits the kind of model.
    doubt_seconds: float | None = None
    # Of an open segment, the end that Whisper's encoder reads again in each tick, on a CPU; 0: all.
    # None: what suits the checkpoint.
    settle_seconds: float | None = None
    alternatives: int = 4  # of what Whisper is in doubt of in a text, thought over at most; 0: none
    held_words: int = 1  # words at the edge of the audio that wait all the same
    draft_verification: bool = True  # whether the last hypothesis is checked in one pass
    # Who guesses how answers go on, to be verified in one pass: "auto": what was said before, where
    # that pays; "ngram": the same, wherever there is any; "off": nobody; else a smaller model of
    # the same vocabulary, or an EAGLE3 head, named as `model` is, where it pays.
    draft: str = "auto"
    max_adapters: int = 8  # low-rank changes of a model's weights, loaded at once; 0: none
    max_adapter_rank: int = 64  # of each, at most
    cuda_graphs: str = "auto"  # "auto": captured at the start, on a GPU; "off": every pass is eager
    graph_gigabytes: float = 2.0  # GiB of GPU memory for graphs at most
    # Steps launched before the one in front of them has been read, 0 or 1; None: the device's.
    overlap: int | None = None
    heartbeat_seconds: float = 1.0  # between two questions whether the engine is alive
    log_level: str = "info"  # the least that is logged of ours: see `engine.config.log`
    log_format: str = "auto"  # "json", "text", or "auto": text on a terminal

    def __post_init__(self) -> None:
        def within(low: float, value: float | None, high: float) -> bool:
            return value is None or low <= value <= high

        cut, budget, kv = self.max_segment_seconds, self.token_budget, self.kv_cache_gigabytes
        checks = (
            ("model", bool(self.model), "a repo id, a folder, a file, a packaged name or auto"),
            ("ray", not self.ray or _is_cluster(self.ray), "HOST:PORT of a Ray cluster, or auto"),
            ("dtype", self.dtype in DTYPES, ", ".join(DTYPES[:-1]) + f" or {DTYPES[-1]}"),
            ("kv_cache_dtype", self.kv_cache_dtype in ("auto", "fp8"), "auto or fp8"),
            ("draft", bool(self.draft), "auto, ngram, off, or a model"),
            ("window", self.window in ("auto", "full", "short"), "auto, full or short"),
            ("log_level", self.log_level in LEVELS, ", ".join(LEVELS)),
            ("log_format", self.log_format in FORMATS, ", ".join(FORMATS)),
            ("cuda_graphs", self.cuda_graphs in ("auto", "off"), "auto or off"),
            ("graph_gigabytes", within(0, self.graph_gigabytes, 4096), "0 to 4096 GiB"),
            ("overlap", self.overlap in (None, 0, 1), "0 or 1"),
            ("replicas", within(1, self.replicas, 64), "1 to 64"),
            (
                "max_replicas",
                self.max_replicas == 0 or within(self.replicas, self.max_replicas, 64),
                f"0, or replicas ({self.replicas}) to 64",
            ),
            ("encoders", within(0, self.encoders, 64), "0 to 64"),
            ("role", self.role in ("", "encoder", "language"), "encoder, language or nothing"),
            ("workers", within(1, self.workers, 64), "1 to 64"),
            ("worker", within(1, self.worker, self.workers), f"1 to {self.workers}"),
            ("threads", within(0, self.threads, 1024), "0 to 1024"),  # torch breaks at many more
            ("max_live_turns", self.max_live_turns >= 0, "0 or more"),
            ("max_rows", within(0, self.max_rows, 4096), "0 to 4096"),
            ("alternatives", within(0, self.alternatives, 64), "0 to 64"),
            ("held_words", within(0, self.held_words, 8), "0 to 8"),
            ("token_budget", budget == 0 or budget >= 16, "0, or at least 16"),
            ("max_context_tokens", self.max_context_tokens >= 256, "at least 256"),
            ("max_picture_tokens", self.max_picture_tokens >= 1, "at least 1"),
            ("max_answer_tokens", self.max_answer_tokens >= 1, "at least 1"),
            ("max_answers", self.max_answers >= 1, "at least 1"),
            ("max_adapters", within(0, self.max_adapters, 256), "0 to 256"),
            ("max_adapter_rank", within(1, self.max_adapter_rank, 1024), "1 to 1024"),
            ("kv_cache_gigabytes", kv == 0 or within(0.001, kv, 4096), "0, or 0.001 to 4096 GiB"),
            ("max_segment_seconds", cut == 0 or within(2, cut, 120), "0, or 2 to 120 seconds"),
            *(
                (name, within(low, getattr(self, name), high), f"{low} to {high} seconds")
                for name, low, high in (
                    ("max_audio_seconds", 1.0, 86_400.0),
                    ("tick_seconds", 0.02, 10.0),
                    ("evidence_seconds", 0.0, 10.0),
                    ("doubt_seconds", 0.0, 10.0),
                    ("settle_seconds", 0.0, 30.0),
                    ("max_lag_seconds", 0.0, 3600.0),
                    ("window_step_seconds", 0.0, 30.0),
                    ("min_window_seconds", 0.0, 30.0),
                    ("heartbeat_seconds", 0.05, 60.0),
                    ("recover_seconds", 0.0, 3600.0),
                )
            ),
        )
        for name, ok, expected in checks:
            if not ok:
                raise ConfigError(f"{name}: expected {expected}, got {getattr(self, name)!r}")
        for name in ("max_lag_seconds", "recover_seconds") if self.can_grow else ():
            if not getattr(self, name):
                raise ConfigError(f"{name}: expected more than 0 with max_replicas, got 0")

    @property
    def can_grow(self) -> bool:
        """Whether there may be more engines than at the start."""
        return self.max_replicas > self.replicas

    @property
    def draft_model(self) -> str:
        """Who guesses, if a model does; else ""."""
        return "" if self.draft in ("auto", "ngram", "off") else self.draft

    @property
    def name(self) -> str:
        """The model's name on the wire."""
        return self.served_name or self.model
