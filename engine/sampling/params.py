"""How the tokens of a request are to be chosen: parameters and what they may be. Pure: no tensors.

The order in which they act is that of `engine.sampling.sampler`, which reads them; `stop` (strings)
is the detokenizer's, `stop_tokens` and `max_tokens` also the request's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

MAX_LOGPROBS = 20  # alternatives per token, as in the OpenAI API

Added = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Tokens [n], each once, and what is added to their logits [n]."""


class TokenMask(Protocol):
    """Which tokens may come next."""

    def fill(self, bits: NDArray[np.int32]) -> None:
        """bits: [ceil(vocab / 32)] int32, written whole; a set bit lets a token through."""


@dataclass(frozen=True, slots=True)
class Known:
    """The tokens of a prompt, each once, in no order. ids: the same, [n]."""

    tokens: frozenset[int]
    ids: NDArray[np.int64] = field(compare=False, repr=False)

    @classmethod
    def of(cls, tokens: Sequence[int]) -> Known:
        """Takes as long as the prompt is: once for an answer, not in every step."""
        found = frozenset(tokens)
        return cls(found, np.fromiter(found, np.int64, len(found)))


NOTHING = Known.of(())


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The defaults choose greedily and change nothing. ValueError for what cannot be.

    temperature: 0 is greedy. top_k: 0 is off. top_p: 1 is off; min_p: 0 is off, otherwise the
    least probability relative to the best token's.
    repetition_penalty: 1 is off, above 1 against what prompt or output hold already. presence_ and
    frequency_penalty: 0 is off; subtracted for a token of the output, once and per occurrence.
    logit_bias: (token, bias) pairs, added. allowed_tokens: nothing else can be chosen; None: all
    can. suppressed_tokens: never chosen.
    stop_tokens: end the request, from min_tokens on; the checkpoint's end tokens belong here, or
    are left out to ignore them. stop: texts that end it. max_tokens: output tokens at most.
    seed: with the position the only source of randomness: draw one if the user named none.
    logprobs: alternatives reported per token, best first; None and 0: just the token's own.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    allowed_tokens: tuple[int, ...] | None = None
    suppressed_tokens: tuple[int, ...] | None = None
    stop_tokens: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()
    min_tokens: int = 0
    max_tokens: int = 256
    seed: int = 0
    logprobs: int | None = None
    # Behind min_tokens of output, and before. Made once: every step adds it, for every row.
    _added: tuple[Added, Added] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _number("temperature", self.temperature, 0.0, 100.0)
        _whole("top_k", self.top_k, 0)
        _number("top_p", self.top_p, 0.0, 1.0)
        _number("min_p", self.min_p, 0.0, 1.0)
        _number("repetition_penalty", self.repetition_penalty, 0.01, 100.0)
        _number("presence_penalty", self.presence_penalty, -2.0, 2.0)
        _number("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _tokens("logit_bias", [token for token, _ in self.logit_bias])
        for token, bias in self.logit_bias:
            _number(f"logit_bias[{token}]", bias, -100.0, 100.0)
        _tokens("allowed_tokens", self.allowed_tokens or ())
        _tokens("suppressed_tokens", self.suppressed_tokens or ())
        _tokens("stop_tokens", self.stop_tokens)
        if not all(self.stop):
            raise ValueError("stop: expected non-empty texts; got an empty one")
        _whole("max_tokens", self.max_tokens, 1)
        _whole("min_tokens", self.min_tokens, 0, self.max_tokens)
        _whole("seed", self.seed, -(2**63), 2**63 - 1)
        if self.logprobs is not None:
            _whole("logprobs", self.logprobs, 0, MAX_LOGPROBS)
        if self.allowed_tokens is not None and not set(self.allowed_tokens) - self._excluded():
            raise ValueError(
                "allowed_tokens: expected one at least that suppressed_tokens and min_tokens leave;"
                f" got {self.allowed_tokens}"
            )
        always = dict(self.logit_bias) | dict.fromkeys(self.suppressed_tokens or (), -math.inf)
        first = always | dict.fromkeys(self.stop_tokens if self.min_tokens else (), -math.inf)
        object.__setattr__(self, "_added", (_arrays(always), _arrays(first)))

    def added(self, num_output: int) -> Added:
        """Bias, and -inf for what must not come behind so many tokens of output."""
        return self._added[num_output < self.min_tokens]

    def _excluded(self) -> set[int]:
        """Tokens that cannot be chosen as the first of the output."""
        return {*(self.suppressed_tokens or ()), *(self.stop_tokens if self.min_tokens else ())}

    def validate(self, vocab_size: int) -> None:
        """ValueError if a field does not fit a vocabulary of that many tokens."""
        fields = {
            "logit_bias": [token for token, _ in self.logit_bias],
            "allowed_tokens": self.allowed_tokens or (),
            "suppressed_tokens": self.suppressed_tokens or (),
            "stop_tokens": self.stop_tokens,
        }
        for name, tokens in fields.items():
            if tokens and max(tokens) >= vocab_size:
                raise ValueError(
                    f"{name}: expected token ids below {vocab_size}; got {max(tokens)}"
                )
        if self.allowed_tokens is None and len(self._excluded()) >= vocab_size:
            raise ValueError(
                f"suppressed_tokens: expected one token at least to be left of {vocab_size};"
                f" got {len(self._excluded())} excluded"
            )
        if self.logprobs is not None and self.logprobs > vocab_size:
            raise ValueError(
                f"logprobs: expected {vocab_size} at most, the vocabulary; got {self.logprobs}"
            )

    @property
    def edits(self) -> bool:
        """Whether logits are changed before the choice, min_tokens apart: that ends some time."""
        return (
            bool(self.logit_bias or self.suppressed_tokens)
            or self.allowed_tokens is not None
            or self.penalises
        )

    @property
    def is_plain(self) -> bool:
        """Whether the best token is chosen, whatever was said, and nothing is told of others."""
        may_wait = self.min_tokens and self.stop_tokens
        return not (self.temperature > 0.0 or self.edits or may_wait or self.logprobs)

    @property
    def penalises(self) -> bool:
        """Whether the tokens so far matter: only then the sampler needs the history."""
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
        )


def _arrays(values: dict[int, float]) -> Added:
    tokens = np.fromiter(values, np.int64, len(values))
    return tokens, np.fromiter(values.values(), np.float32, len(values))


def _number(name: str, value: float, low: float, high: float) -> None:
    # bool is an int to Python; nobody means True by a temperature.
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or not math.isfinite(value) or not low <= value <= high:
        raise ValueError(f"{name}: expected a number from {low:g} to {high:g}; got {value!r}")


def _whole(name: str, value: int, low: int, high: int | None = None) -> None:
    fits = isinstance(value, int) and not isinstance(value, bool)
    if not fits or value < low or (high is not None and value > high):
        limit = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name}: expected a whole number {limit}; got {value!r}")


def _tokens(name: str, tokens: tuple[int, ...] | list[int]) -> None:
    for token in tokens:
        _whole(name, token, 0)
    if len(set(tokens)) < len(tokens):
        raise ValueError(f"{name}: expected each token once; got {tuple(tokens)}")


GREEDY = SamplingParams()
