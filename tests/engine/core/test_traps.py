"""What broke other engines, one test per failure, named after it. Thread numbers are public.

Here are those that no other file covers. The rest, by where they are:

test_kv_cache           two clips with equal placeholders (ATOM #1358, LMCache #4783); the offset in
                        a medium (vLLM #11646, #36708); an exact hit with nothing left to compute
                        (nano-vllm #144); a name that outlives its block; the idlest pin goes first
test_paged_request      the end as the first token, and inside an accepted draft (vLLM #52693,
                        #52717); names only after execution, for accepted tokens only; drafts within
                        the reservation
test_paged_runner       chunks at every split, also inside audio (vLLM #41485, #10388); memory that
                        nobody wrote full of NaN (vLLM #56922); cached = uncached; batched = alone;
                        an encoder out of memory
test_scheduler          break or continue, by deadline; what cannot be divided (sglang-omni #1412);
                        what can never fit; files and speakers
test_asr_core           lengths clamped on every path (vLLM #39996, #40072); an end at any step; NaN
sessions/test_asr       the mel that later audio changes; headers that leak (vLLM #48853)
sessions/test_live_asr  loops of prefix feedback (vLLM #47264); a cost that grows (sglang #26767)
test_detokenizer        half a character shown twice (sglang #31598)
test_sampler            temperature 0; draws of 0 and 1; noise shared by draft and recovery (vLLM
                        #47386, #54282); unseeded rows; a batch mate's parameters
tests/kernels           slot -1 (vLLM #43810); rows of no tokens (sglang #1779)
tests/test_layers, tests/gateway, tests/end_to_end
                        imports on machines without a GPU; media work off the event loop (vLLM
                        #34789, #49608); the engine killed in mid-session

test_graphs             numbers of the host that are baked, read-backs inside of a capture, padding
                        on the trash block, buffers that move (sglang #37043)
test_overlap            room that is given away while a launched step writes to it (mini-sglang #89,
                        vLLM #45357, #49674); what was sampled for a request that is over

Grammars have no code yet, so no tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
import torch

from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.request import Demand, Phase, Priority, Result, StopReason
from lookhear.engine.core.runner import Failure, Finish
from lookhear.engine.core.scheduler import Scheduler
from lookhear.engine.messages import (
    AppendAudio,
    CancelFile,
    CancelTurn,
    CloseSession,
    EndTurn,
    Event,
    StartTurn,
    TranscribeFile,
    TurnCompleted,
)
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.paged.blocks import BLOCK_TOKENS, BlockPool
from lookhear.engine.paged.digests import block_digests
from lookhear.engine.paged.request import Medium, PagedRequest
from lookhear.engine.paged.runner import PagedRunner
from lookhear.engine.qwen3_asr.file import asr_transcriber
from lookhear.engine.qwen3_asr.recognizer import AsrConfig
from lookhear.engine.sampling.params import SamplingParams
from lookhear.engine.speech.desk import SpeechDesk
from lookhear.engine.speech.live_config import LiveConfig
from lookhear.engine.speech.recognizer import Stretch
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.playing import noise, wanted
from tests.engine.speech.scripted_asr import DIMS, Ear, make_tokenizer, result_of

# --- a core whose model is a script --------------------------------------------------------------


@dataclass
class Job:
    """A request that takes so many steps."""

    request: PagedRequest
    answer: tuple[int, ...]
    steps: int
    phase: Phase = Phase.DECODE
    num_drafted: int = 0

    @property
    def key(self) -> str:
        return self.request.key

    def demand(self) -> Demand:
        return Demand(1)

    def result(self) -> Result:
        return Result(self.key, self.answer, (-0.1,) * len(self.answer), 0, StopReason.END)


@dataclass
class ScriptedRunner:
    """Says the same to everybody, after so many steps."""

    answer: tuple[int, ...]
    steps: int
    placed: list[PagedRequest] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)
    free_tokens: int = 10**6

    def place(self, request: PagedRequest) -> Job:
        self.placed.append(request)
        self.running.append(Job(request, self.answer, self.steps))
        return self.running[-1]

    def launch(self, work: Sequence[tuple[Job, int]]) -> Finish:
        for job, _ in work:
            assert job in self.running, "a request that is gone was fed"
            job.steps -= 1
            job.phase = Phase.DECODE if job.steps else Phase.DONE
        return list[Failure]

    def release(self, job: Job) -> None:
        self.running.remove(job)

    def forget(self, key: str) -> None: ...

    def stats(self) -> dict[str, int]:
        return {}

    def check(self, num_running: int) -> None:
        assert len(self.running) == num_running


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> QwenTokenizer:
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def scripted(
    tokenizer: QwenTokenizer, *, rows: int = 4, steps: int = 2
) -> tuple[EngineCore, ScriptedRunner]:
    answer = Ear(tokenizer).answer("language English<asr_text>hello there")
    runner = ScriptedRunner(answer, steps)
    config = LiveConfig(cap=112_000, roll=64_000)
    family = asr_transcriber(AsrConfig(tokenizer, DIMS), config, ["de", "en", "fr"], 96_000)
    return EngineCore(SpeechDesk("m", family, 8), runner, Scheduler(rows, 10**6)), runner


def rest(core: EngineCore) -> list[Event]:
    events: list[Event] = []
    while core.has_work:
        events += core.step()
        core.check()
    return events


def test_waiting_ticks_pile_up_behind_a_slow_machine(tokenizer: QwenTokenizer) -> None:
    """A newer tick supersedes the one that waits: one request, with all the audio so far."""
    core, runner = scripted(tokenizer, rows=1, steps=9)
    core.submit(TranscribeFile("file", wanted(), noise(0, 1.0)))
    core.step()
    core.submit(StartTurn("s", "t", wanted()))
    for i in range(6):
        core.submit(AppendAudio("s", "t", noise(i, 0.5), 8000 * (i + 1)))
        core.step()
    assert len(runner.placed) == 1
    for _ in range(4):
        core.step()
    heard = [request for request in runner.placed if request.key == "s/t"]
    assert len(heard) == 1
    tokens = sum(medium.num_tokens for _, medium in heard[0].media)
    assert tokens == DIMS.num_tokens(310), "3 s, and 0.1 s of silence in front"


def test_an_abort_of_what_is_no_longer_there(tokenizer: QwenTokenizer) -> None:
    core, runner = scripted(tokenizer)
    for _ in range(2):
        core.submit(CancelTurn("nobody", "t"))
        core.submit(CancelFile("nothing"))
        core.submit(CloseSession("nobody"))
        core.submit(EndTurn("nobody", "t"))
        core.submit(AppendAudio("nobody", "t", noise(0, 0.1), 1600))
    assert rest(core) == []
    core.submit(StartTurn("s", "t", wanted()))
    core.submit(AppendAudio("s", "t", noise(0, 1.0), 16_000))
    core.step()
    for _ in range(2):
        core.submit(CancelTurn("s", "t"))
    core.submit(AppendAudio("s", "t", noise(0, 1.0), 32_000))  # was on its way already
    core.submit(EndTurn("s", "t"))
    assert rest(core) == [] and not runner.running


def test_settings_of_one_turn_leak_into_the_next(tokenizer: QwenTokenizer) -> None:
    """vLLM #57685. Every tick is a new request, and a turn has settings of its own."""
    core, runner = scripted(tokenizer)
    for turn, changes in (("1", {"language": "de", "prompt": "Ada"}), ("2", {})):
        core.submit(StartTurn("s", turn, wanted(**changes)))
        core.submit(AppendAudio("s", turn, noise(0, 1.0), 16_000))
        core.submit(EndTurn("s", turn))
        rest(core)
    first, second = tokenizer.decode(runner.placed[0].tokens), runner.placed[-1].tokens
    assert first.endswith("language German<asr_text>") and "Ada" in first
    assert tokenizer.decode(second).endswith("assistant\n")
    assert "Ada" not in tokenizer.decode(second)


def test_a_key_that_comes_again_while_the_old_one_runs(tokenizer: QwenTokenizer) -> None:
    """A turn of the same name after a cancellation is a new one; nothing of the old reaches it."""
    core, runner = scripted(tokenizer, steps=3)
    core.submit(StartTurn("s", "t", wanted()))
    core.submit(AppendAudio("s", "t", noise(0, 2.0), 32_000))
    core.step()
    core.submit(CancelTurn("s", "t"))
    core.submit(StartTurn("s", "t", wanted()))
    core.submit(EndTurn("s", "t"))
    (done,) = rest(core)
    assert isinstance(done, TurnCompleted) and done.text == "" and done.duration == 0.0
    assert not runner.running


def test_old_text_in_the_prompt_is_said_again_in_silence(tokenizer: QwenTokenizer) -> None:
    """vLLM #49658, #51374, #51376. A new segment knows nothing of what was said before it."""
    silence = np.zeros(16_000, np.float32)
    ear = Ear(tokenizer)
    ear.ask(noise(0, 2.0))
    ear.heard(result_of(ear.answer("language English<asr_text>hello there")))
    before = ear.request(
        Stretch("k", Priority.LIVE, 32_000, silence, "en", carried=tuple(range(9)))
    )
    assert before.tokens == Ear(tokenizer).ask(silence, start=32_000, language="en").tokens
    assert ear.max_carried == 0


def test_a_repetition_penalty_corrupts_what_was_said_twice(tokenizer: QwenTokenizer) -> None:
    params = Ear(tokenizer).ask(noise(0, 1.0)).sampling
    assert params == SamplingParams() and not params.penalises


# --- memory --------------------------------------------------------------------------------------


def test_the_table_of_names_grows_for_ever() -> None:
    """nanovllm-voxcpm #62. A name goes when its block is given away, so there are never more."""
    pool = BlockPool(9)
    for i in range(200):
        digests = block_digests([i] * (4 * BLOCK_TOKENS))
        blocks = pool.allocate(4)
        assert blocks is not None
        for block, digest in zip(blocks, digests, strict=True):
            pool.commit(block, digest)
        pool.release(blocks)
        pool.check()
    assert len(pool._block_of) == len(pool._digest_of) == 8


@pytest.fixture(scope="module")
def model(served_asr: Path) -> Qwen3AsrModel:
    return Qwen3AsrModel.from_folder(served_asr)


def make_runner(model: Qwen3AsrModel) -> PagedRunner:
    return PagedRunner(model, max_rows=4, num_blocks=64, max_context=256, encoder_bytes=2**20)


def request(model: Qwen3AsrModel, key: str, seed: int, frames: int) -> PagedRequest:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(20, frames)).astype(np.float32)
    medium = Medium.of(features, model.encoder.dims.num_tokens(frames))
    tokens = (1, 2, 3, *[model.audio_token] * medium.num_tokens, 4, 5)
    return PagedRequest(
        key, Priority.LIVE, tokens, ((3, medium),), max_new_tokens=6, loop_room=None
    )


def answers(runner: PagedRunner, requests: list[PagedRequest]) -> dict[str, tuple[int, ...]]:
    """Placed in this order, launched in the opposite one."""
    left, said = [runner.place(r) for r in requests][::-1], {}
    while left:
        work = [(s, s.demand().known + s.demand().draft) for s in left if not s.is_waiting]
        assert not runner.launch(work)()
        for sequence in [s for s in left if s.phase is Phase.DONE]:
            said[sequence.key] = sequence.result().tokens
            runner.release(sequence)
            left.remove(sequence)
    return said


def test_encoder_outputs_in_the_order_of_arrival(model: Qwen3AsrModel) -> None:
    """They belong to their request, whatever the order of the batch, also of different lengths."""
    requests = [request(model, f"r{i}", i, 60 + 45 * i) for i in range(4)]
    alone = {r.key: answers(make_runner(model), [r])[r.key] for r in requests}
    assert len(set(alone.values())) > 1
    assert answers(make_runner(model), requests) == alone
    assert answers(make_runner(model), requests[::-1]) == alone


def test_cached_encoder_output_is_a_view_of_static_memory(
    model: Qwen3AsrModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM #56922. A graph writes its next output where the last one was."""
    plain = model.encode
    static = torch.zeros(64, 32)

    def replayed(media: Sequence[Medium]) -> list[torch.Tensor]:
        outputs = plain(media)
        static.fill_(torch.nan)
        static[: sum(map(len, outputs))] = torch.cat(outputs)
        ends = list(accumulate(map(len, outputs)))
        return [static[end - len(o) : end] for o, end in zip(outputs, ends, strict=True)]

    first, second = request(model, "a", 1, 100), request(model, "b", 2, 180)
    expected = answers(make_runner(model), [first])["a"]
    monkeypatch.setattr(model, "encode", replayed)
    runner = make_runner(model)
    assert answers(runner, [first])["a"] == expected
    answers(runner, [second])
    # Read again from the encoder cache, not from the cache of keys and values.
    other = PagedRequest(
        "a", Priority.LIVE, first.tokens, first.media, max_new_tokens=6, loop_room=None,
        salt=b"another tenant",
    )  # fmt: skip
    assert answers(runner, [other])["a"] == expected
    assert runner._media._cache.num_hits == 1
