"""Pictures side by side: both engines are asked the same, and the counters tell what was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.in_process.vision_engines import MODES, Ours, Theirs
from benchmarks.in_process.vision_inputs import GEOMETRY, Geometry, Vocabulary
from benchmarks.vision import Run, _summary, second_question

SHAPES = (((3, 2), 5, 4), ((2, 4), 9, 7))
TINY = Geometry(
    "tiny",
    {
        "vocab_size": 200,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
    },
    {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 40,
        "num_heads": 2,
        "num_position_embeddings": 36,
        "deepstack_visual_indexes": [0],
    },
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vision")
    TINY.build(folder)
    return folder


def test_both_answer_alike_one_by_one_and_together(folder: Path) -> None:
    ours = Ours(folder)
    theirs = Theirs(folder, MODES[0], ours.model.encoder.dims)
    questions = Vocabulary.of(folder).questions(SHAPES)
    together = ours.ask(questions, b"together")
    assert together.answers == theirs.ask(theirs.inputs(questions), questions)
    assert together.encoded == 6 + 8 and together.read == sum(len(q.tokens) for q in questions)
    assert [len(answer) for answer in together.answers] == [4, 7]
    for question, answer in zip(questions, together.answers, strict=True):
        assert ours.ask([question], b"alone").answers == [answer]
        assert theirs.ask(theirs.inputs([question]), [question]) == [answer]


def test_a_fresh_salt_finds_nothing_and_an_old_one_does(folder: Path) -> None:
    ours = Ours(folder)
    questions = Vocabulary.of(folder).questions([((8, 4), 20, 4)])
    first, second, again = (ours.ask(questions, salt) for salt in (b"a", b"b", b"a"))
    assert first.answers == second.answers == again.answers
    assert first.read == second.read > again.read
    assert (first.encoded, again.encoded) == (32, 0)


def test_the_second_question_reads_what_is_new(folder: Path) -> None:
    found = second_question(Ours(folder), Vocabulary.of(folder), rounds=1)
    assert found["first_encoded"] == found["picture_tokens"] == 1024
    assert found["second_encoded"] == 0
    # A block that was not full is read again.
    assert found["new_words"] <= found["second_read"] < found["new_words"] + 16


def test_ratios_are_taken_within_rounds_of_the_better_peer() -> None:
    def runs(*cpu: float) -> list[Run]:
        return [Run(2 * seconds, seconds, [[1, 2]]) for seconds in cpu]

    slow, fast, mine = runs(6, 6, 6), runs(4, 8, 3), runs(2, 2, 2)
    tried = {"ours": mine[0], "float32 sdpa": slow[0], "bfloat16 sdpa": fast[0]}
    peers = ("float32 sdpa", "bfloat16 sdpa")
    taken = {"ours": mine, "float32 sdpa": slow, "bfloat16 sdpa": fast}
    summary = _summary(tried, taken, peers)
    assert summary["best_of_transformers"] == "bfloat16 sdpa"
    assert summary["ours"]["times_faster"] == {"median": 2.0, "min": 1.5, "max": 4.0}


def test_words_have_no_meaning_of_their_own(folder: Path) -> None:
    vocabulary = Vocabulary.of(folder)
    assert not {vocabulary.image, vocabulary.vision_start, vocabulary.vision_end} & {
        *vocabulary.words
    }
    assert set(GEOMETRY) == {"demo", "shaped"}
