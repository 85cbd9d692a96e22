"""Log probabilities of an answer's tokens, as OpenAI's APIs write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lookhear.engine.messages import ChosenToken

NEVER = -9999.0  # OpenAI's number for what is as good as impossible; JSON has no infinity


def logprobs_of(tokens: Sequence[ChosenToken]) -> list[dict[str, Any]]:
    """Each with the likeliest others of its place."""
    return [
        {
            **_token(token.token, token.logprob, token.bytes),
            "top_logprobs": [_token(top.token, top.logprob, top.bytes) for top in token.top],
        }
        for token in tokens
    ]


def _token(token: str, logprob: float, bytes: list[int]) -> dict[str, Any]:
    return {"token": token, "logprob": max(logprob, NEVER), "bytes": bytes}
