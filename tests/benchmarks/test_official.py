"""The published streaming recipe as the benchmark runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from benchmarks.in_process.direct import Direct
from benchmarks.in_process.official import CHUNK, NEW_TOKENS, Stream, encode_answer, rolled_back
from lookhear.engine.core.request import Result
from lookhear.engine.paged.request import PagedRequest
from tools.random_checkpoints.qwen3 import build_served_qwen3_asr


def as_bytes(tokens: Sequence[int]) -> str:
    """A vocabulary whose ids are bytes."""
    return bytes(tokens).decode("utf-8", errors="replace")


def test_the_prefix_lacks_the_last_five_tokens() -> None:
    assert rolled_back(list(b"one two three"), as_bytes) == "one two "
    assert rolled_back(list(b"one"), as_bytes) == ""
    assert rolled_back(list(b"fives"), as_bytes) == ""


def test_the_rollback_grows_while_half_a_character_is_left() -> None:
    # Five bytes back from the end is in the middle of the second of two 3-byte characters.
    tokens = list("a日本".encode() + b"bcd")
    assert as_bytes(tokens[:-5]) == "a日\ufffd"
    assert rolled_back(tokens, as_bytes) == "a日"
    assert rolled_back(list("日本".encode()), as_bytes) == ""


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Direct:
    folder = tmp_path_factory.mktemp("qwen3_asr")
    build_served_qwen3_asr(folder)
    return Direct(folder, max_context=512)


class Recorder:
    """Keeps what goes through a `Direct`."""

    def __init__(self, direct: Direct) -> None:
        self._direct = direct
        self.tokenizer = direct.tokenizer
        self.requests: list[PagedRequest] = []
        self.prefixes: list[list[int]] = []

    def request(self, *args: Any, **kwargs: Any) -> PagedRequest:
        self.prefixes.append(list(kwargs["prefix"]))
        self.requests.append(self._direct.request(*args, **kwargs))
        return self.requests[-1]

    def run(self, requests: Sequence[PagedRequest]) -> list[Result]:
        return self._direct.run(requests)


def test_every_chunk_reads_all_the_audio_anew(direct: Direct) -> None:
    recorder: Any = Recorder(direct)
    stream = Stream(recorder)
    found, encoded = direct.runner.num_found, direct.runner.stats()["media_tokens_encoded"]
    raws, audio_tokens = [], 0
    for number in range(4):
        noise = np.random.default_rng(number).normal(0.0, 0.1, CHUNK)
        stream.hear(noise.astype(np.float32))
        raws.append(stream.raw)
        tokens = sum(medium.num_tokens for _, medium in recorder.requests[-1].media)
        assert tokens == (number + 1) * 26
        audio_tokens += tokens
    assert direct.runner.num_found == found  # nothing out of the prefix cache
    assert (
        direct.runner.stats()["media_tokens_encoded"] - encoded == audio_tokens
    )  # nor out of the encoder's
    assert recorder.prefixes[:2] == [[], []]
    tokenizer = direct.tokenizer
    for before, prefix, after in zip(raws[1:3], recorder.prefixes[2:], raws[2:], strict=True):
        text = rolled_back(encode_answer(tokenizer, before), tokenizer.decode)
        assert prefix == encode_answer(tokenizer, text)
        assert after.startswith(text)
        assert "\ufffd" not in text
    assert all(request.max_new_tokens == NEW_TOKENS for request in recorder.requests)
    direct.runner.check(0)


def test_the_header_of_an_answer_is_one_token(direct: Direct) -> None:
    tokenizer = direct.tokenizer
    ids = encode_answer(tokenizer, "language English<asr_text>the end")
    assert ids.count(tokenizer.token("<asr_text>")) == 1
    assert tokenizer.decode(ids) == "language English<asr_text>the end"
