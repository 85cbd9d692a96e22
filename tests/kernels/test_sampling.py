from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.kernels import (
    greedy,
    sample,
    token_logprobs,
    top_logprobs,
    verify_greedy,
    verify_tokens,
)


def test_greedy_with_suppressed_tokens() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0], [0.0, 0.0, -1.0]])
    tokens, logprobs = greedy(logits)
    assert tokens.tolist() == [1, 0]
    expected = logits.log_softmax(-1)[[0, 1], [1, 0]]
    torch.testing.assert_close(logprobs, expected)
    mask = torch.tensor([[0.0, -torch.inf, 0.0], [-torch.inf, 0.0, 0.0]])
    tokens, logprobs = greedy(logits, mask)
    assert tokens.tolist() == [2, 1]
    expected = (logits + mask).log_softmax(-1)[[0, 1], [2, 1]]
    torch.testing.assert_close(logprobs, expected)
    assert greedy(logits, torch.tensor([0.0, -torch.inf, -torch.inf]))[0].tolist() == [0, 0]
    assert logits.isfinite().all()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_verification_accepts_exactly_the_agreeing_beginning(data: st.DataObject) -> None:
    batch = data.draw(st.integers(1, 4))
    queries = data.draw(st.integers(1, 6))
    token = st.integers(0, 3)
    table = st.lists(
        st.lists(token, min_size=queries, max_size=queries), min_size=batch, max_size=batch
    )
    choices, draft = data.draw(table), data.draw(table)
    lengths = [data.draw(st.integers(0, queries - 1)) for _ in range(batch)]
    logits = torch.nn.functional.one_hot(torch.tensor(choices), 4).float()
    result = verify_greedy(logits, torch.tensor(draft), torch.tensor(lengths))
    again = verify_tokens(torch.tensor(choices), torch.tensor(draft), torch.tensor(lengths))
    for row in range(batch):
        count = 0
        while count < lengths[row] and choices[row][count] == draft[row][count]:
            count += 1
        assert result.accepted[row] == again.accepted[row] == count
        assert result.next_token[row] == choices[row][count]


def test_sampling_depends_on_seed_and_position_not_on_the_batch() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 50, generator=generator)
    temperature = torch.tensor([1.0, 0.7, 0.0, 1.0, 2.0, 1.0])
    seeds, positions = torch.tensor([1, 2, 3, 1, 5, -6]), torch.tensor([0, 9, 9, 1, 0, 2**40])
    tokens, logprobs = sample(logits, temperature, seeds, positions)
    assert tokens[2] == logits[2].argmax()
    torch.testing.assert_close(logprobs, logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0])
    for i in range(6):
        alone, _ = sample(
            logits[i : i + 1], temperature[i : i + 1], seeds[i : i + 1], positions[i : i + 1]
        )
        assert alone[0] == tokens[i]


def test_sampling_follows_the_distribution() -> None:
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    count = 20_000
    tokens, _ = sample(
        probabilities.log().expand(count, 4),
        torch.ones(count),
        torch.full((count,), 7),
        torch.arange(count),
    )
    observed = torch.bincount(tokens, minlength=4) / count
    assert (observed - probabilities).abs().max() < 0.02  # five standard deviations: 0.018


def test_suppressed_tokens_are_never_drawn() -> None:
    mask = torch.tensor([-torch.inf, 0.0, -torch.inf, 0.0])
    count = 500
    tokens, logprobs = sample(
        torch.zeros(count, 4),
        torch.full((count,), 5.0),
        torch.arange(count),
        torch.zeros(count).long(),
        mask,
    )
    assert set(tokens.tolist()) == {1, 3}
    torch.testing.assert_close(logprobs, torch.full((count,), 0.5).log())


def test_logprobs() -> None:
    logits = torch.randn(3, 20, generator=torch.Generator().manual_seed(0))
    expected = logits.log_softmax(-1)
    tokens, best = top_logprobs(logits, 4)
    torch.testing.assert_close(best, expected.topk(4).values)
    assert torch.equal(tokens, expected.topk(4).indices)
    torch.testing.assert_close(token_logprobs(logits, tokens[:, 2]), best[:, 2])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.sampled_from([1, 255, 256, 257, 700, 768]), st.integers(0, 10_000))
def test_greedy_takes_the_first_of_equals_at_any_size(n: int, vocab: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(0, 20, (n, vocab), generator=generator).float()
    tokens, logprobs = greedy(logits)
    for row in range(n):
        assert tokens[row] == logits[row].tolist().index(logits[row].max())
    torch.testing.assert_close(logprobs, logits.max(-1).values - logits.logsumexp(-1))


def test_a_nan_is_not_hidden() -> None:
    logits = torch.zeros(2, 600)
    logits[1, 500] = torch.nan
    _, logprobs = greedy(logits)
    assert logprobs.isnan().tolist() == [False, True]
