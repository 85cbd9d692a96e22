"""A prompt with a token that only the tokenizer has is refused, and takes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lookhear.engine.core.request import RequestError
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.model import WhisperModel
from lookhear.engine.whisper.runner import WhisperRunner
from tests.engine.whisper.test_settled import ask, run
from tools.random_checkpoints.whisper import build_random_whisper


def test_it_is_refused_and_the_next_one_is_heard(tmp_path: Path) -> None:
    folder = build_random_whisper(tmp_path / "model", layers=1, width=16)
    tokenizer, model = WhisperTokenizer.from_folder(folder), WhisperModel.from_folder(folder)
    runner = WhisperRunner(model, tokenizer, 1, pads=True)
    request = replace(ask(tokenizer, "a", 0, 1.0), settled=())
    odd = replace(request, head=(tokenizer.prev, model.dims.vocab, tokenizer.sot))
    with pytest.raises(RequestError, match="expected tokens that the model has") as caught:
        runner.place(odd)
    assert caught.value.code == "invalid_value"
    runner.check(0)
    [result] = run(runner, [request])
    assert result.tokens
