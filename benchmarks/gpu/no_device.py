"""A device that does nothing at once, and what it is said to have heard: for `benchmarks.host`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.gpu.sampled import Sampled
from lookhear.engine.device.acceleration import Acceleration
from lookhear.engine.device.staging import PinnedFloats
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.models.window_samples import WindowSamples
from lookhear.engine.paged.cache import PagedCache
from lookhear.engine.paged.sound import HOP
from lookhear.engine.qwen3_asr.prompt import ASR_TEXT
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.engine.tokenizers.whisper import WhisperTokenizer

WORDS_PER_SECOND = 3


class NoEvent:
    """An event that has happened."""

    def record(self) -> None:
        """Nothing to record."""

    def synchronize(self) -> None:
        """Nothing to wait for."""


class NoMemory:
    """Of a device that is none. See `engine.device.staging.Memory`."""

    def pinned(self, size: int) -> Tensor:
        """[size] integers, pinned to nothing."""
        return torch.zeros(size, dtype=torch.int64)

    def persistent(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """What a graph would read from."""
        return torch.zeros(tuple(shape), dtype=dtype)

    def event(self) -> NoEvent:
        """One that has happened."""
        return NoEvent()


@dataclass(frozen=True, slots=True)
class NoGraph:
    """A graph whose output is what its capture returned."""

    output: Any

    def replay(self) -> None:
        """Nothing runs again."""


class NoBackend:
    """Captures what a region answers, and never carries it out again."""

    num_bytes = 0

    def capture(self, region: Callable[[], Any]) -> NoGraph:
        """Runs the region once."""
        return NoGraph(region())


class Launches(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that would be launched: views are none."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not func.is_view and func._schema.name != "aten::_unsafe_view"
        return func(*args, **(kwargs or {}))


@contextmanager
def no_device() -> Iterator[None]:
    """Within it, an engine that is built for the CPU drives a device that does nothing at once.
    What is launched outside of graphs is still one small operation, or several."""
    zeros = torch.zeros(4096, 4096)

    def on(device: str, *, overlaps: bool, **_: Any) -> Acceleration:
        return Acceleration(overlaps, NoMemory(), NoBackend(), 2**40)

    def sent(self: PinnedFloats, count: int) -> None:  # a device fetches them by itself
        self._turn = (self._turn + 1) % len(self._buffers)

    def kept(self: WindowSamples, rows: Tensor) -> None:  # one launch
        self._sent.send(self._count * HOP)
        self._rows[:1].index_copy_(0, zeros[0, :1].long(), zeros[:1, :HOP])

    def scores(count: int, vocab: int) -> Tensor:
        return torch.zeros(1, 1).expand(count, vocab)

    def greedy(scores: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros(len(scores), dtype=torch.int64), zeros[0, : len(scores)]

    def project(self: Any, encoded: Tensor) -> list[Tensor]:
        dims = self.dims
        heads, size = dims.decoder_heads, dims.width // dims.decoder_heads
        shape = (len(encoded), 2, heads, encoded.shape[1], size)
        return [zeros[0, 0].expand(shape)] * dims.decoder_layers

    stubs: dict[str, Any] = {
        "lookhear.engine.device.acceleration.Acceleration.on": on,
        "lookhear.engine.device.staging.PinnedFloats.send": sent,
        "lookhear.engine.models.window_samples.WindowSamples.send": kept,
        "lookhear.engine.models.qwen3.Qwen3Model.forward": lambda self, x, *_: zeros[
            : len(x), : self.dims.width
        ],
        "lookhear.engine.models.qwen3.Qwen3Model.new_cache": lambda self, _: PagedCache(1, 2, 1, 1),
        "lookhear.engine.models.qwen3.Qwen3Model.logits": lambda self, x: scores(
            len(x), self.vocab
        ),
        "lookhear.engine.models.qwen3_asr.Qwen3AsrModel.encode": lambda self, media: [
            zeros[: medium.num_tokens, : self.decoder.dims.width] for medium in media
        ],
        "lookhear.engine.whisper.model.WhisperModel.encode": lambda self, mel, *_: zeros[
            0, 0
        ].expand(len(mel), mel.shape[2] // 2, self.dims.width),
        "lookhear.engine.whisper.model.WhisperModel.project_cross": project,
        "lookhear.engine.whisper.model.WhisperModel.decode": lambda self, tokens, *_: zeros[
            0, 0
        ].expand(*tokens.shape, self.dims.width),
        "lookhear.engine.whisper.model.WhisperModel.logits": lambda self, x: scores(
            len(x), self.dims.vocab
        ),
        "lookhear.engine.whisper.rules.TokenRules.masked": lambda self, logits, rules: scores(
            *logits.shape
        ),
        "lookhear.kernels.greedy": greedy,
        "lookhear.kernels.log_mel": lambda x, filters: zeros[0, 0].expand(
            len(x), len(filters), x.shape[1] // 160
        ),
        "lookhear.engine.sampling.sampler.argmax": lambda scores: greedy(scores)[0],
        "lookhear.engine.sampling.sampler.token_logprobs": lambda scores, tokens: torch.zeros(
            len(tokens)
        ),
    }
    with ExitStack() as stack:
        for name, stub in stubs.items():
            stack.enter_context(patch(name, stub))
        yield


class Script:
    """What is heard: as many words of a list as the audio is long, the last one half. own: what
    making it up takes."""

    def __init__(self, family: str, folder: Path) -> None:
        self._is_asr = family == "qwen3-asr"
        tokenizer = QwenTokenizer.from_folder(folder) if self._is_asr else None
        decode: Any = (tokenizer or WhisperTokenizer.from_folder(folder)).decode_bytes
        pieces = [(i, decode([i])) for i in range(2000)]
        self._words = [i for i, piece in pieces if piece[:1] == b" " and piece[1:].isalpha()]
        self._places = {word: i for i, word in enumerate(self._words)}
        self._header: list[int] = []
        self._text_token = -1
        if tokenizer is not None:
            self._text_token = tokenizer.token(ASR_TEXT)
            self._header = [*tokenizer.encode("language English"), self._text_token]
        self._answers: dict[str, tuple[Any, list[int]]] = {}
        self.own = Sampled()

    def _answer(self, request: Any) -> list[int]:
        if not self._is_asr:
            return self._heard(len(request.prefix), len(request.samples) / SAMPLE_RATE)
        tokens, said = request.tokens, 0
        while tokens[-1 - said] in self._places:
            said += 1
        words = self._heard(said, sum(m.num_tokens for _, m in request.media) / 13)
        return words if tokens[-1 - said] == self._text_token else [*self._header, *words]

    def _heard(self, said: int, seconds: float) -> list[int]:
        count = int(WORDS_PER_SECOND * seconds)
        words = self._words[said:count]
        return [*words[:-1], self._words[-1 - count % 7]] if words else []

    @contextmanager
    def spoken(self, sequence: type, ends: Callable[[Any], int]) -> Iterator[None]:
        """Within it, that is what sequences of a kind are told. ends: a token that ends one."""
        original = sequence.absorb  # type: ignore[attr-defined]

        def absorb(this: Any, sampled: list[int], logprobs: list[float], *rest: Any) -> None:
            self.own.begin()
            held = self._answers.get(this.key)
            if held is None or held[0] is not this.request:
                held = self._answers[this.key] = (this.request, self._answer(this.request))
            at, count = len(this.generated.tokens), len(sampled)
            told = held[1][at : at + count]
            told += [ends(this)] * (count - len(told))
            self.own.end()
            original(this, told, [-0.01] * count, *rest)

        with patch.object(sequence, "absorb", absorb):
            yield
