"""What was encoded before stands in front of a window as if it had been read with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Beginning, Priority, Result
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.encoder import KeysValues
from lookhear.engine.whisper.model import WhisperModel
from lookhear.engine.whisper.request import Settled, WhisperRequest, WhisperSequence
from lookhear.engine.whisper.runner import WhisperRunner
from lookhear.engine.whisper.settled import OVERLAP, SettledAudio, SettledStore
from tools.random_checkpoints.whisper import build_random_whisper

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_random_whisper(tmp_path_factory.mktemp("settled") / "model", layers=2, width=32)


@pytest.fixture(scope="module")
def model(folder: Path) -> WhisperModel:
    return WhisperModel.from_folder(folder)


def mel(model: WhisperModel, batch: int, positions: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, model.dims.num_mels, 2 * positions)
    return 0.5 * torch.randn(shape, generator=generator)


@settings(max_examples=20, deadline=None)
@given(
    firsts=st.lists(st.integers(OVERLAP, 90), min_size=1, max_size=3),
    rest=st.integers(1, 60),
    group=st.sampled_from([1, 7, 25]),
    seed=st.integers(0, 99),
)
def test_a_window_behind_what_was_settled_is_the_whole_window(
    model: WhisperModel, firsts: list[int], rest: int, group: int, seed: int
) -> None:
    """Rows of different lengths in one batch; what is settled saw the same audio."""
    silence = model.encode_silence(group)
    settled, parts, expected = [], [], []
    for row, first in enumerate(firsts):
        whole_mel = mel(model, 1, first + rest, seed + row)
        kept: KeysValues = []
        whole = model.encode(whole_mel, silence, kept=kept)
        projected = model.project_cross(whole)
        settled.append(SettledAudio.of(None, kept, projected, 0, first))
        parts.append(whole_mel[:, :, 2 * (first - OVERLAP) :])
        expected.append(whole[:, first:])
    kept = []
    encoded = model.encode(torch.cat(parts), silence, settled, kept)
    assert (encoded - torch.cat(expected)).abs().max().item() <= TOLERANCE
    # What is settled next joins what was before.
    for row, (before, first) in enumerate(zip(settled, firsts, strict=True)):
        more = SettledAudio.of(before, kept, model.project_cross(encoded), row, first + rest)
        assert before.positions == first and more.positions == first + rest
        assert all(
            torch.equal(a[:, :, :, :first], b)
            for a, b in zip(more.cross, before.cross, strict=True)
        )
        assert all(k.shape[1] == v.shape[1] == first + rest for k, v in more.keys_values)


def test_in_half_precision_takes_half_and_is_read_in_full(model: WhisperModel) -> None:
    silence = model.encode_silence()
    kept: KeysValues = []
    whole_mel = mel(model, 1, 50, 0)
    whole = model.encode(whole_mel, silence, kept=kept)
    projected = model.project_cross(whole)
    exact, half = (
        SettledAudio.of(None, kept, projected, 0, 30, half=half) for half in (False, True)
    )
    assert half.num_bytes == exact.num_bytes / 2
    assert all(x.dtype == torch.float16 for x in half.cross)
    rest = whole_mel[:, :, 2 * (30 - OVERLAP) :]
    encoded = model.encode(rest, silence, [half])
    assert encoded.dtype == torch.float32
    error = (encoded - whole[:, 30:]).abs().max() / whole.std()
    assert TOLERANCE < error < 0.01
    kept = []
    model.encode(rest, silence, [half], kept)
    more = SettledAudio.of(half, kept, model.project_cross(encoded), 0, 40, half=True)
    assert more.cross[0].dtype == more.keys_values[0][0].dtype == torch.float16


def small(positions: int) -> SettledAudio:
    return SettledAudio(
        [(torch.zeros(1, positions, 2, 4), torch.zeros(1, positions, 2, 4))],
        [torch.zeros(1, 2, 2, positions, 4)],
    )


@given(
    steps=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 9), st.booleans())),
    room=st.integers(1, 30),
)
def test_the_store_forgets_what_was_not_asked_for_longest(
    steps: list[tuple[str, int, bool]], room: int
) -> None:
    each = small(1).num_bytes
    store, order = SettledStore(room * each), dict[str, int]()
    beginnings = {key: Beginning() for key in "abcd"}
    for key, positions, asks in steps:
        if asks:
            found = store.get(beginnings[key], positions)
            held = order.get(key)
            assert (found is not None) == (held is not None and held <= positions)
            if found is not None:
                assert found.positions == held
                order[key] = order.pop(key)
            continue
        store.put(beginnings[key], small(positions))
        order.pop(key, None)
        order[key] = positions
        while sum(order.values()) > room:
            del order[next(iter(order))]
        assert store.num_bytes == each * sum(order.values())


def test_what_nobody_can_ask_for_is_not_kept() -> None:
    store, kept, gone = SettledStore(1 << 30), Beginning(), Beginning()
    store.put(kept, small(2))
    store.put(gone, small(3))
    del gone
    assert store.num_bytes == small(2).num_bytes
    assert store.get(kept, 2) is not None


# --- through the runner --------------------------------------------------------------------------


def run(runner: WhisperRunner, requests: list[WhisperRequest]) -> list[Result]:
    sequences = [runner.place(request) for request in requests]
    while any(sequence.generated.stop is None for sequence in sequences):
        work: list[tuple[WhisperSequence, int]] = [
            (s, s.num_queries) for s in sequences if s.generated.stop is None
        ]
        assert runner.launch(work)() == []
    for sequence in sequences:
        runner.release(sequence)
    return [sequence.result() for sequence in sequences]


BEGINNINGS = {name: Beginning() for name in "abc"}


def ask(tokenizer: WhisperTokenizer, key: str, seed: int, seconds: float) -> WhisperRequest:
    """Settled audio, and a second behind it."""
    settled = round(seconds * 50) * 320
    noise = np.random.default_rng(seed).standard_normal(settled + 16_000).astype(np.float32)
    return WhisperRequest(
        key=key, priority=Priority.LIVE, samples=0.1 * noise, window_samples=settled + 16_000,
        head=(tokenizer.sot,), language=next(iter(tokenizer.languages.values()), None),
        detect_language=False, tail=(tokenizer.no_timestamps,), max_new_tokens=12,
        settled=(Settled(BEGINNINGS[key], settled),),
    )  # fmt: skip


def test_a_second_look_reads_less_and_hears_the_same(folder: Path, model: WhisperModel) -> None:
    tokenizer = WhisperTokenizer.from_folder(folder)
    runner = WhisperRunner(model, tokenizer, 4, pads=True)
    requests = [ask(tokenizer, name, seed, 1.0 + seed) for seed, name in enumerate("abc")]
    alone = [run(WhisperRunner(model, tokenizer, 4, pads=True), [r])[0] for r in requests]
    assert [runner.passes.shape_of(r)[0] for r in requests] == [r.window_samples for r in requests]
    first = run(runner, requests)
    assert [runner.passes.shape_of(r) for r in requests] == [(16_000, True, None)] * 3
    second = run(runner, requests)
    for one, two, three in zip(alone, first, second, strict=True):
        assert one.tokens == two.tokens == three.tokens
        np.testing.assert_allclose(one.logprobs, three.logprobs, atol=1e-3)
    # A shorter beginning is not what was kept.
    shorter = ask(tokenizer, "b", 1, 1.0)
    assert runner.passes.shape_of(shorter) == (shorter.window_samples, False, None)
    runner.check(0)


def test_a_language_is_asked_of_the_audio_alone(folder: Path, model: WhisperModel) -> None:
    """Whatever stands in front: of one batch, all are told what they are without that."""
    tokenizer = WhisperTokenizer.from_folder(folder)
    plain = [
        replace(ask(tokenizer, name, seed, 1.0), language=None, detect_language=True, settled=())
        for seed, name in enumerate("abc")
    ]
    behind = [
        replace(request, head=(tokenizer.prev, *range(20, 28 + n), tokenizer.sot))
        for n, request in enumerate(plain)
    ]
    runner = WhisperRunner(model, tokenizer, 4, pads=True)
    alone = run(runner, [replace(request, detects_alone=True) for request in behind])
    for one, other, biased in zip(alone, run(runner, plain), run(runner, behind), strict=True):
        assert one.language == other.language
        for code, logprob in other.languages.items():
            np.testing.assert_allclose(one.languages[code], logprob, atol=1e-3)
        assert any(abs(biased.languages[c] - v) > 1e-2 for c, v in other.languages.items())
    told = [
        replace(request, language=result.language)
        for request, result in zip(behind, alone, strict=True)
    ]
    assert [one.tokens for one in alone] == [one.tokens for one in run(runner, told)]
    runner.check(0)


def test_what_was_said_before_is_read_once_by_a_segment(folder: Path, model: WhisperModel) -> None:
    """Of the same audio, a text behind a kept beginning is the one that it is alone."""
    tokenizer = WhisperTokenizer.from_folder(folder)
    runner = WhisperRunner(model, tokenizer, 3, pads=True)
    segments = {name: Beginning() for name in "ab"}
    spoken = [
        replace(
            ask(tokenizer, name, seed, 1.0),
            settled=(), prefix=tuple(range(20, 28)), num_earlier=6, segment=segments[name],
        )
        for seed, name in enumerate("ab")
    ]  # fmt: skip
    first = run(runner, spoken)
    longer = [
        replace(request, prefix=(*request.prefix, 40 + i)) for i, request in enumerate(spoken)
    ]
    sequences = [runner.place(request) for request in longer]
    prompt = len(longer[0].head) + (longer[0].language is not None) + len(longer[0].tail)
    assert [s.num_queries for s in sequences] == [3, 3], "what is the segment's own is read again"
    assert [s.fed for s in sequences] == [prompt + 6] * 2
    assert [s.no_speech_prob for s in sequences] == [r.no_speech_prob for r in first]
    for sequence in sequences:
        runner.release(sequence)  # before it was fed: nothing is kept of it
    assert [runner.place(request).fed for request in longer] == [0, 0]
    alone = [run(WhisperRunner(model, tokenizer, 3, pads=True), [r])[0] for r in longer]
    runner = WhisperRunner(model, tokenizer, 3, pads=True)
    run(runner, spoken)
    for one, two in zip(alone, run(runner, longer), strict=True):
        assert one.tokens == two.tokens
        np.testing.assert_allclose(one.logprobs, two.logprobs, atol=1e-3)


def test_another_text_in_front_is_read_anew(folder: Path, model: WhisperModel) -> None:
    tokenizer = WhisperTokenizer.from_folder(folder)
    runner = WhisperRunner(model, tokenizer, 2, pads=True)
    request = replace(
        ask(tokenizer, "a", 0, 1.0),
        settled=(), prefix=(20, 21, 22), num_earlier=2, segment=Beginning(),
    )  # fmt: skip
    run(runner, [request])
    assert runner.place(replace(request, prefix=(20, 23, 22))).fed == 0
