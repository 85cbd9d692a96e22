"""Sampling parameters: what cannot be is refused by name, with what was expected and what came."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from lookhear.engine.sampling.params import SamplingParams


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("temperature", True),
        ("temperature", "1"),
        ("top_k", -1),
        ("top_k", 2.0),
        ("top_p", 1.1),
        ("top_p", -0.1),
        ("top_p", math.nan),
        ("min_p", 1.5),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", -1.0),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -2.1),
        ("logit_bias", ((-1, 1.0),)),
        ("logit_bias", ((1, 1.0), (1, 2.0))),
        ("allowed_tokens", ()),
        ("allowed_tokens", (3, -3)),
        ("suppressed_tokens", (1, 1)),
        ("suppressed_tokens", (1.5,)),
        ("stop_tokens", (-1,)),
        ("stop", ("end", "")),
        ("min_tokens", -1),
        ("min_tokens", 257),  # more than max_tokens
        ("max_tokens", 0),
        ("seed", 2**63),
        ("seed", None),
        ("logprobs", 21),
        ("logprobs", -1),
    ],
)
def test_an_impossible_value_is_named(field: str, value: object) -> None:
    fields: dict[str, Any] = {field: value}
    with pytest.raises(ValueError, match=f"^{field}: expected .*; got ") as caught:
        SamplingParams(**fields)
    if isinstance(value, int | float):
        assert str(caught.value).endswith(repr(value))


def test_a_bias_names_its_token() -> None:
    with pytest.raises(ValueError, match=re.escape("logit_bias[7]: expected a number from -100")):
        SamplingParams(logit_bias=((7, math.inf),))


@pytest.mark.parametrize(
    ("field", "params"),
    [
        ("logit_bias", SamplingParams(logit_bias=((10, 1.0),))),
        ("allowed_tokens", SamplingParams(allowed_tokens=(1, 10))),
        ("suppressed_tokens", SamplingParams(suppressed_tokens=(10,))),
        ("suppressed_tokens", SamplingParams(suppressed_tokens=tuple(range(10)))),
        ("stop_tokens", SamplingParams(stop_tokens=(10,))),
        ("logprobs", SamplingParams(logprobs=11)),
    ],
)
def test_what_does_not_fit_the_vocabulary(field: str, params: SamplingParams) -> None:
    with pytest.raises(ValueError, match=f"^{field}: expected .*; got "):
        params.validate(10)
    params.validate(1000)


def test_masks_that_leave_nothing_to_choose() -> None:
    with pytest.raises(ValueError, match="^allowed_tokens: expected one at least that"):
        SamplingParams(allowed_tokens=(1, 2), suppressed_tokens=(1, 2, 3))
    with pytest.raises(ValueError, match="^allowed_tokens: "):
        SamplingParams(allowed_tokens=(1, 2), stop_tokens=(1, 2), min_tokens=1)
    SamplingParams(allowed_tokens=(1, 2), stop_tokens=(1, 2)).validate(3)
    with pytest.raises(ValueError, match="^suppressed_tokens: .* left of 3; got 3"):
        SamplingParams(suppressed_tokens=(1, 2), stop_tokens=(0,), min_tokens=1).validate(3)


def test_the_ends_of_every_range_are_allowed() -> None:
    SamplingParams(
        temperature=100.0,
        top_k=10**9,
        top_p=0.0,
        min_p=1.0,
        repetition_penalty=0.01,
        presence_penalty=-2.0,
        frequency_penalty=2,
        logit_bias=((0, -100.0), (9, 100)),
        stop=("a", "b"),
        min_tokens=1,
        max_tokens=1,
        seed=-(2**63),
        logprobs=10,
    ).validate(10)


def test_the_defaults_ask_for_nothing() -> None:
    params = SamplingParams()
    params.validate(1)
    assert params.temperature == 0.0
    assert not params.edits and not params.penalises
    assert SamplingParams(frequency_penalty=0.1).edits
    assert SamplingParams(allowed_tokens=(1,)).edits
    assert not SamplingParams(allowed_tokens=(1,)).penalises
