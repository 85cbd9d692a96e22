"""A text is not over before its first word, where it is known that there is one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.model import WhisperModel
from lookhear.engine.whisper.positions import Purpose
from lookhear.engine.whisper.request import WhisperSequence
from lookhear.engine.whisper.runner import WhisperRunner
from tests.engine.whisper.test_request import END, request
from tests.engine.whisper.test_settled import ask, run
from tools.random_checkpoints.whisper import build_random_whisper

STAMP = END + 5


@given(
    draft=st.lists(st.integers(0, END - 1) | st.just(STAMP), max_size=6),
    at_least=st.integers(0, 4),
)
def test_it_may_end_behind_so_many_tokens_of_text(draft: list[int], at_least: int) -> None:
    asked = request(prefix=(1, 2), draft=tuple(draft), at_least=at_least, timestamps=True)
    sequence = WhisperSequence(asked, END, 448)
    rows = [row for row in sequence.logits_rows() if row.purpose is Purpose.TOKEN]
    for place, row in enumerate(rows):
        assert row.ends == (sum(token < END for token in draft[:place]) >= at_least)


def test_behind_times_alone_it_still_goes_on() -> None:
    sequence = WhisperSequence(request(at_least=1, timestamps=True), END, 448)
    sequence.absorb([STAMP], [-0.1])
    assert [row.ends for row in sequence.logits_rows()] == [False]
    sequence.absorb([3], [-0.1])
    assert [row.ends for row in sequence.logits_rows()] == [True]


@pytest.mark.parametrize("num_drafted", [0, 3])
@pytest.mark.parametrize("timestamps", [False, True])
def test_a_word_comes_instead_of_the_end(
    tmp_path: Path, timestamps: bool, num_drafted: int
) -> None:
    folder = build_random_whisper(tmp_path / "model", layers=2, width=32)
    tokenizer = WhisperTokenizer.from_folder(folder)
    model = WhisperModel.from_folder(folder)
    start = (20, 21, tokenizer.timestamp_begin + 3, tokenizer.timestamp_begin + 3)
    plain = replace(
        ask(tokenizer, "a", 0, 1.0),
        settled=(),
        timestamps=timestamps,
        prefix=start[: 2 + 2 * timestamps],
    )

    def hear(**changes: object) -> tuple[int, ...]:
        [result] = run(WhisperRunner(model, tokenizer, 2, pads=True), [replace(plain, **changes)])  # type: ignore[arg-type]
        return result.tokens

    first, *rest = hear()
    draft = (first, *rest)[:num_drafted]
    ends = frozenset([first])
    assert hear(end_tokens=ends, draft=draft) == ()
    other = hear(end_tokens=ends, draft=draft, at_least=1)
    assert other and other[0] not in (first, tokenizer.eot)
    assert hear(at_least=1, draft=draft) == hear(), "nothing else changes"


@pytest.mark.parametrize("num_drafted", [0, 4])
@pytest.mark.parametrize("timestamps", [False, True])
def test_another_token_comes_instead_of_a_barred_one(
    tmp_path: Path, timestamps: bool, num_drafted: int
) -> None:
    folder = build_random_whisper(tmp_path / "model", layers=2, width=32)
    tokenizer = WhisperTokenizer.from_folder(folder)
    runner = WhisperRunner(WhisperModel.from_folder(folder), tokenizer, 2, pads=True)
    plain = replace(ask(tokenizer, "a", 0, 1.0), settled=(), timestamps=timestamps)
    [first] = run(runner, [plain])
    place = 3
    draft = first.tokens[:num_drafted]
    barred = replace(plain, key="b", barred=(place, first.tokens[place]), draft=draft)
    other, same = run(runner, [barred, replace(plain, draft=draft)])
    assert same.tokens == first.tokens, "a request beside it is not disturbed"
    assert other.tokens[:place] == first.tokens[:place]
    assert other.tokens[place] != first.tokens[place]
