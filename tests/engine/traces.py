"""Requests that come, are abandoned and end by a script, played through a core.

However steps are carried out (graphs, overlap), every request gets the same tokens. Needs nothing
but torch and numpy: the same traces are played on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.owner import Streamer
from lookhear.engine.core.request import Cost, Priority, Result
from lookhear.engine.core.runner import Runner
from lookhear.engine.core.scheduler import Scheduler
from lookhear.engine.messages import Event, Message
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.models.qwen3_omni import Qwen3OmniModel
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.paged.request import Medium, PagedRequest
from lookhear.engine.paged.sound import EDGE, HOP, Sound
from lookhear.engine.sampling.params import SamplingParams
from lookhear.engine.smolvlm.model import SmolVlmModel
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.voxtral_chat.model import VoxtralChatModel
from lookhear.engine.whisper.request import WhisperRequest

Request = Any  # of the runner's kind
# The next request of an owner, given the results of those before; None: no more.
Maker = Callable[[list[Result]], Request | None]


class NoDesk:
    def take(self, message: Message, core: EngineCore) -> list[Event]:
        raise AssertionError(message)

    def close(self, session: str) -> None: ...

    def left(self, key: str, session: str, core: EngineCore) -> list[Event]:
        return []

    def stats(self, core: EngineCore) -> dict[str, int]:
        return {}


class Asker(Streamer):
    """An owner whose requests are made by a script. ends_after: tokens of an answer after which it
    has heard enough, and says so only when it is told of them."""

    def __init__(self, key: str, make: Maker, ends_after: int | None = None) -> None:
        self.key = key
        self.results: list[Result] = []
        self.failures: list[str] = []
        self._make = make
        self._ends_after = ends_after
        self._next = make([])

    is_urgent = False

    @property
    def is_done(self) -> bool:
        return self._next is None and not self._is_running

    _is_running = False

    def wants_request(self) -> bool:
        return self._next is not None and not self._is_running

    def cost(self) -> Cost:
        tokens = getattr(self._next, "reserved_tokens", 0)
        return Cost(1, tokens)

    def make_request(self) -> Request:
        self._is_running = True
        return self._next

    def follow(self, sequence: Any) -> list[Event]:
        answer = sequence.generated
        if self._ends_after is not None and not answer.stop:
            if len(answer.tokens) >= self._ends_after:
                sequence.end()
        return []

    def absorb(self, result: Result) -> list[Event]:
        self._is_running = False
        self.results.append(result)
        self._next = self._make(self.results)
        return []

    def settle(self) -> list[Event]:
        return []

    def fail(self, code: str, message: str) -> list[Event]:
        self._is_running = False
        self._next = None
        self.failures.append(message)
        return []


@dataclass(frozen=True)
class Visit:
    """An owner that comes with a step, and may be gone with a later one."""

    key: str
    make: Maker
    comes: int = 0
    leaves: int | None = None
    ends_after: int | None = None


@dataclass
class Played:
    """results: by owner. left: owners that were dropped."""

    results: dict[str, list[Result]] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    steps: int = 0


def play(
    runner: Runner[Any, Any],
    visits: Sequence[Visit],
    *,
    max_rows: int,
    token_budget: int = 4096,
    overlap: int = 0,
) -> Played:
    """To the end; nothing may leak, and nobody may fail."""
    core = EngineCore(NoDesk(), runner, Scheduler(max_rows, 10**9, token_budget), overlap=overlap)
    return play_on(core, visits)


def play_on(
    core: EngineCore,
    visits: Sequence[Visit],
    guests: Mapping[int, Asker] = MappingProxyType({}),
    check: Callable[[], None] | None = None,
) -> Played:
    """The same, of a core. guests: who may fail, by the step with which one comes. check: after
    each step, in place of the core's own."""
    askers: dict[str, Asker] = {}
    played = Played()
    while core.has_work or any(at >= played.steps for at in (*guests, *(v.comes for v in visits))):
        if (guest := guests.get(played.steps)) is not None:
            core.add(guest.key, Priority.LIVE, guest)
        for visit in visits:
            if visit.comes == played.steps:
                askers[visit.key] = Asker(visit.key, visit.make, visit.ends_after)
                core.add(visit.key, Priority.LIVE, askers[visit.key])
            if visit.leaves == played.steps and core.owner(visit.key) is not None:
                core.drop(visit.key)
                played.left.add(visit.key)
        core.step()
        (check or core.check)()
        played.steps += 1
        assert played.steps < 5000, "it never ends"
    assert not [asker.failures for asker in askers.values() if asker.failures]
    played.results = {key: asker.results for key, asker in askers.items()}
    return played


def assert_same(mine: Played, expected: Played, atol: float = 1e-4) -> None:
    """Of everybody who stayed, every result; of the others, those that both have."""
    assert mine.results.keys() == expected.results.keys()
    for key, results in expected.results.items():
        got = mine.results[key]
        if key not in mine.left | expected.left:
            assert len(got) == len(results), key
        for ours, theirs in zip(got, results, strict=False):
            assert ours.tokens == theirs.tokens, key
            # How much of a draft is read at once, and so accepted, is up to the other requests.
            assert ours.stop == theirs.stop, key
            np.testing.assert_allclose(ours.logprobs, theirs.logprobs, rtol=0, atol=atol)


def once(request: Request) -> Maker:
    """An owner of a single request."""
    return lambda results: None if results else request


# --- requests ------------------------------------------------------------------------------------


def paged_request(
    model: object,
    key: str,
    seed: int,
    *,
    before: int = 20,
    media: Sequence[tuple[int, Medium]] = (),
    **changes: Any,
) -> PagedRequest:
    """Random text, media each in front of some text. media: (placeholder, medium)."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 140, before).tolist()
    places = []
    for placeholder, medium in media:
        places.append((len(tokens), medium))
        tokens += [placeholder] * medium.num_tokens + rng.integers(0, 140, 3).tolist()
    values: dict[str, Any] = {"max_new_tokens": 12, "loop_room": None, **changes}
    return PagedRequest(key, Priority.LIVE, tuple(tokens), tuple(places), **values)


def sound(
    model: Qwen3AsrModel, seed: int, frames: int, before: Medium | None = None
) -> tuple[int, Medium]:
    """A window of audio, and the token it stands for. before: the window in front of it."""
    heard = None if before is None else before.sound
    count = max(EDGE + 1, frames * HOP) + (EDGE if heard else 0)
    samples = np.random.default_rng(seed).normal(size=count) * 0.1
    heard_samples = samples.astype(np.float32)
    one = Sound(heard_samples, 0, count, frames, is_first=heard is None, before=heard)
    digest = one.digest(b"" if before is None else before.digest)
    tokens = model.encoder.dims.num_tokens(frames)
    return model.audio_token, Medium(heard_samples, tokens, digest, sound=one)


def window(model: Qwen3OmniModel, seed: int, frames: int) -> tuple[int, Medium]:
    """A window of log-mel, and the token it stands for."""
    dims = model.ears.dims
    mel = np.random.default_rng(seed).normal(size=(dims.num_mels, frames)).astype(np.float32)
    return model.audio_token, Medium.of(mel, dims.num_tokens(frames))


def crop(model: SmolVlmModel, seed: int) -> tuple[int, Medium]:
    """A crop of a picture, and the token it stands for."""
    dims = model.encoder.dims
    pixels = np.random.default_rng(seed).normal(size=(dims.channels, dims.size, dims.size))
    return model.image_token, model.medium(pixels.astype(np.float32))


def whole_window(model: VoxtralChatModel, seed: int) -> tuple[int, Medium]:
    """A window of log-mel of the one length, and the token it stands for."""
    dims = model.dims.audio
    mel = np.random.default_rng(seed).normal(size=(dims.num_mels, dims.max_frames))
    return model.audio_token, model.medium(mel.astype(np.float32))


def picture(model: Qwen3VLModel, seed: int, height: int, width: int) -> tuple[int, Medium]:
    """A picture of so many tokens down and across, and the token it stands for."""
    factor = model.encoder.dims.factor
    pixels = np.random.default_rng(seed).normal(size=(1, 3, height * factor, width * factor))
    return model.image_token, model.medium(pixels.astype(np.float32))


def ticks(
    model: Qwen3AsrModel, key: str, seed: int, count: int, sampling: SamplingParams | None = None
) -> Maker:
    """A live turn: in every tick the audio has grown, and of what was heard the first half is
    forced and the rest is the draft."""

    def make(results: list[Result]) -> PagedRequest | None:
        number = len(results)
        if number == count:
            return None
        heard = results[-1].tokens if results else ()
        forced, draft = heard[: len(heard) // 2], heard[len(heard) // 2 :]
        closed = sound(model, seed, 200)
        grows = sound(model, seed + number, 60 + 30 * number, closed[1])
        plain = paged_request(model, key, seed, before=30, media=[closed, grows])
        return PagedRequest(
            key,
            Priority.LIVE,
            plain.tokens + forced,
            plain.media,
            draft=draft,
            max_new_tokens=10,
            sampling=sampling or SamplingParams(),
            final_tokens=30,
            loop_room=None,
        )

    return make


class Staircase:
    """A grammar that needs no library: in place n, token t may follow token s if 3 divides
    t - s - n. vocab: tokens there are."""

    takes_draft = False

    def __init__(self, vocab: int) -> None:
        self._vocab = vocab
        self._last = self._place = 0

    def start(self, budget: int | None = None) -> Staircase:
        return Staircase(self._vocab)

    def fill(self, bits: NDArray[np.int32]) -> None:
        may_come = np.arange(32 * len(bits)) % 3 == (self._last + self._place) % 3
        may_come[self._vocab :] = False
        bits[:] = np.packbits(may_come, bitorder="little").view(np.int32)

    def accept(self, token: int) -> None:
        assert token % 3 == (self._last + self._place) % 3, "what may not come was chosen"
        self._last, self._place = token, self._place + 1


def paged_trace(model: Qwen3AsrModel) -> list[Visit]:
    """Every batch size up to six, prompts of every bucket, chunks, drafts, noise, penalties,
    grammars, owners that leave or have heard enough."""
    visits = []
    for i in range(6):  # one more every few steps, then fewer again
        request = paged_request(
            model, f"row{i}", i, before=3 + 11 * i, media=[sound(model, i, 45 + 30 * i)],
            max_new_tokens=30 - 3 * i,
        )  # fmt: skip
        visits.append(Visit(f"row{i}", once(request), comes=3 * i))
    for i, before in enumerate((1, 9, 15, 16, 17, 40, 100, 150, 230, 300, 420)):
        request = paged_request(model, f"long{i}", 50 + i, before=before, max_new_tokens=8)
        visits.append(Visit(f"long{i}", once(request), comes=70 + 6 * i))
    together = (140,) * 2 + (150,) * 3 + (160,) * 4 + (170,) * 5  # at once
    for i, comes in enumerate(together):
        request = paged_request(model, f"many{i}", 170 + i, before=330, max_new_tokens=3)
        visits.append(Visit(f"many{i}", once(request), comes=comes))
    warm = SamplingParams(temperature=0.8, seed=3, top_k=40)
    strict = SamplingParams(repetition_penalty=1.3, frequency_penalty=0.4)
    for i, sampling in enumerate((SamplingParams(), warm, strict)):
        visits.append(Visit(f"live{i}", ticks(model, f"live{i}", 80 + i, 4, sampling), comes=7 * i))
        request = paged_request(model, f"gone{i}", 90 + i, sampling=sampling, max_new_tokens=40)
        visits.append(Visit(f"gone{i}", once(request), comes=9 + i, leaves=13 + 3 * i))
        request = paged_request(model, f"enough{i}", 95 + i, max_new_tokens=40)
        visits.append(Visit(f"enough{i}", once(request), comes=30 + i, ends_after=2 + 3 * i))
    for i, sampling in enumerate((SamplingParams(), warm, strict)):
        request = paged_request(
            model, f"rule{i}", 99 + i, sampling=sampling, max_new_tokens=20 - 5 * i,
            grammar=Staircase(model.decoder.vocab),
        )  # fmt: skip
        visits.append(Visit(f"rule{i}", once(request), comes=5 + 12 * i))
    return visits


def whisper_request(
    tokenizer: WhisperTokenizer, key: str, noise: int, seconds: int = 2, **changes: Any
) -> WhisperRequest:
    values: dict[str, Any] = {
        "samples": np.random.default_rng(noise).normal(size=seconds * 15_000).astype(np.float32)
        * 0.1,
        "window_samples": seconds * 16_000,
        "head": (tokenizer.sot,),
        "language": tokenizer.languages["en"],
        "detect_language": False,
        "tail": (tokenizer.transcribe, tokenizer.no_timestamps),
        "max_new_tokens": 12,
    }
    return WhisperRequest(key=key, priority=Priority.LIVE, **{**values, **changes})


def whisper_trace(tokenizer: WhisperTokenizer) -> list[Visit]:
    """As `paged_trace`, with windows of three lengths."""
    visits = []
    stamps = {"timestamps": True, "tail": (tokenizer.transcribe,)}
    kinds: list[dict[str, Any]] = [
        {},
        {"prefix": (5, 6, 7), "draft": tuple(range(20, 29))},
        {"language": None, "detect_language": True},
        stamps,
        {"temperature": 0.9, "seed": 5},
        {"draft": tuple(range(30, 64)), "max_new_tokens": 40},
        {"align": True, "max_new_tokens": 5},
        {"head": (tokenizer.prev, *range(40, 150), tokenizer.sot)},
    ]
    for i in range(3):
        for j, changes in enumerate(kinds):
            key = f"row{i}{j}"
            request = whisper_request(tokenizer, key, 10 * i + j, 2 + (i + j) % 3, **changes)
            leaves = 12 * i + j + 3 if (i + j) % 5 == 4 else None
            visits.append(Visit(key, once(request), comes=8 * i + j, leaves=leaves))
    return visits
