"""How Qwen3-ASR listens: what is closed stays, what is promised is kept, headers never show."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear import kernels
from lookhear.engine.core.request import StopReason
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.digests import MediaSpan, block_digests
from lookhear.engine.paged.request import PagedRequest
from lookhear.engine.paged.sound import HOP
from lookhear.engine.speech.text.hypothesis import Hypothesis
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.speech.scripted_asr import (
    DIMS,
    WINDOW,
    WINDOW_TOKENS,
    Ear,
    make_tokenizer,
    result_of,
)

growth = st.lists(st.integers(1, 20_000), min_size=2, max_size=8)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> QwenTokenizer:
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def clip(seed: int, length: int) -> np.ndarray:
    """Noise of changing loudness."""
    rng = np.random.default_rng(seed)
    loudness = np.repeat(rng.uniform(0.001, 0.5, -(-length // 4000)), 4000)[:length]
    return (rng.normal(size=length) * loudness).astype(np.float32)


def names(request: PagedRequest) -> list[bytes]:
    spans = [MediaSpan(m.digest, start, m.num_tokens) for start, m in request.media]
    return block_digests(request.tokens, spans)


# --- windows -------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 99), pieces=growth)
def test_closed_windows_stay_however_the_audio_grows(
    tokenizer: QwenTokenizer, seed: int, pieces: list[int]
) -> None:
    samples, ear, end = clip(seed, sum(pieces) + 40_000), Ear(tokenizer), 0
    before: PagedRequest | None = None
    for piece in (*pieces, 40_000):
        end += piece
        request = ear.ask(samples[:end])
        media = [medium for _, medium in request.media]
        closed = (end - 40) // WINDOW  # all frames of a window see 200 samples past their middle
        assert all(m.features.shape == (20, 200) for m in media[:closed])
        assert sum(m.num_tokens for m in media) == DIMS.num_tokens(max(end, 8000) // HOP)
        if before is not None:
            # The same objects: the encoder cache and the prefix cache know them.
            old = [medium for _, medium in before.media]
            final = before.final_tokens
            for i in range(len(old)):
                if before.media[i][0] + old[i].num_tokens <= final:
                    assert media[i] is old[i]
            assert request.final_tokens >= final
            assert request.tokens[:final] == before.tokens[:final]
            assert names(request)[: final // BLOCK_TOKENS] == names(before)[: final // BLOCK_TOKENS]
        before = request
    assert before is not None
    start = before.media[0][0]
    assert before.final_tokens == start + WINDOW_TOKENS * ((end - 40) // WINDOW)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 99), pieces=growth)
def test_closed_windows_do_not_depend_on_when_ticks_came(
    tokenizer: QwenTokenizer, seed: int, pieces: list[int]
) -> None:
    samples = clip(seed, sum(pieces) + WINDOW)
    ear, end = Ear(tokenizer), 0
    for piece in (*pieces, WINDOW):
        end += piece
        request = ear.ask(samples[:end])
    at_once = Ear(tokenizer).ask(samples)
    for (_, one), (_, other) in zip(request.media, at_once.media, strict=True):
        np.testing.assert_allclose(one.features, other.features, atol=2e-5)


def test_a_louder_sound_later_changes_open_windows_only(tokenizer: QwenTokenizer) -> None:
    quiet = clip(1, 3 * WINDOW) * 0.1
    loud = np.concatenate([quiet, clip(2, WINDOW) * 50])
    frozen, fed_anew = Ear(tokenizer), Ear(tokenizer, freeze=False)
    for ear, same in ((frozen, True), (fed_anew, False)):
        before = ear.ask(quiet).media[0][1].digest
        assert (ear.ask(loud).media[0][1].digest == before) is same


def test_without_freezing_features_are_those_of_the_whole_clip(tokenizer: QwenTokenizer) -> None:
    samples, ear = clip(3, 90_000), Ear(tokenizer, freeze=False)
    for end in (20_000, 50_000, 90_000):
        request = ear.ask(samples[:end])
        whole = kernels.log_mel(torch.from_numpy(samples[None, :end]), kernels.mel_filters(20))[0]
        mine = np.concatenate([m.features for _, m in request.media], axis=1)
        np.testing.assert_allclose(mine, whole.numpy(), atol=2e-5)
        assert request.final_tokens == request.media[0][0], "the text before the audio is final"


def test_without_freezing_the_header_is_drafted_all_the_same(tokenizer: QwenTokenizer) -> None:
    samples, ear = clip(0, 30_000), Ear(tokenizer, freeze=False)
    ear.ask(samples[:20_000])
    heard = ear.heard(result_of(ear.answer("language English<asr_text>hi")))
    assert ear.ask(samples, draft=heard).draft == ear.answer("language English<asr_text>hi")


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 99), end=st.integers(20_000, 110_000), cut=st.integers(8_000, 110_000))
def test_a_cut_at_a_quiet_place_forgets_what_lies_behind_it(
    tokenizer: QwenTokenizer, seed: int, end: int, cut: int
) -> None:
    samples, ear = clip(seed, end), Ear(tokenizer)
    long = ear.ask(samples)
    cut = min(cut, end)
    short = ear.ask(samples[:cut])
    assert sum(m.num_tokens for _, m in short.media) == DIMS.num_tokens(cut // HOP)
    kept = max(0, cut - 200 + HOP) // WINDOW
    for i in range(min(kept, len(long.media))):
        assert short.media[i][1] is long.media[i][1]
    fresh = Ear(tokenizer).ask(samples[:cut])
    shapes = [m.features.shape for _, m in short.media]
    assert shapes == [m.features.shape for _, m in fresh.media]


def test_a_new_segment_begins_with_nothing(tokenizer: QwenTokenizer) -> None:
    ear = Ear(tokenizer)
    ear.ask(clip(1, 3 * WINDOW))
    heard = ear.heard(result_of(ear.answer("language English<asr_text>hi")))
    assert heard.language == "en"
    other = clip(2, 2 * WINDOW)
    request = ear.ask(other, start=3 * WINDOW, draft=Hypothesis())
    fresh = Ear(tokenizer).ask(other, start=3 * WINDOW, draft=Hypothesis())
    assert request.draft == () and request.tokens == fresh.tokens
    for (_, mine), (_, theirs) in zip(request.media, fresh.media, strict=True):
        np.testing.assert_array_equal(mine.features, theirs.features)
        assert (mine.digest == theirs.digest) is mine.is_final


@pytest.mark.parametrize("length", [0, 1, 160, 201, 7999])
def test_short_clips_are_padded_and_the_padding_is_forgotten(
    tokenizer: QwenTokenizer, length: int
) -> None:
    samples, ear = clip(1, 30_000), Ear(tokenizer)
    request = ear.ask(samples[:length])
    ((_, medium),) = request.media
    assert medium.features.shape == (20, 50) and medium.num_tokens == DIMS.num_tokens(50)
    assert np.isfinite(medium.features).all()
    later = ear.ask(samples)
    fresh = Ear(tokenizer).ask(samples)
    assert later.tokens == fresh.tokens
    for (_, mine), (_, theirs) in zip(later.media, fresh.media, strict=True):
        np.testing.assert_array_equal(mine.features, theirs.features)


# --- prompt and answer ---------------------------------------------------------------------------


def test_the_language_is_forced_in_front_of_settled_words(tokenizer: QwenTokenizer) -> None:
    ear = Ear(tokenizer, prompt="Ada Lovelace")
    words = tokenizer.encode("hello there")
    request = ear.ask(clip(0, 20_000), language="en", committed=words, draft=Hypothesis((5, 6)))
    text = tokenizer.decode(request.tokens)
    assert text.endswith("assistant\nlanguage English<asr_text>hello there")
    assert "Ada Lovelace" in text
    assert request.draft == (5, 6), "the header is in the prompt, not in the draft"
    said = ear.heard(result_of(tokenizer.encode(" again")))
    assert tokenizer.decode(said.tokens) == " again"


def test_the_draft_is_the_header_and_the_last_hypothesis(tokenizer: QwenTokenizer) -> None:
    samples, ear = clip(0, 30_000), Ear(tokenizer)
    assert ear.ask(samples[:20_000], draft=Hypothesis()).draft == ()
    answer = ear.answer("language German<asr_text>eins zwei")
    heard = ear.heard(result_of(answer))
    assert heard.language == "de" and tokenizer.decode(heard.tokens) == "eins zwei"
    assert ear.ask(samples, draft=heard).draft == answer
    assert ear.ask(samples, draft=None).draft == (), "verification is off"


@pytest.mark.parametrize("language", ["Klingon", None])
def test_words_settled_without_a_known_language_keep_their_header(
    tokenizer: QwenTokenizer, language: str | None
) -> None:
    """The model goes on with its own answer; it is not asked to answer without a header."""
    samples, ear = clip(0, 30_000), Ear(tokenizer)
    ear.ask(samples[:20_000])
    header = "" if language is None else f"language {language}<asr_text>"
    heard = ear.heard(result_of(ear.answer(header + "nuq neH")))
    assert heard.language is None
    said, rest = heard.split(3)
    for end in (25_000, 30_000):
        request = ear.ask(samples[:end], committed=said.tokens, draft=rest)
        assert request.tokens[-len(ear.answer(header)) - 3 :] == (
            *ear.answer(header),
            *said.tokens,
        )
        assert request.draft == rest.tokens
        again = ear.heard(result_of(rest.tokens))
        assert again.tokens == rest.tokens


@pytest.mark.parametrize("known", [True, False])
def test_no_part_of_a_header_is_ever_shown(tokenizer: QwenTokenizer, known: bool) -> None:
    """Wherever the answer was cut off, what shows is a beginning of the words."""
    ear = Ear(tokenizer)
    words = "language lessons are <asr_text>fun" if known else "hello there"
    answer = ear.answer("language English<asr_text>" + words)
    ear.ask(clip(0, 20_000))
    shown = words.replace("<asr_text>", "")
    for n in range(len(answer) + 1):
        heard = ear.heard(result_of(answer[:n], StopReason.LENGTH))
        assert shown.startswith(ear.decode_bytes(heard.tokens).decode())
        assert b"".join(map(ear.token_bytes, heard.tokens)) == ear.decode_bytes(heard.tokens)
    assert ear.decode_bytes(heard.tokens).decode() == shown


@pytest.mark.parametrize(
    ("answer", "text", "language"),
    [
        ("", "", None),
        ("language None<asr_text>", "", None),
        ("language None", "", None),
        ("language English<asr_text>", "", "en"),
        ("language English<asr_text> \n", "", "en"),
        ("<asr_text>hello", "hello", None),
        ("hello", "hello", None),
        ("language is fun", "language is fun", None),
    ],
)
def test_answers_with_and_without_a_header(
    tokenizer: QwenTokenizer, answer: str, text: str, language: str | None
) -> None:
    ear = Ear(tokenizer)
    ear.ask(clip(0, 20_000))
    heard = ear.heard(result_of(ear.answer(answer)))
    assert ear.decode_bytes(heard.tokens).decode() == text
    assert heard.language == language and len(heard.logprobs) == len(heard.tokens)


def test_a_forced_language_never_shows_a_tag_either(tokenizer: QwenTokenizer) -> None:
    ear = Ear(tokenizer)
    ear.ask(clip(0, 20_000), language="en")
    heard = ear.heard(result_of(ear.answer("<asr_text>hi<asr_text>")))
    assert ear.decode_bytes(heard.tokens) == b"hi"


# --- cost ----------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(data=st.data(), freeze=st.booleans())
def test_a_request_never_takes_more_than_it_was_said_to(
    tokenizer: QwenTokenizer, data: st.DataObject, freeze: bool
) -> None:
    """Through growth, cuts, new segments and settled words: tokens in whole blocks, and audio."""
    ear = Ear(tokenizer, freeze=freeze, prompt=data.draw(st.sampled_from(["", "some words"])))
    samples = clip(0, 120_000)
    start, end, language = 0, 0, data.draw(st.sampled_from([None, "en", "yue", "pt"]))
    encoded: set[bytes] = set()
    committed: tuple[int, ...] = ()
    for _ in range(data.draw(st.integers(1, 8))):
        step = data.draw(st.sampled_from(["grow", "grow", "cut", "segment"]))
        if step == "segment":
            start, end, committed = start + max(1, end), 0, ()
        elif step == "cut":
            end = data.draw(st.integers(end // 2, end))
        if step != "cut":
            end = min(len(samples), end + data.draw(st.integers(0, 60_000)))
        cost = ear.cost(start, end, len(committed))
        request = ear.ask(samples[:end], start=start, language=language, committed=committed)
        blocks = -(-request.reserved_tokens // BLOCK_TOKENS)
        assert cost.tokens % BLOCK_TOKENS == 0 and cost.tokens >= blocks * BLOCK_TOKENS
        fresh = [m for _, m in request.media if m.digest not in encoded]
        assert cost.encoder >= sum(m.features.shape[1] for m in fresh) * HOP
        encoded |= {m.digest for m in fresh}
        assert cost.encoder <= max(end, SAMPLE_RATE // 2)
        if not committed:
            header = "" if language else "language Vietnamese<asr_text>"
            heard = ear.heard(result_of(ear.answer(header + "one two")))
            committed = heard.tokens[: data.draw(st.integers(0, len(heard.tokens)))]
