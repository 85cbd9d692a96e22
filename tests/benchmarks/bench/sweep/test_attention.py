from __future__ import annotations

import pytest
import torch

from benchmarks.in_process.attention import KINDS, measured

CPU = torch.device("cpu")
TOKENS = {"encoder": 5, "prefill": 5}  # that each row gives, where it is not one


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_gives_a_number_for_each_of_its_tokens(kind: str) -> None:
    out = KINDS[kind](3, 5, CPU, torch.float32)()
    heads, dim = out.shape[-2:]
    assert out.numel() == 3 * TOKENS.get(kind, 1) * heads * dim
    assert torch.isfinite(out).all()
    assert torch.equal(out, KINDS[kind](3, 5, CPU, torch.float32)())


def test_it_is_timed_on_one_thread_and_leaves_the_others_as_they_were() -> None:
    before = torch.get_num_threads()
    found = measured("audio", 2, 16, seconds=0.0)
    assert found["rounds"] >= 5 and found["us"] > 0
    assert found["us_per_row"] == pytest.approx(found["us"] / 2, abs=0.1)
    assert torch.get_num_threads() == before
