"""A recording for Qwen3-ASR: covered piece by piece, cut where nobody speaks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.messages import SAMPLE_RATE, FileFailed, FileTranscribed, TranscribeFile
from lookhear.engine.messages import TranscriptionSettings as Settings
from lookhear.engine.qwen3_asr.file import AsrFile
from lookhear.engine.speech.file import SHORTEST
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tests.engine.speech.scripted_asr import Ear, make_tokenizer, result_of

CAP = 4 * SAMPLE_RATE


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> QwenTokenizer:
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def recording(
    tokenizer: QwenTokenizer,
    samples: np.ndarray,
    speech: list[tuple[int, int]] | None = None,
    **changes: object,
) -> tuple[AsrFile, Ear]:
    ear = Ear(tokenizer)
    wanted = Settings(model="m", **changes)  # type: ignore[arg-type]
    return AsrFile(TranscribeFile("f", wanted, samples, speech=speech), ear, CAP), ear


def listen(job: AsrFile, ear: Ear, answers: list[str]) -> FileTranscribed:
    events = job.settle()
    for number in range(1000):
        if not job.wants_request():
            break
        cost, request = job.cost(), job.make_request()
        assert not job.wants_request(), "one piece at a time"
        assert cost.tokens >= request.reserved_tokens
        answer = answers[number % len(answers)]
        if ear.stretches[-1].language:  # the header is in the prompt
            answer = answer.split("<asr_text>")[-1]
        events += job.absorb(result_of(ear.answer(answer)))
    (done,) = events
    assert isinstance(done, FileTranscribed) and job.is_done and not job.is_urgent
    return done


@settings(max_examples=25, deadline=None)
@given(length=st.integers(0, 14 * SAMPLE_RATE), seed=st.integers(0, 99))
def test_the_pieces_are_the_recording(tokenizer: QwenTokenizer, length: int, seed: int) -> None:
    samples = np.random.default_rng(seed).normal(size=length).astype(np.float32)
    job, ear = recording(tokenizer, samples)
    done = listen(job, ear, ["language English<asr_text>one two"])
    pieces = [stretch.samples for stretch in ear.stretches]
    assert all(stretch.num_voiced == len(stretch.samples) for stretch in ear.stretches)
    heard = np.concatenate([*pieces, np.zeros(0, np.float32)])
    assert np.array_equal(heard, samples[: len(heard)]) and len(samples) - len(heard) < SHORTEST
    assert all(len(piece) <= CAP for piece in pieces)
    assert all(len(piece) >= CAP // 2 for piece in pieces[:-1])
    starts = [round(segment.start * SAMPLE_RATE) for segment in done.segments]
    assert starts == [stretch.start for stretch in ear.stretches]
    assert done.duration == length / SAMPLE_RATE
    assert done.text == " ".join(["one two"] * len(pieces))
    ends = [segment.end for segment in done.segments]
    assert ends[:-1] == [segment.start for segment in done.segments[1:]]


def test_cuts_are_where_nobody_speaks(tokenizer: QwenTokenizer) -> None:
    rng = np.random.default_rng(0)
    samples = rng.normal(size=9 * SAMPLE_RATE).astype(np.float32)
    gaps = [(3.0, 3.2), (5.5, 5.7)]  # seconds, in the second half of the first two pieces
    for a, b in gaps:
        samples[round(a * SAMPLE_RATE) : round(b * SAMPLE_RATE)] = 0.0
    job, ear = recording(tokenizer, samples)
    done = listen(job, ear, ["hi"])
    cuts = [segment.end for segment in done.segments[:-1]]
    assert all(a < cut < b for cut, (a, b) in zip(cuts, gaps, strict=True))


def test_each_piece_says_its_own_language(tokenizer: QwenTokenizer) -> None:
    samples = np.ones(10 * SAMPLE_RATE, np.float32)
    job, ear = recording(tokenizer, samples)
    answers = ["None<asr_text>", "German<asr_text>eins", "English<asr_text>two", "drei"]
    done = listen(job, ear, [*(f"language {a}" for a in answers[:3]), answers[3]])
    assert {stretch.language for stretch in ear.stretches} == {None}
    assert [segment.language for segment in done.segments][:3] == ["de", "en", "en"]
    assert done.text.startswith("eins two drei")
    assert len(done.segments) == len(ear.stretches) - 1, "a piece without speech is no segment"


def test_a_language_that_was_told_is_that_of_all_pieces(tokenizer: QwenTokenizer) -> None:
    samples = np.ones(5 * SAMPLE_RATE, np.float32)
    job, ear = recording(tokenizer, samples, language="de")
    done = listen(job, ear, ["language English<asr_text>one"])
    assert {stretch.language for stretch in ear.stretches} == {done.language} == {"de"}


def test_languages_without_spaces_are_joined_without(tokenizer: QwenTokenizer) -> None:
    job, ear = recording(tokenizer, np.ones(7 * SAMPLE_RATE, np.float32))
    done = listen(job, ear, ["language Chinese<asr_text>你", "好"])
    assert done.text.startswith("你好") and " " not in done.text


def test_a_given_language_is_forced_from_the_first_piece_on(tokenizer: QwenTokenizer) -> None:
    job, ear = recording(tokenizer, np.ones(6 * SAMPLE_RATE, np.float32), language="fr")
    assert listen(job, ear, ["oui"]).language == "fr"
    assert {s.language for s in ear.stretches} == {"fr"}


@pytest.mark.parametrize("length", [0, 1, SHORTEST - 1])
def test_nothing_worth_hearing_needs_no_model(tokenizer: QwenTokenizer, length: int) -> None:
    job, ear = recording(tokenizer, np.ones(length, np.float32))
    done = listen(job, ear, ["never asked"])
    assert done.text == "" and not ear.stretches and done.segments == []


def test_a_very_short_recording_is_heard_once(tokenizer: QwenTokenizer) -> None:
    job, ear = recording(tokenizer, np.ones(SHORTEST, np.float32))
    assert listen(job, ear, ["language English<asr_text>hm"]).text == "hm"
    assert len(ear.stretches) == 1


def test_a_failure_ends_the_file_with_its_reason(tokenizer: QwenTokenizer) -> None:
    job, _ = recording(tokenizer, np.ones(SAMPLE_RATE, np.float32))
    job.make_request()
    (event,) = job.fail("server_error", "why")
    assert event == FileFailed("f", "server_error", "why")
    assert job.is_done and not job.wants_request()


def test_cues_are_sentences_that_end_where_nobody_speaks(tokenizer: QwenTokenizer) -> None:
    speech = [(8_000, 24_000), (32_000, 60_000)]  # 0.5 to 1.5 s, 2 to 3.75 s
    job, ear = recording(tokenizer, np.ones(CAP, np.float32), speech)
    done = listen(job, ear, ["language English<asr_text>One two. Three four five, six."])
    assert [s.text.strip() for s in done.segments] == ["One two.", "Three four five, six."]
    assert [(s.start, s.end) for s in done.segments] == [(0.5, 1.5), (2.0, 3.75)]
    assert done.text == "One two. Three four five, six."


def test_nothing_is_heard_where_nobody_speaks(tokenizer: QwenTokenizer) -> None:
    far = [(30 * SAMPLE_RATE, 31 * SAMPLE_RATE)]
    job, ear = recording(tokenizer, np.ones(60 * SAMPLE_RATE, np.float32), far)
    done = listen(job, ear, ["language English<asr_text>yes"])
    assert sum(len(stretch.samples) for stretch in ear.stretches) < 2 * SAMPLE_RATE
    [segment] = done.segments
    assert (segment.start, segment.end) == (30.0, 31.0) and done.duration == 60.0
    job, ear = recording(tokenizer, np.ones(60 * SAMPLE_RATE, np.float32), [])
    assert listen(job, ear, ["never asked"]).text == "" and not ear.stretches


def test_log_probabilities_join_to_the_text(tokenizer: QwenTokenizer) -> None:
    job, ear = recording(tokenizer, np.ones(9 * SAMPLE_RATE, np.float32), logprobs=True)
    done = listen(job, ear, ["language English<asr_text>one two. three", "four"])
    assert done.logprobs is not None
    assert b"".join(bytes(t.bytes) for t in done.logprobs).decode() == done.text
