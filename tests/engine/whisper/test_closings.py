"""How probable it is that no other word comes, as a live look tells it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.core.request import Phase, Priority, Result, StopReason
from lookhear.engine.messages import SAMPLE_RATE, TranscriptionSettings
from lookhear.engine.speech.recognizer import Stretch
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.model import WhisperModel
from lookhear.engine.whisper.passes import Wanted, WhisperLogits
from lookhear.engine.whisper.recognizer import WhisperRecognizer, WindowRule
from lookhear.engine.whisper.request import WhisperRequest, WhisperSequence
from lookhear.engine.whisper.runner import WhisperRunner
from tests.engine.speech.scripted import FIRST_STAMP, SpeltTokens
from tests.engine.whisper.test_request import END, request
from tests.engine.whisper.test_settled import ask, run
from tools.random_checkpoints.whisper import build_random_whisper

ENDS = set(".!?。！？…")
TOLERANCE = 1e-3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_random_whisper(tmp_path_factory.mktemp("closings") / "model", layers=2, width=32)


def closing_tokens(tokenizer: WhisperTokenizer) -> list[int]:
    """One by one, by what they spell."""
    found = [tokenizer.eot, *range(tokenizer.timestamp_begin, tokenizer.vocab_size)]
    for token in range(tokenizer.eot):
        text = tokenizer.decode([token]).strip().strip("\"'”’)]}»")
        if text and set(text) <= ENDS | set("\"'”’)]}»"):
            found.append(token)
    return found


def asked(tokenizer: WhisperTokenizer, seed: int, key: str) -> WhisperRequest:
    return replace(ask(tokenizer, key, seed, 1.0), settled=(), closes=True)


def test_it_is_the_share_of_all_that_is_no_word(folder: Path) -> None:
    tokenizer, model = WhisperTokenizer.from_folder(folder), WhisperModel.from_folder(folder)
    runner = WhisperRunner(model, tokenizer, 2, pads=True)
    seen: list[float] = []
    decode, closing = runner.passes.decode, closing_tokens(tokenizer)
    assert len(closing) > 1 + tokenizer.vocab_size - tokenizer.timestamp_begin, "no sign is known"

    def watched(group: Sequence[WhisperSequence], wanted: Wanted) -> WhisperLogits:
        logits = decode(group, wanted)
        share = torch.softmax(logits.values[-1].double(), -1)[closing].sum()
        seen.append(math.log(float(share)))
        return logits

    runner.passes.decode = watched  # type: ignore[method-assign]
    [result] = run(runner, [asked(tokenizer, 0, "a")])
    np.testing.assert_allclose(result.closings, seen, atol=TOLERANCE)
    [quiet] = run(runner, [replace(asked(tokenizer, 0, "a"), closes=False)])
    assert quiet.closings == () and quiet.tokens == result.tokens


def test_it_is_the_same_alone_together_and_behind_a_guess(folder: Path) -> None:
    tokenizer, model = WhisperTokenizer.from_folder(folder), WhisperModel.from_folder(folder)
    runner = WhisperRunner(model, tokenizer, 4, pads=True)
    requests = [asked(tokenizer, seed, key) for seed, key in enumerate("abc")]
    alone = [run(runner, [one])[0] for one in requests]
    others = replace(asked(tokenizer, 7, "a"), closes=False)
    *together, left_out = run(runner, [*requests, others])
    assert left_out.closings == ()
    for one, two in zip(alone, together, strict=True):
        np.testing.assert_allclose(one.closings, two.closings, atol=TOLERANCE)
    for one, plain in zip(alone, requests, strict=True):
        for draft in (one.tokens, (*one.tokens[:3], 5, 6), (5, 6)):
            [guessed] = run(runner, [replace(plain, draft=draft)])
            assert guessed.tokens == one.tokens
            np.testing.assert_allclose(guessed.closings, one.closings, atol=TOLERANCE)


@given(
    steps=st.lists(st.lists(st.integers(0, END), min_size=1, max_size=4), min_size=1),
    draft=st.lists(st.integers(0, END - 1), max_size=3),
)
def test_each_belongs_to_a_token_or_to_the_end(steps: list[list[int]], draft: list[int]) -> None:
    """What was sampled behind a guess that was wrong counts for nothing."""
    sequence = WhisperSequence(request(draft=tuple(draft), closes=True), END, 448)
    number = 0
    for step in steps:
        if sequence.phase is Phase.DONE:
            break
        count = sequence.num_queries - sequence.num_known + 1
        sampled = (step * count)[:count]
        closings = [float(number + i) for i in range(count)]
        before = len(sequence.generated.tokens)
        sequence.absorb(sampled, [0.0] * count, (), closings)
        ends = sequence.generated.stop is StopReason.END
        taken = len(sequence.generated.tokens) - before + ends
        assert sequence.closings[-taken:] == closings[:taken]
        number += count
    ends = sequence.generated.stop is StopReason.END
    assert len(sequence.closings) == len(sequence.generated.tokens) + ends


WORDS = SpeltTokens([" It", " is", ".", "...", " done", '"'])
STAMP = FIRST_STAMP + 50


@pytest.mark.parametrize(
    ("tokens", "place"),
    [
        ((0, 1), 2),
        ((0, 1, 2), 2),
        ((0, 1, 3, 5, STAMP), 2),
        ((0, 2, 1, STAMP), 3),
        ((2,), 0),
        ((), 0),
    ],
)
@pytest.mark.parametrize("stop", [StopReason.END, StopReason.LENGTH])
def test_a_look_tells_it_behind_its_last_word(
    tokens: tuple[int, ...], place: int, stop: StopReason
) -> None:
    window = WindowRule(SAMPLE_RATE, SAMPLE_RATE, 30 * SAMPLE_RATE, 0)
    settings = TranscriptionSettings(model="m", provisional=True)
    recognizer = WhisperRecognizer(WORDS, window, settings)  # type: ignore[arg-type]
    stretch = Stretch("s/t", Priority.LIVE, 0, np.zeros(SAMPLE_RATE, np.float32), "en")
    assert recognizer.request(stretch).closes
    assert not recognizer.request(stretch._replace(is_open=True)).closes, "in midst of a word"
    count = len(tokens) + (stop is StopReason.END)
    closings = tuple(math.log(0.1 + 0.1 * i) for i in range(count))
    result = Result("s/t", tokens, (-0.1,) * len(tokens), 0, stop, language=1001, closings=closings)
    found = recognizer.hypothesis(result, stretch)
    if place == count:  # it was cut off: nothing was asked behind its last word
        assert found.closing is None
    else:
        assert found.closing == pytest.approx(0.1 + 0.1 * place)
    head, rest = found.split(1)
    assert head.closing == rest.closing == found.closing
    plain = WhisperRecognizer(WORDS, window, TranscriptionSettings(model="m"))  # type: ignore[arg-type]
    assert not plain.request(stretch).closes, "nobody wants to know"
