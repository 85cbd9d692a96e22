"""The sampler: every row gets what it would get alone, and only asked-for work is done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.generation import logits_process

from lookhear.engine.sampling.params import Known, SamplingParams
from lookhear.engine.sampling.sampler import PLAIN, Sampled, Sampler, SamplingRow

CPU = torch.device("cpu")
FEW = settings(max_examples=50, deadline=None)


class Mask:
    """Lets through the tokens that it was told."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = tokens

    def fill(self, bits: NDArray[np.int32]) -> None:
        bits[:] = 0
        for token in self.tokens:
            bits.view(np.uint32)[token // 32] |= np.uint32(1 << token % 32)


def rounded(rows: int, vocab: int, seed: int) -> Tensor:
    """Logits with ties, as those of a bfloat16 model have them: [rows, vocab]."""
    logits = torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * 3
    return (logits * 4).round() / 4


@st.composite
def sampling_rows(draw: st.DrawFn, vocab: int) -> SamplingRow:
    token = st.integers(0, vocab - 1)
    tokens = st.lists(token, unique=True, max_size=6).map(tuple)
    some = draw(
        st.sets(st.sampled_from(["bias", "masks", "grammar", "penalties", "cuts", "stop", "top"]))
    )
    fields: dict[str, Any] = {"temperature": draw(st.sampled_from([0.0, 1e-60, 0.3, 1.0, 2.0]))}
    if "bias" in some:
        fields["logit_bias"] = tuple((t, draw(st.floats(-5, 5))) for t in draw(tokens))
    if "masks" in some:
        allowed = st.none() | tokens.map(lambda some: tuple({*some, vocab - 1}))
        fields["allowed_tokens"] = draw(allowed)
        fields["suppressed_tokens"] = tuple({*draw(tokens)} - {vocab - 1})  # that one stays
    if "penalties" in some:
        fields["repetition_penalty"] = draw(st.sampled_from([0.5, 1.0, 1.7]))
        fields["presence_penalty"] = draw(st.sampled_from([0.0, 1.5]))
        fields["frequency_penalty"] = draw(st.sampled_from([0.0, -0.5, 0.7]))
    if "cuts" in some:
        fields["top_k"] = draw(st.sampled_from([0, 1, 5, vocab, 10**6]))
        fields["top_p"] = draw(st.sampled_from([1.0, 0.0, 0.5, 0.9]))
        fields["min_p"] = draw(st.sampled_from([0.0, 0.1, 1.0]))
    if "stop" in some:
        fields["stop_tokens"] = tuple({*draw(tokens)} - {vocab - 1})
        fields["min_tokens"] = 3
    if "top" in some:
        fields["logprobs"] = draw(st.integers(0, 20))
    grammar = Mask([*draw(tokens), vocab - 1]) if "grammar" in some else None
    params = SamplingParams(seed=draw(st.integers(-9, 9)), **fields)
    params.validate(vocab)
    history = draw(st.lists(token, max_size=8))
    num_output = draw(st.integers(0, len(history)))
    return SamplingRow(params, draw(st.integers(0, 99)), tuple(history), num_output, grammar)


@FEW
@given(st.data(), st.sampled_from([30, 700]), st.integers(0, 1000))
def test_a_row_gets_what_it_gets_alone_wherever_it_stands(
    data: st.DataObject, vocab: int, seed: int
) -> None:
    rows = data.draw(st.lists(sampling_rows(vocab), min_size=1, max_size=6))
    logits = rounded(len(rows), vocab, seed)
    for i in data.draw(st.sets(st.integers(0, len(rows) - 1), max_size=2)):
        logits[i, data.draw(st.integers(0, vocab - 1))] = data.draw(
            st.sampled_from([math.nan, math.inf, -math.inf])
        )
    before, sampler = logits.clone(), Sampler(vocab, CPU)
    together = sampler.sample(logits, rows)
    torch.testing.assert_close(logits, before, rtol=0, atol=0, equal_nan=True)
    order = data.draw(st.permutations(range(len(rows))))
    permuted = sampler.sample(logits[order], [rows[i] for i in order])
    for place, i in enumerate(order):
        alone = sampler.sample(logits[i : i + 1], [rows[i]])
        assert outcome(together, i) == outcome(alone, 0) == outcome(permuted, place)


@FEW
@given(st.data(), st.integers(0, 1000))
def test_a_prompt_that_is_known_is_as_one_in_the_history(data: st.DataObject, seed: int) -> None:
    row, logits, sampler = data.draw(sampling_rows(40)), rounded(1, 40, seed), Sampler(40, CPU)
    front = len(row.history) - row.num_output
    known = row._replace(history=row.history[front:], prompt=Known.of(row.history[:front]))
    assert outcome(sampler.sample(logits, [known]), 0) == outcome(sampler.sample(logits, [row]), 0)


def outcome(sampled: Sampled, i: int) -> tuple[object, ...]:
    """Row i, without what means nothing in a bad one."""
    if i in sampled.bad:
        return ("bad",)
    top = sampled.top[i] if sampled.top is not None else []
    return sampled.tokens[i], sampled.logprobs[i], tuple(top)


@FEW
@given(st.data(), st.integers(0, 1000))
def test_against_a_plain_oracle(data: st.DataObject, seed: int) -> None:
    vocab = 40
    row = data.draw(sampling_rows(vocab))
    logits = rounded(1, vocab, seed)
    result = Sampler(vocab, CPU).sample(logits, [row])
    scores = edited_by_hand(logits[0].double().numpy(), row)
    logprobs = scores - np.log(np.exp(scores - scores.max()).sum()) - scores.max()
    token = result.tokens[0]
    assert result.bad == []
    assert result.logprobs[0] == pytest.approx(logprobs[token], abs=1e-5)
    if row.params.temperature == 0.0:
        # The lowest id among what float32 cannot tell apart.
        assert token <= int(np.argmax(scores >= scores.max() - 1e-9))
        assert scores[token] >= scores.max() - 1e-5
    else:
        assert token in support_by_hand(scores, row.params)
    if row.params.logprobs:
        assert result.top is not None
        best = np.sort(logprobs[logprobs > -np.inf])[::-1][: row.params.logprobs]
        assert [log for _, log in result.top[0]] == pytest.approx(best.tolist(), abs=1e-5)
        for chosen, log in result.top[0]:
            assert log == pytest.approx(logprobs[chosen], abs=1e-5)
    else:
        assert result.top is None


def edited_by_hand(scores: Any, row: SamplingRow) -> Any:
    params, scores = row.params, scores.copy()
    output = row.history[len(row.history) - row.num_output :]
    for token in range(len(scores)):
        if params.allowed_tokens is not None and token not in params.allowed_tokens:
            scores[token] = -np.inf
        if isinstance(row.grammar, Mask) and token not in row.grammar.tokens:
            scores[token] = -np.inf
        if token in (params.suppressed_tokens or ()):
            scores[token] = -np.inf
        if row.num_output < params.min_tokens and token in params.stop_tokens:
            scores[token] = -np.inf
        scores[token] += dict(params.logit_bias).get(token, 0.0)
        if token in row.history:
            if scores[token] < 0:
                scores[token] *= params.repetition_penalty
            else:
                scores[token] /= params.repetition_penalty
        scores[token] -= params.presence_penalty * (token in output)
        scores[token] -= params.frequency_penalty * output.count(token)
    return scores


def support_by_hand(scores: Any, params: SamplingParams) -> set[int]:
    """What may be drawn, boundaries read generously."""
    scores = (scores - scores.max()) / max(params.temperature, 1e-6)
    slack = 1e-6 + 1e-5 / max(params.temperature, 1e-6)
    if params.min_p > 0.0:
        scores = np.where(scores >= math.log(params.min_p) - slack, scores, -np.inf)
    if 0 < params.top_k < len(scores):
        floor = np.sort(scores)[::-1][params.top_k - 1]
        scores = np.where(scores >= floor - slack, scores, -np.inf)
    share = np.exp(scores) / np.exp(scores).sum()
    above = np.array([share[scores > x + slack].sum() for x in scores])
    inside = (scores > -np.inf) & ((above < params.top_p + 1e-5) | (scores >= -slack))
    return set(np.flatnonzero(inside).tolist())


def test_penalties_and_masks_agree_with_transformers() -> None:
    vocab = 50
    logits = torch.randn(1, vocab, generator=torch.Generator().manual_seed(3))
    history = (4, 9, 9, 30)
    scores = logits_process.SuppressTokensLogitsProcessor([3, 8])(torch.zeros(1, 1), logits)
    ids = torch.tensor([history])
    scores = logits_process.RepetitionPenaltyLogitsProcessor(1.4)(ids, scores)
    params = SamplingParams(suppressed_tokens=(3, 8), repetition_penalty=1.4, logprobs=20)
    result = Sampler(vocab, CPU).sample(logits, [SamplingRow(params, 4, history, 1)])
    assert result.top is not None
    expected = scores.log_softmax(-1).topk(20)
    assert [token for token, _ in result.top[0]] == expected.indices[0].tolist()
    assert [log for _, log in result.top[0]] == pytest.approx(expected.values[0].tolist())


def test_draws_follow_the_distribution() -> None:
    """Chi-square over 20,000 positions, after temperature, bias and the cuts."""
    count, vocab = 20_000, 12
    logits = torch.randn(vocab, generator=torch.Generator().manual_seed(1)) * 1.5
    params = SamplingParams(
        temperature=1.3, seed=11, top_k=9, top_p=0.97, min_p=0.01, logit_bias=((2, 1.0),)
    )
    sampler = Sampler(vocab, CPU)
    result = sampler.sample(
        logits.expand(count, vocab), [SamplingRow(params, i) for i in range(count)]
    )
    scores = logits.double().numpy()
    scores[2] += 1.0
    support = sorted(support_by_hand(scores, params))
    weights = np.exp(scores[support] / 1.3)
    observed = np.bincount(result.tokens, minlength=vocab)
    assert 3 < len(support) < vocab
    assert observed.sum() == observed[support].sum() == count
    expected = weights / weights.sum() * count
    chi_square = ((observed[support] - expected) ** 2 / expected).sum()
    half = torch.tensor([(len(support) - 1) / 2, chi_square / 2])
    assert torch.special.gammaincc(half[0], half[1]).item() > 0.01  # its p-value


@pytest.mark.parametrize(
    "cuts",
    [{"top_k": 4}, {"top_p": 0.9}, {"min_p": 0.1}, {"top_k": 6, "top_p": 0.8}, {"top_p": 0.0}],
)
def test_all_that_a_cut_leaves_is_drawn_and_nothing_else(cuts: dict[str, Any]) -> None:
    logits = torch.arange(10.0).mul(-0.4)
    params = SamplingParams(temperature=1.0, **cuts)
    support = support_by_hand(logits.double().numpy(), params)
    assert len(support) < 10
    rows = [SamplingRow(params, i) for i in range(400)]
    # Among others that cut nothing, and alone.
    plain = [SamplingRow(SamplingParams(temperature=1.0, seed=1), i) for i in range(400)]
    mixed = Sampler(10, CPU).sample(logits.expand(800, 10), rows + plain).tokens
    assert set(mixed[:400]) == support
    assert set(mixed[400:]) == set(range(10))
    assert Sampler(10, CPU).sample(logits.expand(400, 10), rows).tokens == mixed[:400]


def test_presence_counts_once_and_frequency_every_time() -> None:
    logits = torch.tensor([[3.0, 2.0, 0.5, -4.0]])
    params = SamplingParams(presence_penalty=1.5, frequency_penalty=-0.25, logprobs=4)
    row = SamplingRow(params, 5, (2, 2, 0, 1, 0, 3), 4)  # output: 0 1 0 3
    result = Sampler(4, CPU).sample(logits, [row])
    expected = torch.tensor([3.0 - 1.5 + 0.5, 2.0 - 1.25, 0.5, -4.0 - 1.25]).log_softmax(0)
    assert result.top is not None
    assert [token for token, _ in result.top[0]] == [0, 1, 2, 3]
    assert [log for _, log in result.top[0]] == pytest.approx(expected.tolist())


def test_seeds_differ_and_repeat() -> None:
    logits = torch.zeros(1, 1000)
    sampler = Sampler(1000, CPU)

    def token(seed: int, position: int) -> int:
        params = SamplingParams(temperature=1.0, seed=seed)
        return sampler.sample(logits, [SamplingRow(params, position)]).tokens[0]

    drawn = [token(seed, position) for seed in range(5) for position in range(5)]
    assert drawn == [token(seed, position) for seed in range(5) for position in range(5)]
    assert len(set(drawn)) > 20


def toy_logits(context: Sequence[int]) -> Tensor:
    """A model: the next token's logits [vocab] depend on the last two."""
    seed = context[-1] * 31 + context[-2]
    return rounded(1, 20, seed)[0]


@FEW
@given(st.integers(0, 99), st.sampled_from([0.0, 0.8, 1.5]), st.data())
def test_a_verified_draft_gives_what_plain_sampling_gives(
    seed: int, temperature: float, data: st.DataObject
) -> None:
    params = SamplingParams(
        temperature=temperature, seed=seed, top_p=0.9, frequency_penalty=0.8, min_tokens=3,
        stop_tokens=(0, 1, 2),
    )  # fmt: skip
    sampler, prompt, length = Sampler(20, CPU), [3, 4], 8

    def row(context: Sequence[int]) -> SamplingRow:
        return SamplingRow(params, len(context), tuple(context), len(context) - len(prompt))

    plain = list(prompt)
    for _ in range(length):
        plain += sampler.sample(toy_logits(plain)[None], [row(plain)]).tokens
    verified, steps = list(prompt), 0
    while len(verified) < len(plain):
        # A draft right for a while, then wrong.
        right = data.draw(st.integers(0, 4))
        draft = plain[len(verified) : len(verified) + right]
        draft += [data.draw(st.integers(0, 19))] if data.draw(st.booleans()) else []
        contexts = [verified + draft[:i] for i in range(len(draft) + 1)]
        logits = torch.stack([toy_logits(context) for context in contexts])
        chosen = sampler.sample(logits, [row(context) for context in contexts]).tokens
        accepted = 0
        while accepted < len(draft) and draft[accepted] == chosen[accepted]:
            accepted += 1
        verified += chosen[: accepted + 1]
        steps += 1
    assert verified[: len(plain)] == plain


def test_stop_tokens_wait_for_min_tokens() -> None:
    logits = torch.tensor([[0.0, 9.0, 5.0, 1.0]]).expand(3, 4)
    params = SamplingParams(stop_tokens=(1, 2), min_tokens=2)
    rows = [SamplingRow(params, i, (), i) for i in range(3)]
    assert Sampler(4, CPU).sample(logits, rows).tokens == [3, 3, 1]


def test_the_prompt_counts_for_repetition_only() -> None:
    logits = torch.tensor([[1.0, 1.2, 0.0]])
    presence = SamplingRow(SamplingParams(presence_penalty=1.0), 2, (1, 1), 0)
    repetition = SamplingRow(SamplingParams(repetition_penalty=2.0), 2, (1, 1), 0)
    sampler = Sampler(3, CPU)
    assert sampler.sample(logits, [presence]).tokens == [1]
    assert sampler.sample(logits, [repetition]).tokens == [0]
    assert sampler.sample(logits, [presence._replace(num_output=1)]).tokens == [0]


def test_broken_logits_are_reported_and_hurt_nobody_else() -> None:
    vocab = 600
    logits = rounded(7, vocab, 5)
    logits[1] = -torch.inf
    logits[2, 400] = torch.nan
    logits[4] = torch.nan
    logits[5, 3] = torch.inf
    logits[6, :590] = -torch.inf  # masked by the model itself: fine
    warm = SamplingParams(temperature=1.0, top_k=5, top_p=0.9, min_p=0.05, logprobs=2)
    masked = SamplingParams(allowed_tokens=(1, 2), repetition_penalty=1.2, logprobs=1)
    for params in (SamplingParams(), warm, masked):
        rows = [SamplingRow(params, 3, (1, 7), 1)] * 7
        result = Sampler(vocab, CPU).sample(logits, rows)
        fine = [0, 3] if params is masked else [0, 3, 6]
        assert result.bad == [i for i in range(7) if i not in fine]
        assert all(0 <= token < vocab for token in result.tokens)
        assert all(math.isfinite(result.logprobs[i]) for i in fine)
        if result.top is not None:
            assert all(result.top[i] == [] for i in result.bad)
            assert all(result.top[i] for i in fine)


def test_the_lowest_id_among_equals() -> None:
    logits = torch.zeros(2, 1000)
    logits[0, 300:] = logits[1, [5, 999]] = 2.0
    rows = [SamplingRow(SamplingParams(logprobs=2), 0)] * 2
    result = Sampler(1000, CPU).sample(logits, rows)
    assert result.tokens == [300, 5]
    assert result.top is not None and [token for token, _ in result.top[1]] == [5, 999]


def test_which_equals_are_reported_does_not_depend_on_what_others_ask_for() -> None:
    logits = torch.zeros(2, 1000)
    for count in (1, 2, 3):
        row = SamplingRow(SamplingParams(logprobs=count), 0)
        greedy = SamplingRow(SamplingParams(logprobs=20), 0)
        alone = Sampler(1000, CPU).sample(logits[:1], [row])
        together = Sampler(1000, CPU).sample(logits, [row, greedy])
        assert outcome(alone, 0) == outcome(together, 0)


def test_equals_stay_equal_at_the_lowest_temperature() -> None:
    rows = [SamplingRow(SamplingParams(temperature=1e-60), i) for i in range(20)]
    result = Sampler(3, CPU).sample(torch.tensor([[1.0, 1.0, 0.99]]).expand(20, 3), rows)
    assert set(result.tokens) == {0, 1}


def test_nothing_to_sample() -> None:
    assert Sampler(5, CPU).sample(torch.empty(0, 5), []) == Sampled([], [], None, [])


@FEW
@given(st.data())
def test_a_row_that_may_be_plain_gets_what_a_plain_one_gets(data: st.DataObject) -> None:
    vocab = 40
    row = data.draw(sampling_rows(vocab))
    is_plain = row.grammar is None and row.params.is_plain
    logits = rounded(2, vocab, 7)
    general = Sampler(vocab, CPU).sample(logits, [row, row])
    plain = Sampler(vocab, CPU).sample(logits, [PLAIN, PLAIN])
    if is_plain:
        assert (general.tokens, general.logprobs) == (plain.tokens, plain.logprobs)
        assert general.top == plain.top and general.bad == plain.bad
    mixed = Sampler(vocab, CPU).sample(logits, [PLAIN, row])
    assert (mixed.tokens[0], mixed.tokens[1]) == (plain.tokens[0], general.tokens[1])


def test_a_token_beyond_the_vocabulary_is_our_bug() -> None:
    row = SamplingRow(SamplingParams(repetition_penalty=2.0), 0, (5,), 0)
    with pytest.raises(AssertionError):
        Sampler(5, CPU).sample(torch.zeros(1, 5), [row])


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The names of torch's operations while it is on."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        self.names.append(func._schema.name.removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


def operations(*all_params: SamplingParams, num_output: int = 2) -> list[str]:
    rows = [SamplingRow(params, 1, (1, 2), num_output) for params in all_params]
    logits = rounded(len(rows), 600, 0)
    seen = Operations()
    with seen:
        Sampler(600, CPU).sample(logits, rows)
    return seen.names


def test_a_stage_nobody_uses_costs_nothing() -> None:
    plain = operations(SamplingParams(), SamplingParams(stop_tokens=(1,), logprobs=0, seed=3))
    assert plain.count("_log_softmax") == 1
    changes = {"clone", "index_add_", "index_copy_", "masked_fill_", "topk", "where", "div"}
    assert not changes & set(plain)
    # What has run out, or is at its neutral value.
    ended = SamplingParams(min_tokens=2, stop_tokens=(1,), top_k=5, top_p=0.5, min_p=0.1)
    assert operations(ended) == operations(SamplingParams())

    warm = operations(SamplingParams(temperature=1.0, top_k=600))
    assert not {"clone", "index_add_", "masked_fill_", "topk"} & set(warm)
    for params, expected in (
        (SamplingParams(logit_bias=((1, 2.0),)), {"clone", "index_add_"}),
        (SamplingParams(allowed_tokens=(1,)), {"clone", "index_copy_"}),
        (SamplingParams(presence_penalty=1.0), {"clone", "index_add_"}),
        (SamplingParams(repetition_penalty=1.1), {"clone", "index_copy_", "where", "div"}),
        (SamplingParams(logprobs=3), {"topk"}),
    ):
        assert changes & set(operations(params, SamplingParams())) >= expected
    assert operations(SamplingParams(temperature=1.0, min_p=0.1)).count("masked_fill_") == 1
    assert operations(SamplingParams(temperature=1.0, top_k=3)).count("topk") == 1
    assert operations(SamplingParams(temperature=1.0, top_p=0.5)).count("_log_softmax") == 2


def test_one_read_back_per_call(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[tuple[int, ...]] = []
    to_list = Tensor.tolist

    def counted(self: Tensor) -> Any:
        reads.append(tuple(self.shape))
        return to_list(self)

    monkeypatch.setattr(Tensor, "tolist", counted)
    params = SamplingParams(temperature=0.0, logprobs=3, repetition_penalty=1.2)
    seen = operations(params, SamplingParams(), params)
    assert reads == [(3 + 3 + 2 * 20 + 2 * 20,)]
    assert not {"_local_scalar_dense", "nonzero"} & set(seen)


class Watched(tuple[Any, ...]):
    """Counts how often it is gone through."""

    readings = 0

    def __iter__(self) -> Any:
        type(self).readings += 1
        return super().__iter__()


def test_what_is_added_is_put_together_once_and_not_in_every_step() -> None:
    params = SamplingParams(
        logit_bias=Watched([(1, 9.0), (2, 5.0)]),
        suppressed_tokens=Watched([1]),
        stop_tokens=Watched([2]),
        min_tokens=2,
    )
    sampler, before = Sampler(4, CPU), Watched.readings
    rows = [SamplingRow(params, n, num_output=n) for n in range(4)]
    logits = torch.tensor([0.0, 0.0, 0.0, 1.0]).expand(4, 4)
    assert sampler.sample(logits, rows).tokens == [3, 3, 2, 2]
    assert Watched.readings == before
